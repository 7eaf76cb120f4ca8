//! A short form of the experiment. A holder is stopped until another client has read.

use std::collections::HashMap;
use std::process::Command;

/// Fields of each line, by its way.
fn short() -> HashMap<String, HashMap<String, u64>> {
    let output = Command::new(env!("CARGO_BIN_EXE_multilock-experiments"))
        .arg("short")
        .output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    print!("{text}");
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(way, fields)| {
            let fields = fields.split(' ').filter_map(|field| field.split_once('='));
            let fields = fields.map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
            (way.to_owned(), fields.collect())
        })
        .collect()
}

#[test]
fn a_stopped_holder_does_damage_under_a_plain_lock_only() {
    let rows = short();
    assert!(rows["unguarded"]["lost"] > 0, "{rows:?}");
    assert!(rows["unguarded"]["overtaken"] > 0, "{rows:?}");
    for way in ["run", "fenced"] {
        assert!(rows[way]["acknowledged"] > 0, "{rows:?}");
        assert_eq!(rows[way]["lost"], 0, "{way}: {rows:?}");
    }
    assert!(rows["fenced"]["refused"] > 0, "{rows:?}");
}
