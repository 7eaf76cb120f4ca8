#!/bin/sh
# Makes sure that Toxiproxy's server is there, and prints the path of its program. That is the program that TOXIPROXY names,
# a `toxiproxy-server` of this machine, or a build of the Go module in target/toxiproxy.
set -eu
cd "$(dirname "$0")/.."

module=github.com/Shopify/toxiproxy/v2/cmd/server
version=v2.12.0

if [ -n "${TOXIPROXY:-}" ]; then
    if ! command -v "$TOXIPROXY"; then
        echo "toxiproxy.sh: TOXIPROXY names '$TOXIPROXY', which is no program" >&2
        exit 1
    fi
    exit 0
fi
if command -v toxiproxy-server; then
    exit 0
fi
mkdir -p "${CARGO_TARGET_DIR:-target}/toxiproxy"
into=$(cd "${CARGO_TARGET_DIR:-target}/toxiproxy" && pwd)
if [ ! -x "$into/$version/server" ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    missing() {
        cat "$log" >&2
        echo "toxiproxy.sh: $1; TOXIPROXY may name the server's program" >&2
        exit 1
    }
    go=$(scripts/install-go.sh 2>"$log") || missing "Go is missing"
    env PATH="$go:$PATH" GOTOOLCHAIN=local GOBIN="$into/$version" go install "$module@$version" >"$log" 2>&1 ||
        missing "the module proxy does not give $module"
fi
echo "$into/$version/server"
