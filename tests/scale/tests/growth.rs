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
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|word| word.parse().expect("numbers"))
        .collect();
    assert_eq!(
        numbers.len(),
        14,
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(numbers[0] > 500 && numbers[13] > 5, "{text}");
    assert_eq!(
        numbers[11..13],
        [0, 0],
        "two valid holds of a name met, or something was left: {text}"
    );
}
