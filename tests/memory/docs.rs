//! Everything that the docs name exists: the evidence for each promise of `docs/guarantees.md`, and the variables of
//! the environment.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use multilock::{LockError, Masters, MultiLock};

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

/// The text of a folder of `tests/`.
fn target(name: &str) -> String {
    text(&root().join("tests").join(name))
}

/// Whether a test is where its name says, and its module is a part of the suite.
fn is_tested(suite: &str, modules: &[&str], test: &str) -> bool {
    let suite = root().join("tests").join(suite);
    let main = suite.join("main.rs");
    let file = match modules {
        [] => main.clone(),
        path => suite.join(path.join("/")).with_extension("rs"),
    };
    let declared = |module: &&str| text(&main).contains(&format!("\nmod {module};\n"));
    file.is_file() && modules.first().is_none_or(declared) && text(&file).contains(&format!("fn {test}()"))
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
    match witness.split("::").collect::<Vec<_>>()[..] {
        [suite, ref modules @ .., test] => is_tested(suite, modules, test),
        _ => root().join(witness).is_file(),
    }
}

#[test]
fn every_promise_is_shown_by_something_that_exists() {
    let page = text(&root().join("docs/guarantees.md"));
    check_rows(&page, "## The promises", 50);
    check_rows(&page, "## Servers as they are", 6);
}

/// That the names in the last column of a section's tables exist; the tables have more than `most` rows.
fn check_rows(page: &str, title: &str, most: usize) {
    let section = page
        .split(title)
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .expect("the section");
    let below = section.lines().skip(1).chain([""]);
    let rows: Vec<&str> = section
        .lines()
        .zip(below)
        .filter(|(line, below)| line.starts_with("| ") && !below.starts_with("|--"))
        .map(|(line, _)| line)
        .collect();
    assert!(rows.len() > most, "{} rows", rows.len());
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

/// The variables that a text names.
fn variables(text: &str) -> BTreeSet<&str> {
    let name = |rest: &str| rest.find(|c: char| !(c.is_ascii_uppercase() || c == '_'));
    text.match_indices("MULTILOCK_")
        .map(|(at, _)| &text[at..at + name(&text[at..]).unwrap_or(text.len() - at)])
        .collect()
}

#[test]
fn every_variable_of_the_environment_is_documented_and_fuzzed() {
    let source = text(&root().join("src/masters/env.rs"));
    let is_doc = |line: &&str| line.trim_start().starts_with("//");
    let (docs, code): (Vec<&str>, Vec<&str>) = source.lines().partition(is_doc);
    let tls = text(&root().join("src/node/redis/tls.rs"));
    let (docs, code) = (docs.join("\n"), code.join("\n") + &tls);
    let read = variables(&code);
    assert!(read.len() > 10, "{read:?}");
    assert_eq!(variables(&docs), read, "the docs of Masters::from_env");
    for place in ["docs/servers.md", "fuzz/targets/settings.rs"] {
        let page = text(&root().join(place));
        let missing: Vec<_> = read.difference(&variables(&page)).copied().collect();
        assert!(missing.is_empty(), "{place} does not name {missing:?}");
    }
}

/// Whether options are allowed.
fn allowed(checked: Result<(), LockError>) -> bool {
    match checked {
        Ok(()) => true,
        Err(LockError::Invalid(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

/// The largest and the smallest value of each row are accepted, and the next ones are refused.
#[tokio::test(start_paused = true)]
async fn the_limits_of_the_recipes_are_those_of_the_library() {
    let (masters, cluster) = Masters::in_memory(3).await.expect("connects");
    let page = text(&root().join("docs/recipes.md"));
    let (_, limits) = page.split_once("## Limits").expect("the table");
    let check = |lock: MultiLock| allowed(lock.check());
    let permits = |number| allowed(masters.permits("a", number).check());
    let lock = || masters.red_lock("a");
    let (ms, second) = (Duration::from_millis, Duration::from_secs(1));
    let named = |bytes: usize| masters.red_lock("n".repeat(bytes));
    let many = |names: usize| masters.red_lock((0..names).map(|name| name.to_string()).collect::<Vec<_>>());
    let label = |bytes: usize| cluster.connect(Masters::builder().client_label("l".repeat(bytes)));
    let namespace = |bytes: usize| cluster.connect(Masters::builder().namespace("n".repeat(bytes)));
    let of_masters = async |number: usize| Masters::in_memory(number).await.is_ok();
    for (row, within, beyond) in [
        (
            "| 1 to 4,096 bytes of any characters; ",
            check(named(4096)),
            check(named(4097)),
        ),
        (
            "| names of one lock | 1 to 64 |",
            check(many(64)),
            check(many(65)),
        ),
        (
            "(104 ms by default) to ",
            check(lock().lease(ms(104))),
            check(lock().lease(ms(103))),
        ),
        (
            " to 30 s; a hold without `.lease`",
            check(lock().lease(30 * second)),
            check(lock().lease(31 * second)),
        ),
        (
            "| `max_hold` | the lease or more |",
            check(lock().max_hold(30 * second)),
            check(lock().max_hold(29 * second)),
        ),
        (
            "| `at_least` | the lease at most |",
            check(lock().at_least(30 * second)),
            check(lock().at_least(31 * second)),
        ),
        (
            "| `wait` | no end without it, or with more than 365 days |",
            check(lock().wait(Duration::MAX)),
            false,
        ),
        ("| permits of a name | 1 to 64 |", permits(64), permits(65)),
        (
            "| `about`, `force_reason` | 1 to 256 bytes without control characters |",
            check(lock().about("t".repeat(256))),
            check(lock().about("t".repeat(257))),
        ),
        (
            "| `client_label`, `namespace` | 128 bytes at most |",
            label(128).await.is_ok() && namespace(128).await.is_ok(),
            label(129).await.is_ok() || namespace(129).await.is_ok(),
        ),
        (
            "| masters | 1 to 64 |",
            of_masters(1).await && of_masters(64).await,
            of_masters(65).await,
        ),
    ] {
        assert!(limits.contains(row), "no such row: {row}");
        assert!(
            within && !beyond,
            "{row}: accepted within {within}, beyond {beyond}"
        );
    }
}
