#!/bin/sh
# Makes sure that prometheus and promtool are there. Says nothing if they are.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; then
    exit 0
fi
"$here/install-package.sh" prometheus "prometheus, with promtool,"

# The package starts a service on 9090, which nobody asked for.
if [ -d /run/systemd/system ]; then
    systemctl disable --now prometheus >/dev/null
elif [ -x /etc/init.d/prometheus ]; then
    /etc/init.d/prometheus stop >/dev/null
fi
