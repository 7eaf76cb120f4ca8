#!/bin/sh
# Builds a small Redis image: out of this machine's own redis-server and redis-cli, for machines that reach no image
# registry, or out of a root file system that holds a server of another age or make.
#   scripts/redis-image.sh [TAG]                        (default multilock-redis:local)
#   scripts/redis-image.sh TAG ROOT SERVER CLI          (its programs, as named in ROOT/usr/bin)
set -eu

tag=${1:-multilock-redis:local}
root=${2:-}

needed=docker
[ -n "$root" ] || needed="docker ldd redis-server redis-cli"
for tool in $needed; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "redis-image.sh: '$tool' is needed to build $tag and is not installed" >&2
        exit 1
    fi
done

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# The two programs of this machine, and the libraries that they load.
copy_own() {
    for binary in redis-server redis-cli; do
        path=$(command -v "$binary")
        # Debian's redis-server is a link to another name; the image holds the file itself.
        cp -L "$path" "$context/root/usr/local/bin/$binary"
        # ldd prints "name => /path (address)" for a library and "/path (address)" for the loader.
        ldd "$path" | sed -n 's|^[^/]*\(/[^ ]*\) (0x.*|\1|p'
    done | sort -u >"$context/libraries"
    while read -r library; do
        mkdir -p "$context/root$(dirname "$library")"
        cp -L "$library" "$context/root$library"
    done <"$context/libraries"
}

if [ -n "$root" ]; then
    cp -a "$root" "$context/root"
fi
mkdir -p "$context/root/usr/local/bin" "$context/root/data" "$context/root/tmp"
chmod 1777 "$context/root/tmp"
if [ -n "$root" ]; then
    ln -s "/usr/bin/$3" "$context/root/usr/local/bin/redis-server"
    ln -s "/usr/bin/$4" "$context/root/usr/local/bin/redis-cli"
else
    copy_own
fi

cat >"$context/Dockerfile" <<'DOCKERFILE'
FROM scratch
COPY root /
ENV PATH=/usr/local/bin
WORKDIR /data
VOLUME /data
EXPOSE 6379
HEALTHCHECK --interval=3s --timeout=2s --retries=10 CMD ["redis-cli", "ping"]
ENTRYPOINT ["redis-server"]
DOCKERFILE

if ! docker build -t "$tag" "$context" >"$context/log" 2>&1; then
    cat "$context/log" >&2
    exit 1
fi
