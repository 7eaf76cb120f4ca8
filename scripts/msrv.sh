#!/bin/sh
# Checks the library and the command with the oldest Rust that Cargo.toml names, which rustup installs where it may.
set -eu
cd "$(dirname "$0")/.."

rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v rustup >/dev/null 2>&1; then
    echo "rustup is missing, which installs Rust $rust; install it from https://rustup.rs" >&2
    exit 1
fi
if ! rustup run "$rust" rustc --version >/dev/null 2>&1 &&
    ! rustup toolchain install "$rust" --profile minimal --no-self-update >/dev/null 2>&1; then
    echo "Rust $rust is missing, and 'rustup toolchain install $rust' could not install it" >&2
    exit 1
fi
# Builds of another Rust version cannot be used, so there is a target folder for this one.
target=${CARGO_TARGET_DIR:-target}/msrv
cargo "+$rust" check -q --locked --target-dir "$target" -p multilock -p multilock-cli --all-features
