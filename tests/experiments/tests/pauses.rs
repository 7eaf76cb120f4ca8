//! A short form of the experiment: its tokens lose nothing, and every way adds something.

use std::process::Command;

#[test]
fn nothing_is_lost_under_tokens() {
    let output = Command::new(env!("CARGO_BIN_EXE_multilock-experiments"))
        .arg("16")
        .output();
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{error}");
    assert!(
        text.contains("pauses: seconds=16 ways=5 fenced_lost=0"),
        "{text}{error}"
    );
}
