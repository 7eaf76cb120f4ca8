#!/bin/sh
# Runs the tests that use a Cluster against the masters of docker-compose.yml, which it starts before and removes
# after, also after a failure. Then runs each fault of the chaos suite that containers can do, once.
#   scripts/test-compose.sh [MODULE...]      (the tests of these modules alone, and no faults)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

# One run at a time on a machine: another one has the same containers, and would remove them in the middle of this one.
# The children do not get the lock, so that it ends with this run.
turns=${TMPDIR:-/tmp}/multilock-compose-run.lock
if [ -z "${COMPOSE_TURN:-}" ] && command -v flock >/dev/null 2>&1 && (: >>"$turns") 2>/dev/null; then
    COMPOSE_TURN=taken exec flock -o -w 3000 "$turns" "$here/test-compose.sh" "$@"
fi

if [ $# -gt 0 ]; then
    # So that a module that was renamed is not left out without a word.
    least=$((5 * $#)) modules=$(printf '%s:: ' "$@")
else
    # Number of tests that were selected when this was written. With fewer, tests have been lost, or are not found.
    least=184 modules=
    for file in $(grep -l 'Cluster::start(' tests/real/*.rs); do
        modules="$modules $(basename "$file" .rs)::"
    done
fi

# shellcheck disable=SC2086 # a list of words
selected=$(cargo test -q --all-features ${PACKAGES:-} --test real -- $modules --list | grep -c ': test$') || :
if [ "$selected" -lt "$least" ]; then
    echo "only $selected tests are selected for the compose masters, not $least" >&2
    exit 1
fi

trap '"$here/cluster.sh" down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$here/cluster.sh" up
export MULTILOCK_TEST_CLUSTER=compose
outcome=0
# One at a time: the masters are one set, and a test that waits for its turn counts as slow.
# shellcheck disable=SC2086 # a list of words
cargo test -q --all-features ${PACKAGES:-} --test real -- --test-threads=1 $modules || outcome=1
[ $# -gt 0 ] || cargo test -q --all-features ${PACKAGES:-} --test chaos || outcome=1
exit $outcome
