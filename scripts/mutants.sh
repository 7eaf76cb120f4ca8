#!/usr/bin/env bash
# Builds every broken variant of the crate and has the simulation catch it; the last line says how many.
set -uo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
cargo test -q --test simulation mutants_are_caught -- --ignored --nocapture 2>&1 | tee "$out" |
	grep --line-buffered -v -e '^mutants: ' -e '^running ' -e '^test ' -e '^\.*$'
status=${PIPESTATUS[0]}
grep '^mutants: ' "$out" | tail -n 1
exit "$status"
