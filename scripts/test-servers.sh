#!/bin/sh
# Runs the container suite on servers of every age, each from the Debian suite that has it, by Compose of both ages.
#   scripts/test-servers.sh [NAME...]      (redis-6.0, redis-7.0, redis-8.0, valkey-8.1, valkey-9.1, redict-7.3; all by default)
# It prints a line for each server, below the output of tests that failed. COMPOSE=1 or 2 takes that version for all.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
cache=target/servers

# name, Debian suite, name in its packages and programs, version of Compose
servers="redis-6.0 bullseye redis 1
redis-7.0 bookworm redis 2
redis-8.0 trixie redis 1
valkey-8.1 trixie valkey 2
valkey-9.1 sid valkey 1
redict-7.3 sid redict 2"
names=$(echo "$servers" | cut -d ' ' -f 1)
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $names

fail() {
    echo "test-servers.sh: $*" >&2
    exit 1
}

docker info >/dev/null 2>&1 || fail "no docker engine answers ('docker info' fails)"
for name in "$@"; do
    echo "$names" | grep -qx "$name" || fail "'$name' is none of" $names
done
case ${COMPOSE:-1} in 1 | 2) ;; *) fail "COMPOSE is 1 or 2, not '$COMPOSE'" ;; esac

# A program that calls Compose of an age, which runs on the libraries of its own suite.
make_compose() {
    folder=$cache/compose-$1
    case $1 in
    1) has=bookworm program="/usr/bin/python3 $PWD/$folder/root/usr/bin/docker-compose" ;;
    2) has=trixie program=/usr/libexec/docker/cli-plugins/docker-compose ;;
    esac
    "$here/debian-root.sh" "$has" "$folder" docker-compose || return
    root=$PWD/$folder/root
    loader=$(ls "$root"/lib*/ld-linux*.so.* | head -n 1)
    libraries=$(dirname "$(ls "$root"/usr/lib/*/libc.so.6 "$root"/lib/*/libc.so.6 | head -n 1)")
    cat >"$folder/docker-compose" <<PROGRAM
#!/bin/sh
export PYTHONHOME=$root/usr PYTHONPATH=$root/usr/lib/python3/dist-packages PYTHONWARNINGS=ignore
exec $loader --library-path $libraries $root$program "\$@"
PROGRAM
    chmod +x "$folder/docker-compose"
    MULTILOCK_COMPOSE=$PWD/$folder/docker-compose
    export MULTILOCK_COMPOSE
    "$MULTILOCK_COMPOSE" version >/dev/null
}

# How many tests have passed and failed, by the summaries that their runners print: of each fault of the chaos run one.
counts() {
    sed -n -e 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed;.*/\1 \2/p' \
        -e 's/^chaos: .* histories=\([0-9]*\) violations=\([0-9]*\) unexpected=\([0-9]*\).*/\1 \2 \3/p' "$1" |
        awk '{ failed = $2 + $3; if (NF == 3 && failed > $1) failed = $1
               passed_all += NF == 3 ? $1 - failed : $1; failed_all += failed }
             END { print passed_all + 0, failed_all + 0 }'
}

# The suite on one server.
run() {
    name=$1 suite=$2 make=$3
    make_compose "${COMPOSE:-$4}" || return
    "$here/debian-root.sh" "$suite" "$cache/$name" "$make-server" "$make-tools" || return
    MULTILOCK_REDIS_IMAGE=multilock-$name:local
    export MULTILOCK_REDIS_IMAGE
    "$here/redis-image.sh" "$MULTILOCK_REDIS_IMAGE" "$cache/$name/root" "$make-server" "$make-cli" || return
    version=$(docker run --rm "$MULTILOCK_REDIS_IMAGE" --version | sed -n 's/.* v=\([^ ]*\) .*/\1/p')
    case $version in
    "${name#*-}".*) ;;
    *)
        echo "test-servers.sh: $name from Debian $suite is of version '$version'" >&2
        return 1
        ;;
    esac
    log=$cache/$name.log
    status=0
    "$here/test-compose.sh" >"$log" 2>&1 || status=$?
    counted=$(counts "$log")
    passed=${counted% *} failed=${counted#* }
    if [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; then
        cat "$log" >&2
        status=1
        # A suite that ended without a summary counts as one failure.
        [ "$failed" -gt 0 ] || failed=1
    fi
    echo "servers: name=$make version=$version passed=$passed failed=$failed"
    return "$status"
}

outcome=0
for name in "$@"; do
    # shellcheck disable=SC2046 # the words of its line
    run $(echo "$servers" | grep "^$name ") || outcome=1
done
exit $outcome
