#!/bin/sh
# The chaos campaign: on servers of its own, then on those of docker-compose.yml where a docker engine
# answers. The last line counts both; it fails when a promise was broken.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

CHAOS=full
export CHAOS
summaries=$(mktemp)
up=
cleanup() {
    rm -f "$summaries"
    [ -z "$up" ] || "$here/cluster.sh" down
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# shellcheck disable=SC2086 # a list of words
# The table goes on; the summary is kept for the last line.
campaign() {
    { MULTILOCK_TEST_CLUSTER=$1 cargo test -q --all-features ${PACKAGES:-} --test chaos || failed=1; } >"$summaries.out"
    grep -v '^chaos: faults=' "$summaries.out" || :
    grep '^chaos: faults=' "$summaries.out" >>"$summaries" || failed=1
    rm -f "$summaries.out"
}

failed=0
echo "on servers of its own:"
campaign native
if docker info >/dev/null 2>&1; then
    up=1
    "$here/cluster.sh" up
    echo "on the masters of docker-compose.yml:"
    campaign compose
else
    echo "no docker engine answers: the compose campaign is left out"
fi

# The faults on containers are some of the others.
awk -F'[ =]' '
    { if ($3 > faults) faults = $3; histories += $5; violations += $7; unexpected += $9 }
    END { printf "chaos: faults=%d histories=%d violations=%d unexpected=%d\n", faults, histories, violations, unexpected }
' "$summaries"
exit "$failed"
