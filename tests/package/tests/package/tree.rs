//! The repository, and Cargo's description of it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use cargo_metadata::{Metadata, MetadataCommand, Package};

/// Published packages.
pub(crate) const PUBLISHED: [&str; 2] = ["multilock", "multilock-cli"];

pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("the repository");
    root.to_owned()
}

pub(crate) fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines that Cargo prints.
pub(crate) fn cargo(args: &[&str]) -> Vec<String> {
    let out = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "cargo {args:?}: {told}");
    let lines = String::from_utf8(out.stdout).expect("a text");
    lines.lines().map(str::to_owned).collect()
}

fn host() -> String {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let told = String::from_utf8(rustc.stdout).expect("a text");
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc tells its host").to_owned()
}

/// The crates of Cargo.lock that this host builds.
pub(crate) fn metadata() -> &'static Metadata {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    METADATA.get_or_init(|| {
        let host = host();
        MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .other_options(["--locked".to_owned(), "--filter-platform".to_owned(), host])
            .exec()
            .unwrap_or_else(|error| panic!("{error}"))
    })
}

pub(crate) fn package(name: &str) -> &'static Package {
    let mut members = metadata().workspace_packages().into_iter();
    members
        .find(|package| package.name.as_str() == name)
        .unwrap_or_else(|| panic!("{name} is no member"))
}
