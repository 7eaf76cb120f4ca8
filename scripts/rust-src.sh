#!/bin/sh
# Prints the folder of the standard library's source that belongs to this Rust: of the toolchain's component rust-src, or of
# Debian's package of the same version, which is unpacked into target/rust-src. Nothing is installed.
#   scripts/rust-src.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

release=$(rustc -vV | sed -n 's/^release: //p')
component=$(rustc --print sysroot)/lib/rustlib/src/rust/library
folder=${CARGO_TARGET_DIR:-target}/rust-src/$release
# The suites of Debian that have more than one version of Rust, or a new one.
suites="trixie-backports sid forky trixie"

if [ -e "$component/Cargo.lock" ]; then
    echo "$component"
    exit 0
fi
if [ ! -e "$folder/library/Cargo.lock" ]; then
    mkdir -p "$folder"
    tried=$(mktemp)
    trap 'rm -f "$tried"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    for suite in $suites; do
        # A suite may have other versions, or be out of reach.
        "$here/debian-root.sh" "$suite" "$folder/$suite" "rust-src=$release+*" 2>>"$tried" || continue
        mv "$folder/$suite/root/usr/src/rustc-$release/library" "$folder/library"
        break
    done
    for suite in $suites; do
        rm -rf "${folder:?}/$suite"
    done
    if [ ! -e "$folder/library/Cargo.lock" ]; then
        sed -n 's/^debian-root.sh: /rust-src.sh: /p' "$tried" | sort -u >&2
        echo "rust-src.sh: the source of Rust $release's standard library is missing, and none of Debian's suites ($suites)" \
            "gave its package rust-src in this version; install it by 'rustup component add rust-src'" >&2
        exit 1
    fi
fi
cd "$folder/library" && pwd
