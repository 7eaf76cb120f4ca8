#!/bin/sh
# Builds the library and the command with the oldest versions of their direct dependencies that the manifests allow. Runs
# the library's unit tests with them, so the promise of the manifests is kept. This happens in a copy, which has another
# Cargo.lock, and fewer members: the benches need newer versions. Cargo's choice of the oldest versions is not stable yet,
# so RUSTC_BOOTSTRAP allows it for Cargo alone.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}/minimal-versions
rm -rf "$target/copy"
mkdir -p "$target/copy"
target=$(cd "$target" && pwd)
copy=$target/copy
git ls-files -z Cargo.toml README.md LICENSE-APACHE LICENSE-MIT src lua docs cli tests/support |
    xargs -0 tar -cf - | tar -xf - -C "$copy"
cd "$copy"
# Drops the tests, the examples and the profiles of packages, because the copy does not have them.
sed -i -e 's|^members = .*|members = ["cli", "tests/support"]|' \
    -e '/^\[\[test\]\]/,/^harness/d' -e '/^\[\[example\]\]/,/^required-features/d' \
    -e '/^\[profile\.dev\.package\]/,/^multilock = /d' Cargo.toml
RUSTC_BOOTSTRAP=1 cargo -q -Zdirect-minimal-versions generate-lockfile
cargo check -q --locked --target-dir "$target" -p multilock-cli
cargo test -q --locked --target-dir "$target" -p multilock --all-features --lib
