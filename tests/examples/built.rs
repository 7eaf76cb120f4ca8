//! The examples as programs.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use multilock_test_support::Cluster;
use tokio::process::Command as AsyncCommand;
use tokio::time::timeout;

/// Far longer than any of them takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// Folder of the examples, built from the present source: a test that is run by itself has not built them.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = env::current_exe().expect("this program");
    let profile = program
        .parent()
        .and_then(Path::parent)
        .expect("…/target/debug/deps");
    let name = profile
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a profile");
    // With the packages that were built for this test, features of dependencies are the same, and nothing is built twice.
    let packages = env::var("MULTILOCK_TEST_PACKAGES").unwrap_or_else(|_| "--package multilock".to_owned());
    let mut cargo = Command::new(env!("CARGO"));
    // Variables that cargo sets for the test of a package would look like a change to build scripts.
    for (variable, _) in env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "LD_LIBRARY_PATH"]
            .iter()
            .any(|start| variable.to_string_lossy().starts_with(start))
        {
            cargo.env_remove(variable);
        }
    }
    cargo
        .args(["build", "--quiet", "--examples", "--all-features"])
        .args(packages.split_whitespace())
        .args(["--profile", if name == "debug" { "dev" } else { name }])
        .arg("--target-dir")
        .arg(profile.parent().expect("…/target"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    let built = cargo.output().expect("cargo, which has built this test");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the examples cannot be built: {said}");
    profile.join("examples")
});

/// An example that does not outlive its test.
pub(crate) fn example(name: &str) -> AsyncCommand {
    let mut command = AsyncCommand::new(FOLDER.join(name));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// The same, on these masters, which have just been started. Only a fault makes one of them late.
pub(crate) fn on(cluster: &Cluster, name: &str) -> AsyncCommand {
    // Two of them have to fit into the shortest lease of the example: 2 s, 3 s, 10 s, or the usual 30 s.
    let node_timeout = match name {
        "fencing" => "900ms",
        "leader" | "lost" => "1400ms",
        "multilock" | "policy_per_call_site" | "redlock" | "reentrant" => "4s",
        _ => "10s",
    };
    let mut command = example(name);
    command
        .env("MULTILOCK_NODES", cluster.urls().join(","))
        .env("MULTILOCK_NODE_TIMEOUT", node_timeout)
        .env("MULTILOCK_CONNECT_TIMEOUT", "10s")
        .env("MULTILOCK_QUARANTINE", "off");
    command
}

/// Returns the output of the program, which has to end successfully.
pub(crate) async fn said(mut command: AsyncCommand) -> String {
    let running = timeout(WITHIN, command.output());
    let output = running.await.expect("it comes to an end").expect("a program");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
    said
}
