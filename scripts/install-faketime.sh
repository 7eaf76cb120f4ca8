#!/bin/sh
# Makes sure that libfaketime is there, by which the chaos campaign sets the clocks of its servers.
# Says nothing if it is.
set -eu

give_up() {
    echo "install-faketime.sh: $*" >&2
    exit 1
}

if [ -n "${LIBFAKETIME:-}" ]; then
    [ -f "$LIBFAKETIME" ] || give_up "LIBFAKETIME names '$LIBFAKETIME', which is not there"
    exit 0
fi
for library in "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" \
    /usr/lib/faketime/libfaketime.so.1 /usr/lib64/faketime/libfaketime.so.1 \
    /usr/local/lib/faketime/libfaketime.so.1; do
    [ ! -f "$library" ] || exit 0
done

if ! command -v apt-get >/dev/null 2>&1; then
    give_up "libfaketime is missing; install your system's faketime package, or name the library in LIBFAKETIME"
fi
if [ "$(id -u)" -ne 0 ]; then
    give_up "libfaketime is missing; install it by 'sudo apt-get install faketime'"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
if ! { apt-get update && apt-get install -y --no-install-recommends faketime; } >"$log" 2>&1; then
    cat "$log" >&2
    give_up "apt-get could not install faketime"
fi
