#!/bin/sh
# Unpacks packages of a Debian suite with all their dependencies into a root file system of their own. The suite may
# differ from this machine's. Nothing is installed, and no program of the packages is run. A complete root stays.
#   scripts/debian-root.sh SUITE FOLDER PACKAGE...        (the root is FOLDER/root)
set -eu

suite=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

[ "$(cat "$folder/complete" 2>/dev/null)" != "$suite $*" ] || exit 0

fail() {
    echo "debian-root.sh: $*" >&2
    exit 1
}

for tool in apt-get dpkg-deb tar; do
    command -v "$tool" >/dev/null 2>&1 || fail "'$tool' is needed to unpack $* of Debian $suite and is not installed"
done
[ -e "$keys" ] || fail "$keys is missing; install debian-archive-keyring"

# An apt of its own: it knows this suite alone, and nothing as installed.
apt=$folder/apt
rm -rf "$apt" "$folder/root" "$folder/complete"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/preferences.d"
: >"$apt/status"
echo "deb [signed-by=$keys] $mirror $suite main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<CONF
Dir "$apt";
Dir::Etc "$apt";
Dir::State "$apt";
Dir::State::Status "$apt/status";
Dir::Cache "$apt";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
// The lists of "sid" are valid for a week, and a mirror may keep older ones. Their signature is checked all the same.
Acquire::Check-Valid-Until "false";
CONF
if ! {
    APT_CONFIG=$apt/apt.conf apt-get update --error-on=any &&
        APT_CONFIG=$apt/apt.conf apt-get install -y --download-only "$@"
} >"$apt/log" 2>&1; then
    cat "$apt/log" >&2
    fail "Debian's suite $suite at $mirror cannot be reached, or has no $*"
fi

# Later suites expect the folders to be merged, and the packages of earlier ones go through the links as well.
for merged in bin lib lib64 sbin; do
    mkdir -p "$folder/root/usr/$merged"
    ln -s "usr/$merged" "$folder/root/$merged"
done
for package in "$apt"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --no-same-owner --keep-directory-symlink -C "$folder/root" ||
        fail "$package cannot be unpacked"
done
rm -rf "$apt" "$folder/root/usr/share/doc" "$folder/root/usr/share/man" "$folder/root/usr/share/locale"
echo "$suite $*" >"$folder/complete"
