//! Broken variants of the crate, which the simulation must catch. They are listed in `list.txt`.

mod list;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub(crate) use list::all_apply;
use list::{Mutant, apply, list, root};
use trial::Trial;

pub(crate) fn catch_all() {
    let target =
        std::env::var_os("MUTANTS_TARGET").map_or_else(|| root().join("target/mutants"), PathBuf::from);
    let tree = target.join("tree");
    let only = std::env::var("MUTANTS_ONLY").unwrap_or_default();
    let skipped = crate::campaign::number("MUTANTS_SKIP").unwrap_or(0);
    copy_tree(&tree);
    let mutants: Vec<_> = list()
        .into_iter()
        .skip(usize::try_from(skipped).expect("a small number"))
        .filter(|mutant| only.split(',').any(|part| mutant.name.contains(part)))
        .collect();
    // A schedule that fails for the crate itself would catch every mutant.
    let whole = Mutant::default();
    match catch(&whole, &tree, &target) {
        Ok(by) => panic!("the crate itself fails: {by}"),
        Err(why) => assert_eq!(why, trial::SURVIVED, "the crate itself"),
    }
    let mut caught = 0;
    println!(
        "{:<30} {:<8} {:<66} {:>7}  rule",
        "mutant", "caught", "by", "seconds"
    );
    for mutant in &mutants {
        let begun = Instant::now();
        let by = catch(mutant, &tree, &target);
        caught += usize::from(by.is_ok());
        let (verdict, by) = match by {
            Ok(by) => ("caught", by),
            Err(why) => ("NOT", why),
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{:<30} {verdict:<8} {by:<66} {seconds:>7.1}  {}",
            mutant.name, mutant.rule
        );
        for edit in &mutant.edits {
            fs::copy(root().join(&edit.file), tree.join(&edit.file)).expect("undone");
        }
    }
    println!("mutants: caught={caught} of={}", mutants.len());
    assert_eq!(caught, mutants.len(), "see above");
}

/// That cargo takes the copy for a package, as every run of the mutants needs it to.
pub(crate) fn tree_is_a_package() {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    copy_tree(&tree);
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let told = metadata.current_dir(&tree).output().expect("cargo");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}

/// Returns the schedule that caught the mutant, or the reason that none did.
fn catch(mutant: &Mutant, tree: &Path, target: &Path) -> Result<String, String> {
    apply(mutant, tree, root())?;
    let built = Command::new(env!("CARGO"))
        .args([
            "test",
            "-q",
            "--test",
            "simulation",
            "--no-run",
            "--message-format=json",
        ])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .output()
        .expect("cargo runs");
    if !built.status.success() {
        return Err(format!("does not build: {}", tail(&built.stderr)));
    }
    let out = String::from_utf8_lossy(&built.stdout);
    let named = |line: &str| {
        line.split("\"executable\":\"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    };
    let binary = out.lines().rev().find_map(named).ok_or("no test was built")?;
    Trial { binary, mutant }.find()
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .find(|line| line.starts_with("error"))
        .unwrap_or("unknown")
        .to_owned()
}

/// Copies the files that the simulation needs to be built. No earlier change in the copy stays.
fn copy_tree(tree: &Path) {
    let _ = fs::remove_dir_all(tree);
    // The manifest names examples and their features.
    for part in ["src", "lua", "examples", "tests/simulation", "tests/support"] {
        copy_dir(&root().join(part), &tree.join(part));
    }
    for file in ["Cargo.toml", "Cargo.lock", "README.md"] {
        fs::copy(root().join(file), tree.join(file)).expect("copied");
    }
    let manifest = fs::read_to_string(tree.join("Cargo.toml")).expect("copied");
    // It has no neighbours.
    let alone = |line: &str| {
        if line.starts_with("members = ") {
            "members = []\n".to_owned()
        } else {
            format!("{line}\n")
        }
    };
    let plain: String = manifest.lines().map(alone).collect();
    fs::write(tree.join("Cargo.toml"), plain).expect("written");
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("copied");
        }
    }
}
