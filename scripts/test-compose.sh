#!/bin/sh
# Runs the integration tests that use a Cluster against the masters of docker-compose.yml, which it
# starts before and removes after, whatever the outcome.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

tests=
for file in $(grep -l 'Cluster::start(' tests/*.rs); do
    tests="$tests --test $(basename "$file" .rs)"
done
# Each fault once, of those that containers can do.
tests="$tests --test chaos"

trap '"$here/cluster.sh" down' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$here/cluster.sh" up
# One at a time: the masters are one set, and a test that waits for its turn counts as slow.
# shellcheck disable=SC2086 # a list of words
MULTILOCK_TEST_CLUSTER=compose cargo test -q --all-features $tests -- --test-threads=1
