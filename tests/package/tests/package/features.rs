//! The table of features in docs/versions.md equals the features of Cargo.toml, with the crates that each one pulls
//! in.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{package, text};

/// Words in backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    let words = cell.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = text("docs/versions.md");
    let table = page
        .split("\n## Features\n")
        .nth(1)
        .expect("a part about features");
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [name, gives, pulls] = cells[..] else {
            panic!("no row of three: {row}");
        };
        assert!(gives.len() > 20, "{name} gives nothing");
        (quoted(name).into_iter().collect(), quoted(pulls))
    })
    .collect()
}

#[test]
fn the_table_names_every_feature_and_what_it_pulls_in() {
    let of_cargo = package("multilock").features.iter().map(|(name, on)| {
        let on = on.iter().map(|on| on.trim_start_matches("dep:").to_owned());
        (name.clone(), on.collect())
    });
    assert_eq!(documented(), of_cargo.collect::<BTreeMap<_, BTreeSet<_>>>());
}

#[test]
fn docs_rs_builds_all_of_them() {
    let settings = &package("multilock").metadata["docs"]["rs"];
    assert_eq!(settings["all-features"], true, "{settings}");
    assert_eq!(settings["rustdoc-args"][1], "docsrs", "{settings}");
}

/// The README says which Rust it takes; the packages of the workspace that are published agree.
#[test]
fn the_oldest_rust_is_the_same_everywhere() {
    let oldest = |name| package(name).rust_version.clone().expect("a rust-version");
    let rust = oldest("multilock");
    assert_eq!(rust, oldest("multilock-cli"));
    let said = format!("Rust {}.{}", rust.major, rust.minor);
    assert!(text("README.md").contains(&said), "README.md does not say {said}");
    let versions = text("docs/versions.md");
    let said = format!("now {}.{}", rust.major, rust.minor);
    assert!(versions.contains(&said), "docs/versions.md does not say {said}");
}
