//! No example is forgotten: neither by the README nor by these tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a text")
}

fn examples() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = fs::read_dir(folder).expect("a directory").flatten();
    let names = files.map(|file| file.file_name().into_string().expect("a name"));
    names
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned()))
        .collect()
}

#[test]
fn the_readme_names_every_example() {
    let readme = text("README.md");
    let part = readme.split("\n## Examples\n").nth(1).expect("a heading");
    let part = part.split("\n## ").next().unwrap_or_default();
    let quoted = part.split('`').skip(1).step_by(2);
    let named: BTreeSet<String> = quoted
        .map(|code| code.trim_start_matches("cargo run --example ").to_owned())
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .collect();
    assert_eq!(named, examples());
}

#[test]
fn every_example_is_run_by_a_test() {
    let tests = text("tests/examples/said.rs");
    let missing: Vec<_> = examples()
        .into_iter()
        .filter(|name| !tests.contains(&format!("\"{name}\"")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
