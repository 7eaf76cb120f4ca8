#!/bin/sh
# Builds the library and the command with the oldest versions of their direct dependencies that the manifests allow, and runs the
# library's unit tests with them: what the manifests promise is true. In a copy, because Cargo.lock is another there, and with
# fewer members: the benches ask for more. To choose the oldest is not stable in Cargo yet, so Cargo alone is told that it may.
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
# No suite and no profile that names what is not here.
sed -i -e 's|^members = .*|members = ["cli", "tests/support"]|' \
    -e '/^\[\[test\]\]/,/^harness/d' -e '/^\[\[example\]\]/,/^required-features/d' \
    -e '/^\[profile\.dev\.package\]/,/^multilock = /d' Cargo.toml
RUSTC_BOOTSTRAP=1 cargo -q -Zdirect-minimal-versions generate-lockfile
cargo check -q --locked --target-dir "$target" -p multilock-cli
cargo test -q --locked --target-dir "$target" -p multilock --all-features --lib
