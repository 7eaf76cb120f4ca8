#!/bin/sh
# Makes sure that a redis-server binary is there for the native tests. Says nothing if it is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
wanted=${REDIS_SERVER:-redis-server}
if command -v "$wanted" >/dev/null 2>&1; then
    exit 0
fi
if [ "$wanted" != redis-server ]; then
    echo "REDIS_SERVER names '$wanted', which is not there; install it or unset REDIS_SERVER" >&2
    exit 1
fi
"$here/install-package.sh" redis-server "redis-server, or a compatible binary named in REDIS_SERVER,"

# The package starts a service on 6379, which nobody asked for. The package was not there before, so
# neither was its service; a server that someone runs by other means is not the service's and stays.
if [ -d /run/systemd/system ]; then
    systemctl disable --now redis-server >/dev/null
elif [ -x /etc/init.d/redis-server ]; then
    /etc/init.d/redis-server stop >/dev/null
fi

if ! command -v redis-server >/dev/null 2>&1; then
    echo "install-redis.sh: the package is installed, but redis-server is not on PATH" >&2
    exit 1
fi
