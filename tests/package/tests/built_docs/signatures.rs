//! Other crates with types in public signatures, by rustdoc's JSON.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pages::{built, page};

/// Crates that come with every Rust.
const OF_RUST: [&str; 3] = ["alloc", "core", "std"];

/// The ids of the types and traits that a part of an item names.
fn named(part: &Value, ids: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            if let (Some(id), Some(_)) = (fields.get("id"), fields.get("path")) {
                ids.insert(id.to_string());
            }
            fields.values().for_each(|value| named(value, ids));
        }
        Value::Array(values) => values.iter().for_each(|value| named(value, ids)),
        _ => {}
    }
}

/// An `impl` that stands in no source: of an auto trait, or of a trait that another crate gives to everything.
fn is_of_the_compiler(item: &Value) -> bool {
    let block = &item["inner"]["impl"];
    block["is_synthetic"] == true || block["blanket_impl"].is_object()
}

fn crates_in_signatures() -> BTreeSet<String> {
    let told: Value = page(&built().join("multilock.json")).parse().expect("JSON");
    let items = told["index"].as_object().expect("items").values();
    let ours: Vec<&Value> = items.filter(|item| item["crate_id"] == 0).collect();
    assert!(ours.len() > 500, "{} items", ours.len());
    let mut ids = BTreeSet::new();
    for item in ours.into_iter().filter(|item| !is_of_the_compiler(item)) {
        named(&item["inner"], &mut ids);
    }
    let home = |id: &String| {
        let number = &told["paths"].get(id)?["crate_id"];
        let other = &told["external_crates"].get(number.to_string())?["name"];
        Some(other.as_str()?.to_owned())
    };
    ids.iter()
        .filter_map(home)
        .filter(|name| !OF_RUST.contains(&name.as_str()))
        .collect()
}

/// Crates of the table in `docs/versions.md`. Each row names a crate, its place in the signatures, and its source.
fn crates_of_the_policy() -> BTreeSet<String> {
    let policy = include_str!("../../../../docs/versions.md");
    let table = policy.split("\n## Other crates in public signatures\n").nth(1);
    let table = table
        .and_then(|rest| rest.split("\n## ").next())
        .expect("the part");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().expect("a name").replace('-', "_"))
        .collect()
}

#[test]
fn the_policy_names_the_crates_whose_types_are_public() {
    assert_eq!(crates_in_signatures(), crates_of_the_policy());
}
