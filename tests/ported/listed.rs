//! The table of `docs/experiments.md` lists the cases that are here, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Paths of the tests in a file of `tests/ported`, or in a folder of it.
fn tests(path: &Path, module: &str, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder").flatten() {
            let name = entry.file_name().into_string().expect("a name");
            let name = name.trim_end_matches(".rs");
            let module = if module.is_empty() {
                name.to_owned()
            } else {
                format!("{module}::{name}")
            };
            tests(&entry.path(), &module, found);
        }
        return;
    }
    if module == "listed" {
        return;
    }
    let text = text(path);
    for behind in text.split("#[tokio::test").skip(1) {
        let name = behind.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
        found.insert(format!("{module}::{}", name.expect("a test")));
    }
}

/// First column of each row of the tables, and the test in its last column.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let section = page.split("## Other people's cases").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let mut words = line.split('`').skip(1).step_by(2);
            let case = words.next().expect("a case");
            (case, words.last().expect("a test"))
        })
        .collect()
}

#[test]
fn every_case_is_listed_and_every_row_is_a_case() {
    let page = text(&root().join("docs/experiments.md"));
    let rows = rows(&page);
    let mut there = BTreeSet::new();
    tests(&root().join("tests/ported"), "", &mut there);
    let listed: BTreeSet<String> = rows.iter().map(|(_, test)| (*test).to_owned()).collect();
    assert_eq!(listed.len(), rows.len(), "each test in one row");
    assert!(listed.len() >= 45, "{}", listed.len());
    let missing: Vec<_> = there.symmetric_difference(&listed).collect();
    assert!(missing.is_empty(), "in one place only: {missing:#?}");
}

#[test]
fn every_test_names_its_original() {
    let page = text(&root().join("docs/experiments.md"));
    for (case, test) in rows(&page) {
        let (module, name) = test.rsplit_once("::").expect("a path");
        let file = root()
            .join("tests/ported")
            .join(module.replace("::", "/"))
            .with_extension("rs");
        let code = text(&file);
        let before = code.split(&format!("fn {name}()")).next().expect("a text");
        let doc = before.rsplit("\n\n").next().expect("its head");
        assert!(
            doc.contains(&format!("/// `{case}`")),
            "{test} does not name {case}"
        );
    }
}
