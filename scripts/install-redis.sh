#!/bin/sh
# Makes sure that a redis-server binary is there for the native tests. Says nothing if it is.
set -eu

wanted=${REDIS_SERVER:-redis-server}
if command -v "$wanted" >/dev/null 2>&1; then
    exit 0
fi

give_up() {
    echo "install-redis.sh: $*" >&2
    exit 1
}

if [ "$wanted" != redis-server ]; then
    give_up "REDIS_SERVER names '$wanted', which is not there; install it or unset REDIS_SERVER"
fi
if ! command -v apt-get >/dev/null 2>&1; then
    give_up "redis-server is missing; install your system's Redis package," \
        "or set REDIS_SERVER to a compatible binary"
fi
if [ "$(id -u)" -ne 0 ]; then
    give_up "redis-server is missing; install it by 'sudo apt-get install redis-server'"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND
if ! { apt-get update && apt-get install -y --no-install-recommends redis-server; } >"$log" 2>&1; then
    cat "$log" >&2
    give_up "apt-get could not install redis-server"
fi

# The package starts a service on 6379, which nobody asked for. The package was not there before, so
# neither was its service; a server that someone runs by other means is not the service's and stays.
if [ -d /run/systemd/system ]; then
    systemctl disable --now redis-server >"$log" 2>&1 || { cat "$log" >&2 && exit 1; }
elif [ -x /etc/init.d/redis-server ]; then
    /etc/init.d/redis-server stop >"$log" 2>&1 || { cat "$log" >&2 && exit 1; }
fi

command -v redis-server >/dev/null 2>&1 || give_up "the package is installed, but redis-server is not on PATH"
