//! No example is forgotten: neither by docs/recipes.md nor by these tests.

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
fn the_recipes_name_every_example() {
    let page = text("docs/recipes.md");
    let table = page.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let last = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
    let named: BTreeSet<String> = last
        .map(|cell| cell.trim_matches([' ', '`']).to_owned())
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
