#!/bin/sh
# Builds a small Redis image out of this machine's own redis-server and redis-cli,
# for machines that reach no image registry.
#   scripts/redis-image.sh [tag]        (default multilock-redis:local)
set -eu

tag=${1:-multilock-redis:local}

for tool in docker ldd redis-server redis-cli; do
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "redis-image.sh: '$tool' is needed to build $tag and is not installed" >&2
        exit 1
    fi
done

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$context/root/usr/local/bin" "$context/root/data" "$context/root/tmp"
chmod 1777 "$context/root/tmp"

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
