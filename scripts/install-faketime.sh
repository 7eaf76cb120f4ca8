#!/bin/sh
# Makes sure that libfaketime is there, by which the chaos campaign sets the clocks of its servers.
# Says nothing if it is.
set -eu

if [ -n "${LIBFAKETIME:-}" ]; then
    [ -f "$LIBFAKETIME" ] && exit 0
    echo "LIBFAKETIME names '$LIBFAKETIME', which is not there" >&2
    exit 1
fi
for library in "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketime.so.1" \
    /usr/lib/faketime/libfaketime.so.1 /usr/lib64/faketime/libfaketime.so.1 \
    /usr/local/lib/faketime/libfaketime.so.1; do
    [ ! -f "$library" ] || exit 0
done

"$(dirname "$0")/install-package.sh" faketime "libfaketime, or the library named in LIBFAKETIME,"
