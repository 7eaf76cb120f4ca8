#!/usr/bin/env bash
# Random schedules on masters in memory, in a release build, which runs four times as many a second. The last line
# has the number of runs and of violations.
set -uo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
SIM_RUNS=${SIM_RUNS:-10000} cargo test -q --release --test simulation random_schedules -- --nocapture >"$out" 2>&1
status=$?
grep -v -e '^sim: ' -e '^running ' -e '^test ' -e '^\.*$' "$out"
grep '^sim: ' "$out" | tail -n 1
exit "$status"
