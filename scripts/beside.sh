#!/bin/sh
# Builds contenders of this crate and of the original lock libraries in other languages, and runs them for the same locks on
# servers of their own. Prints two tables; tests/beside/src/main.rs says how they come about.
#   scripts/beside.sh [LANGUAGE...]      (java: Redisson; go: redsync; js: node-redlock; all by default)
# BESIDE_SECONDS (6) for each measurement, RUNS (5) rounds of the second table, ONLY="RFairLock redsync pairs" for parts.
#
# A library comes from its registry, or from this machine by one of these variables:
#   BESIDE_JAVA_CLASSPATH    jars of Redisson and of its dependencies, in place of Maven
#   GOFLAGS                  such as -modfile=FILE, with replace directives for redsync and redigo
#   NODE_PATH                a folder with redlock and ioredis, in place of npm
set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- java go js
for language in "$@"; do
    case $language in
    java | go | js) ;;
    *)
        echo "beside.sh: '$language' is none of java, go, js" >&2
        exit 1
        ;;
    esac
done

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/beside"
out=$(cd "$target/beside" && pwd)
sources=$PWD/tests/beside
log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command; if that fails, prints its output and the sentence before it.
try() {
    problem=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "beside.sh: $problem" >&2
        echo "beside.sh: BESIDE=\"java go js\" selects languages" >&2
        exit 1
    fi
}

# Makes the contender of a language: a program that runs the command of standard input with the program's arguments.
launcher() {
    { echo '#!/bin/sh' && sed 's/^/exec /; s/$/ "$@"/'; } >"$out/$1/contender"
    chmod +x "$out/$1/contender"
}

build_java() {
    command -v javac >/dev/null 2>&1 || scripts/install-package.sh default-jdk-headless "a JDK of 17 or later"
    classpath=${BESIDE_JAVA_CLASSPATH:-}
    if [ -z "$classpath" ]; then
        command -v mvn >/dev/null 2>&1 || scripts/install-package.sh maven Maven
        cp "$sources/java/pom.xml" "$out/java"
        try "Maven could not get Redisson from Maven Central; BESIDE_JAVA_CLASSPATH may name its jars" \
            mvn -B -q -f "$out/java/pom.xml" -DoutputDirectory="$out/java/jars" \
            org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
        classpath="$out/java/jars/*"
    fi
    try "the contender in Java could not be compiled" javac --release 17 -d "$out/java/classes" -cp "$classpath" \
        "$sources/java/src/main/java/Contender.java"
    echo "java -cp '$out/java/classes:$classpath' Contender" | launcher java
}

build_go() {
    folder=$(scripts/install-go.sh)
    # The checksums of go.sum come from the checksum database.
    cp "$sources/go/go.mod" "$sources/go/main.go" "$out/go"
    try "Go could not get redsync and redigo from the module proxy; GOFLAGS=-modfile=FILE may replace them" \
        env PATH="$folder:$PATH" GOTOOLCHAIN=local GOFLAGS="-mod=mod ${GOFLAGS:-}" go build -C "$out/go" -o contender .
}

build_js() {
    command -v node >/dev/null 2>&1 || scripts/install-package.sh nodejs Node.js
    libraries=${NODE_PATH:-}
    if [ -z "$libraries" ]; then
        command -v npm >/dev/null 2>&1 || scripts/install-package.sh npm npm
        cp "$sources/js/package.json" "$out/js"
        try "npm could not get redlock and ioredis from its registry; NODE_PATH may name a folder with them" \
            npm install --prefix "$out/js" --no-audit --no-fund --fetch-retries=1
        libraries=$out/js/node_modules
    fi
    echo "env NODE_PATH='$libraries' node '$sources/js/contender.js'" | launcher js
}

for language in "$@"; do
    mkdir -p "$out/$language"
    "build_$language"
done
cargo build --release -q -p multilock-beside
rm -f "$log"
trap - EXIT INT TERM
exec "$target/release/beside" "$out" "${BESIDE_SECONDS:-6}" "${RUNS:-5}" "$@"
