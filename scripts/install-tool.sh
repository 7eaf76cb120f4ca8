#!/bin/sh
# Installs a subcommand of Cargo from the registry, where it is missing. Building it takes minutes.
#
#     install-tool.sh <crate>
set -eu

tool=$1
if command -v "$tool" >/dev/null 2>&1; then
    exit 0
fi
echo "$tool is missing: it is built now, which takes some minutes" >&2
cargo install -q --locked "$tool"
