#!/bin/sh
# Compares the public items with the items of the last release. Fails if a change breaks users, and the version does not
# announce it.
#
#     semver.sh [commit or tag]
#
# Without one it is the latest tag of the form v1.2.3; before the first release there is none to compare with.
set -eu
cd "$(dirname "$0")/.."

baseline=${1:-$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null || true)}
if [ -z "$baseline" ]; then
    echo "there is no release to compare with: no tag v[0-9]*; name a commit, as in make semver SINCE=HEAD~10" >&2
    exit 1
fi
scripts/install-tool.sh cargo-semver-checks
cargo semver-checks check-release -p multilock --all-features --baseline-rev "$baseline"
