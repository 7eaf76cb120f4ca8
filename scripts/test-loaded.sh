#!/bin/sh
# Runs a command RUNS times (1) in a row beside busy loops, LOOPS (4) of them, which end with it.
#   scripts/test-loaded.sh COMMAND...
set -eu

loops=
trap 'kill $loops 2>/dev/null || :' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

parent=$$
for _ in $(seq "${LOOPS:-4}"); do
    # It ends by itself, too, within seconds of a script that was killed.
    sh -c "while kill -0 $parent 2>/dev/null; do i=0; while [ \$i -lt 1000000 ]; do i=\$((i + 1)); done; done" &
    loops="$loops $!"
done

for run in $(seq "${RUNS:-1}"); do
    "$@" || {
        status=$?
        echo "test-loaded.sh: run $run failed" >&2
        exit $status
    }
done
