#!/bin/sh
# Installs one Debian package where that is allowed, else tells the user to install it. Quiet if all is well.
#
#     install-package.sh <package> <name of the missing program>
set -eu

package=$1
missing=$2

give_up() {
    echo "$missing is missing; $*" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || give_up "install your system's $package package"
[ "$(id -u)" -eq 0 ] || give_up "install it by 'sudo apt-get install $package'"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
if ! { apt-get update && apt-get install -y --no-install-recommends "$package"; } >"$log" 2>&1; then
    cat "$log" >&2
    give_up "and apt-get could not install $package"
fi
