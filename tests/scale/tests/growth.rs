//! A small row of the table, so that the program is known to work: twelve minutes of twenty clients, one master killed.

use std::process::Command;

#[test]
fn a_small_row_breaks_nothing() {
    let words = ["20", "30", "100", "killed", "12"];
    let output = Command::new(env!("CARGO_BIN_EXE_multilock-scale"))
        .args(words)
        .output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    let row: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{error}"));
    let number = |name: &str| row[name].as_u64().expect("a number");
    assert!(number("grants") > 500 && number("strikes") > 5, "{text}");
    assert_eq!(
        (number("meetings"), number("left")),
        (0, 0),
        "two valid holds of a name met, or something was left: {text}"
    );
}
