//! `docs/guarantees.md` names what shows each promise; what it names is there.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// The text of a file, or of all files of a directory.
fn text(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).expect("a text");
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    entries
        .map(|entry| text(&entry.expect("an entry").path()))
        .collect()
}

/// The test target of that name: a file or a directory.
fn target(name: &str) -> String {
    let tests = root().join("tests");
    let file = tests.join(name).with_extension("rs");
    if file.is_file() {
        text(&file)
    } else {
        text(&tests.join(name))
    }
}

fn exists(witness: &str) -> bool {
    if let Some(row) = witness.strip_prefix("chaos: ") {
        return target("chaos").contains(&format!("\"{row}\""));
    }
    if let Some(property) = witness.strip_prefix("simulation: ") {
        let file = root().join("tests/simulation/properties").join(property);
        return file.with_extension("rs").is_file();
    }
    if let Some(scope) = witness.strip_prefix("model: ") {
        return target("model/src").contains(&format!("\"{scope}\""));
    }
    match witness.split_once("::") {
        Some((name, test)) => target(name).contains(&format!("fn {test}()")),
        None => root().join(witness).is_file(),
    }
}

#[test]
fn every_promise_is_shown_by_something_that_exists() {
    let page = text(&root().join("docs/guarantees.md"));
    let promises = page
        .split("## The promises")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .expect("the table");
    let rows: Vec<&str> = promises
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .collect();
    assert!(rows.len() > 15, "{} rows", rows.len());
    let mut missing = Vec::new();
    for row in rows {
        let shown_by = row
            .trim_end_matches('|')
            .rsplit('|')
            .next()
            .expect("a last column");
        let witnesses: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        if witnesses.is_empty() {
            missing.push(row);
        }
        missing.extend(witnesses.into_iter().filter(|witness| !exists(witness)));
    }
    assert!(missing.is_empty(), "named, but not there: {missing:#?}");
}
