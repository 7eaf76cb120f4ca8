//! A test that runs once more in a process of its own, which has other variables or is measured or killed.

use std::env;
use std::process::{Command, Stdio};

/// Set in such a process, which then takes the other part of the test.
const CHILD: &str = "MULTILOCK_TEST_CHILD";

pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// The test of that name, with its modules, and nothing else.
pub fn child(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "yes")
        // The masters of a test have just been started.
        .env("MULTILOCK_QUARANTINE", "off")
        .stdin(Stdio::null());
    command
}

/// Runs it to its end, which must be a good one.
pub async fn in_a_child(test: &str, variables: &[(&str, &str)]) {
    let mut command = child(test);
    command.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .expect("no panic")
        .expect("a child process");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{variables:?}: {said}"
    );
}
