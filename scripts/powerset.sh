#!/bin/sh
# Clippy on the crate with every set of its features, and on the command with and without TLS: none warns, and none needs a
# feature that it does not name. The features are read from Cargo.toml: a new one doubles the sets.
set -eu
cd "$(dirname "$0")/.."

features() {
    sed -n '/^\[features\]/,/^\[/s/^\([a-z-]*\) = .*/\1/p' "$1" | grep -v '^default$'
}

check() {
    if ! cargo clippy -q --locked -p "$1" "--$2" --no-default-features --features "$3" -- -D warnings; then
        echo "powerset: $1 is broken with the features '$3'" >&2
        exit 1
    fi
}

sets=$(
    printf '\n'
    for feature in $(features Cargo.toml); do
        printf '%s\n' "$feature"
    done | awk '{ n = NR == 1 ? 1 : 2 * n; for (i = 0; i < n; i++) { set[n + i] = set[i] $0 ","; print set[n + i] } }'
)
count=0
while read -r set; do
    check multilock lib "$set"
    count=$((count + 1))
done <<END
$sets
END
if [ "$count" -lt 8 ]; then
    echo "powerset: only $count sets of features were found" >&2
    exit 1
fi
for set in '' tls; do
    check multilock-cli bins "$set"
done
