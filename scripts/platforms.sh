#!/bin/sh
# Checks that the library compiles for platforms on which no test is run, and the command for the Unix platforms among them.
# Needs no linker and no C compiler of theirs: the feature test-util and the command's TLS, which build C, are left out.
#   scripts/platforms.sh [TARGET...]        (all of them by default)
# The standard library of a target is the toolchain's, where that has it. Otherwise it is compiled from its source
# (scripts/rust-src.sh). Where there is no source, rustup is asked for the target.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

targets="x86_64-pc-windows-msvc aarch64-apple-darwin x86_64-unknown-freebsd aarch64-unknown-linux-musl i686-unknown-linux-gnu"
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $targets

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

is_installed() {
    [ -d "$(rustc --print target-libdir --target "$1")" ]
}

# Makes sure that a target has a standard library: an installed one, or `source` is set to its source.
source=
prepare() {
    source=
    is_installed "$1" && return
    source=$("$here/rust-src.sh" 2>"$log") && return
    if command -v rustup >/dev/null 2>&1 && rustup target add "$1" >>"$log" 2>&1 && is_installed "$1"; then
        return
    fi
    cat "$log" >&2
    echo "platforms.sh: there is no standard library for $1: install it by 'rustup target add $1', or its source by" \
        "'rustup component add rust-src'" >&2
    exit 1
}

# The check itself; its output goes to the log.
check() {
    # A target folder of its own: builds of another toolchain or profile stay as they are.
    set -- check -q --locked --target-dir "${CARGO_TARGET_DIR:-target}/platforms" "$@"
    if [ -n "$source" ]; then
        # Cargo alone is told that it may compile the standard library, and from where.
        RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$source cargo "$@" -Zbuild-std=std >"$log" 2>&1
    else
        cargo "$@" >"$log" 2>&1
    fi
}

fail() {
    cat "$log" >&2
    echo "platforms.sh: $*" >&2
    exit 1
}

for target in "$@"; do
    prepare "$target"
    check --target "$target" -p multilock --lib --features metrics,rustls ||
        fail "the library does not compile for $target"
    case $target in
    *-windows-*)
        ! check --target "$target" -p multilock-cli --bins --no-default-features ||
            fail "the command compiles for $target: say so in docs/versions.md"
        # Its reason, and Cargo's line that it stops there.
        grep -q '^error: the command needs Unix' "$log" && [ "$(grep -c '^error' "$log")" -eq 2 ] ||
            fail "the command says more, or less, than that it needs Unix for $target"
        ;;
    *)
        check --target "$target" -p multilock-cli --bins --no-default-features ||
            fail "the command does not compile for $target"
        ;;
    esac
done
