//! `cargo package --list` holds the files that a user builds, reads or copies, and no others.

use std::collections::BTreeSet;

use crate::tree::{cargo, root, text};

/// Files that Cargo adds to every package.
const BY_CARGO: [&str; 4] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
];

/// Files of the library's package: single files by their names, folders with the endings of their files.
const LIBRARY: [&str; 17] = [
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "contrib/grafana/multilock.json",
    "contrib/kubernetes/**.yaml",
    "contrib/prometheus/alerts.yml",
    "contrib/redis/redis.conf",
    "contrib/redis/users.acl",
    "contrib/systemd/multilock.env",
    "contrib/systemd/**.service",
    "contrib/systemd/**.timer",
    "docs/**.md",
    "examples/**.rs",
    "lua/**.lua",
    "src/**.rs",
];

/// Files of the crate's code that are no module.
const BESIDE_MODULES: [&str; 2] = ["src/links.in", "src/sim/lua/prelude.lua"];

const COMMAND: [&str; 7] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "command.md",
    "src/**.rs",
    "src/console/page/**.css",
    "src/console/page/**.html",
    "src/console/page/**.js",
];

fn listed(package: &str) -> BTreeSet<String> {
    let lines = cargo(&["package", "--list", "--allow-dirty", "-q", "-p", package]);
    lines.into_iter().collect()
}

fn fits(pattern: &str, file: &str) -> bool {
    match pattern.split_once("**") {
        Some((folder, ending)) => file.starts_with(folder) && file.ends_with(ending),
        None => file == pattern,
    }
}

/// Checks the list against the patterns: no file is without a pattern, and no pattern without a file.
fn check(package: &str, patterns: &[&str]) {
    let files = listed(package);
    let unexpected: Vec<_> = files
        .iter()
        .filter(|file| !patterns.iter().any(|pattern| fits(pattern, file)))
        .collect();
    assert!(unexpected.is_empty(), "{package} also packs {unexpected:#?}");
    let missing: Vec<_> = patterns
        .iter()
        .filter(|pattern| !files.iter().any(|file| fits(pattern, file)))
        .collect();
    assert!(missing.is_empty(), "{package} packs nothing of {missing:#?}");
}

#[test]
fn the_library_packs_what_its_users_need() {
    check("multilock", &[&BY_CARGO[..], &LIBRARY, &BESIDE_MODULES].concat());
}

#[test]
fn the_command_packs_what_its_users_need() {
    check("multilock-cli", &[&BY_CARGO[..], &COMMAND].concat());
}

/// Whether a file is built with `cfg(test)` or by the fuzzer alone. Such a file is not packed.
fn is_of_a_suite(file: &str) -> bool {
    file.ends_with("/tests.rs") || file == "src/fuzzing.rs"
}

#[test]
fn no_source_is_left_out_but_those_of_suites() {
    let packed = listed("multilock");
    let tracked: BTreeSet<String> = files_below(&["src", "lua"]);
    assert!(tracked.len() > 150, "hardly anything was read");
    let (suites, sources): (BTreeSet<_>, BTreeSet<_>) =
        tracked.into_iter().partition(|file| is_of_a_suite(file));
    let lost: Vec<_> = sources.difference(&packed).collect();
    assert!(lost.is_empty(), "not packed: {lost:#?}");
    let extra: Vec<_> = suites.intersection(&packed).collect();
    assert!(extra.is_empty(), "packed: {extra:#?}");
}

/// The files below some folders, by their paths from the root.
fn files_below(folders: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = next.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                next.push(path);
            } else {
                let path = path.strip_prefix(root()).expect("below the root");
                found.insert(path.to_str().expect("a name").to_owned());
            }
        }
    }
    found
}

/// Both carry the licences: a link in the folder of the command becomes the text in its package.
#[test]
fn the_command_carries_the_same_licences() {
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        assert_eq!(text(licence), text(&format!("cli/{licence}")));
    }
}
