#!/bin/sh
# Feeds all input from outside (replies, URLs and the environment) with bytes that libFuzzer chooses. With FUZZ_SECONDS,
# each target starts from its committed seeds and from the inputs of earlier runs. With FUZZ_RUNS it starts from the seeds
# alone, and has the same inputs every time. An input that breaks a target stays in target/fuzz/found.
set -eu
cd "$(dirname "$0")/.."

if ! command -v c++ >/dev/null 2>&1; then
    scripts/install-package.sh g++ "a C++ compiler, which builds libFuzzer,"
fi

host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}/fuzz
# The coverage that libFuzzer needs, by a compiler of any channel. With a target named, build scripts go without.
RUSTFLAGS="-Dwarnings --cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
export RUSTFLAGS
cargo build -q --profile fuzz --target "$host" --target-dir "$target" -p multilock-fuzz

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$target/found"
for name in ${ONLY:-framing replies settings}; do
    if [ -n "${FUZZ_RUNS:-}" ]; then
        corpus=$scratch/$name
        set -- -runs="$FUZZ_RUNS" -seed=1
    else
        corpus=$target/corpus/$name
        set -- -max_total_time="${FUZZ_SECONDS:-60}"
    fi
    mkdir -p "$corpus"
    if ! "$target/$host/fuzz/$name" "$corpus" "fuzz/seeds/$name" "$@" -artifact_prefix="$target/found/$name-" \
        -timeout=5 -rss_limit_mb=1024 -max_len=1024 -print_final_stats=1 >"$scratch/log" 2>&1; then
        tail -n 60 "$scratch/log" >&2
        echo "fuzz: $name is broken; repeat it by '$target/$host/fuzz/$name <the file named above>'" >&2
        exit 1
    fi
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$scratch/log")
    echo "fuzz: $name inputs=$inputs broken=0"
done
