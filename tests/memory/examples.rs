//! Every public type and function has an example, or stands in a list with the reason why it has none.

mod code;
mod items;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use self::code::code_of;
use self::items::{Items, Source};

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

/// Those without an example, each with the reason.
fn reasons() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("examples/without.txt").lines();
    let of_items = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    of_items
        .map(|line| {
            line.split_once(": ")
                .unwrap_or_else(|| panic!("an item and its reason: {line}"))
        })
        .collect()
}

/// The code that a reason points to: that of an item, of an example or of a guide.
fn shown_by(items: &Items, place: &str) -> Option<String> {
    let page = || fs::read_to_string(root().join(place)).ok();
    match place.rsplit_once('.') {
        Some((_, "rs")) => page(),
        Some((_, "md")) => page().map(|page| code_of(&page)),
        _ => items.get(place).cloned(),
    }
}

/// Whether code calls a method, or names a type.
fn names(code: &str, item: &str) -> bool {
    let name = item.rsplit("::").next().unwrap_or_default();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        let is_type = name.starts_with(char::is_uppercase);
        whole && (is_type || before.ends_with(['.', ':']) || before.ends_with("fn "))
    })
}

#[test]
fn every_public_item_has_an_example_or_a_reason_for_none() {
    let items = Source::read(&root()).public_items();
    assert!(items.len() > 200, "hardly anything was read: {}", items.len());
    let reasons = reasons();
    let missing: Vec<_> = items
        .iter()
        .filter(|(item, code)| code.is_empty() && !reasons.contains_key(item.as_str()))
        .map(|(item, _)| item)
        .collect();
    assert!(
        missing.is_empty(),
        "neither an example nor a reason: {missing:#?}"
    );
}

/// The guide's code is that of the example, where it is compiled and run.
#[test]
fn the_guide_to_testing_shows_code_that_runs() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let read = |file: &str| fs::read_to_string(root().join(file)).expect("a text");
    let example = squeezed(&read("examples/testing.rs"));
    let guide = read("docs/testing.md");
    let excerpts = guide.split("```rust,ignore\n").skip(1);
    let excerpts: Vec<&str> = excerpts.filter_map(|rest| rest.split("```").next()).collect();
    assert!(excerpts.len() >= 5, "{} excerpts", excerpts.len());
    for excerpt in excerpts {
        assert!(
            example.contains(&squeezed(excerpt)),
            "not in examples/testing.rs: {excerpt}"
        );
    }
}

/// The page shows the exporter that `make monitoring` and the example run with.
#[test]
fn the_page_for_operators_shows_the_exporter_that_is_tried() {
    let read = |file: &str| fs::read_to_string(root().join(file)).expect("a text");
    let exporter = read("contrib/monitoring/src/exporter.rs").replace("pub(crate) ", "");
    let (_, exporter) = exporter.split_once("\n\n").expect("code below the module's line");
    let page = read("docs/operations.md");
    assert!(
        page.contains(&format!("```text\n{exporter}```\n")),
        "docs/operations.md does not show: {exporter}"
    );
    let (_, exporter) = exporter.split_once("\n\n").expect("a function below the imports");
    let example = read("examples/metrics.rs");
    assert!(
        example.contains(exporter),
        "examples/metrics.rs does not have: {exporter}"
    );
}

#[test]
fn every_reason_for_no_example_is_true() {
    let items = Source::read(&root()).public_items();
    for (item, reason) in reasons() {
        let code = items.get(item).unwrap_or_else(|| panic!("{item} is not public"));
        assert!(code.is_empty(), "{item} has an example");
        let Some(place) = reason.strip_prefix("shown by ") else {
            continue;
        };
        let (place, part) = match place.split_once(" as ") {
            Some((place, part)) => (place, Some(part.trim_matches('`'))),
            None => (place, None),
        };
        let shown = shown_by(&items, place).unwrap_or_else(|| panic!("{item}: there is no {place}"));
        let is_shown = part.map_or_else(|| names(&shown, item), |part| shown.contains(part));
        assert!(is_shown, "{item}: {place} does not show it");
    }
}
