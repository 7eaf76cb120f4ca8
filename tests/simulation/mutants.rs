//! Broken variants of the crate, which the simulation must catch. What they are stands in
//! `mutants/list.txt`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Schedules at random that are tried before the sweeps are.
const RUNS: &str = "120";
/// Once it is built, a mutant that lives longer counts as missed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One broken variant.
#[derive(Debug, Default)]
struct Mutant {
    name: String,
    rule: String,
    /// The directed schedule that is aimed at it.
    aim: Option<String>,
    /// The one class of schedules at random that can show it.
    class: Option<String>,
    edits: Vec<Edit>,
}

#[derive(Debug, Default)]
struct Edit {
    file: String,
    old: String,
    new: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn list() -> Vec<Mutant> {
    let text = include_str!("mutants/list.txt");
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut into: Option<bool> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# ") {
            mutants.push(Mutant {
                name: name.to_owned(),
                ..Mutant::default()
            });
            into = None;
            continue;
        }
        let Some(mutant) = mutants.last_mut() else {
            continue;
        };
        if let Some(rule) = line.strip_prefix("rule: ") {
            rule.clone_into(&mut mutant.rule);
        } else if let Some(aim) = line.strip_prefix("aim: ") {
            mutant.aim = Some(aim.to_owned());
        } else if let Some(class) = line.strip_prefix("class: ") {
            mutant.class = Some(class.to_owned());
        } else if let Some(file) = line.strip_prefix("file: ") {
            mutant.edits.push(Edit {
                file: file.to_owned(),
                ..Edit::default()
            });
        } else if line == "<<<" {
            into = Some(true);
        } else if line == "===" {
            into = Some(false);
        } else if line == ">>>" {
            into = None;
        } else if let (Some(old), Some(edit)) = (into, mutant.edits.last_mut()) {
            let side = if old { &mut edit.old } else { &mut edit.new };
            side.push_str(line);
            side.push('\n');
        }
    }
    mutants
}

/// The file with the edit made; why not, where its text is not there exactly once.
fn edited(text: &str, edit: &Edit) -> Result<String, String> {
    match text.matches(&edit.old).count() {
        1 => Ok(text.replacen(&edit.old, &edit.new, 1)),
        times => Err(format!("{} has this {times} times:\n{}", edit.file, edit.old)),
    }
}

fn apply(mutant: &Mutant, tree: &Path, original: &Path) -> Result<(), String> {
    let mut files: Vec<(&str, String)> = Vec::new();
    for edit in &mutant.edits {
        let known = files.iter().position(|(file, _)| *file == edit.file);
        let place = known.unwrap_or_else(|| {
            let text = fs::read_to_string(original.join(&edit.file)).expect("a file of the crate");
            files.push((&edit.file, text));
            files.len() - 1
        });
        files[place].1 = edited(&files[place].1, edit)?;
    }
    for (file, text) in files {
        fs::write(tree.join(file), text).map_err(|error| error.to_string())?;
    }
    Ok(())
}

pub(crate) fn all_apply() {
    let mutants = list();
    assert!(mutants.len() >= 30, "{} mutants", mutants.len());
    let schedules = directed();
    for mutant in &mutants {
        assert!(
            !mutant.rule.is_empty() && !mutant.edits.is_empty(),
            "{} is incomplete",
            mutant.name
        );
        if let Some(aim) = &mutant.aim {
            let (file, schedule) = aim.split_once("::").expect("file::schedule");
            let there = format!("async fn {schedule}()");
            assert!(
                schedules
                    .iter()
                    .any(|(name, text)| name == file && text.contains(&there)),
                "{}: there is no {aim}",
                mutant.name
            );
        }
        for edit in &mutant.edits {
            let text = fs::read_to_string(root().join(&edit.file)).expect("a file of the crate");
            if let Err(why) = edited(&text, edit) {
                panic!("{}: {why}", mutant.name);
            }
        }
    }
}

/// The files of directed schedules, by their names.
fn directed() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("tests/simulation/directed")).expect("a directory");
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("text"))
    };
    files.flatten().map(|file| read(file.path())).collect()
}

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
        .filter(|mutant| mutant.name.contains(&only))
        .collect();
    // What fails for the crate itself would catch everything.
    let whole = Mutant::default();
    if let Ok(by) = catch(&whole, &tree, &target) {
        panic!("the crate itself fails: {by}");
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

/// What caught the mutant; why it was not caught.
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
    let trial = Trial {
        binary,
        mutant,
        end: Instant::now() + PATIENCE,
    };
    trial.find()
}

/// One variant, built.
struct Trial<'a> {
    binary: String,
    mutant: &'a Mutant,
    end: Instant,
}

impl Trial<'_> {
    /// What is aimed at it comes first, then what is quick, then what takes long.
    fn find(&self) -> Result<String, String> {
        let aim = self.mutant.aim.as_ref().map(|aim| format!("directed::{aim}"));
        let aimed = aim.iter().map(|aim| vec![aim.as_str(), "--exact"]);
        let all = [
            vec!["directed", "--test-threads", "1"],
            vec!["random_schedules", "--nocapture"],
            vec!["sweep"],
        ];
        let last = if self.mutant.edits.is_empty() { 2 } else { 3 };
        for args in aimed.chain(all.into_iter().take(last)) {
            if let Some(by) = self.run(&args)? {
                return Ok(by);
            }
        }
        Err(format!("survived {RUNS} schedules and the sweeps"))
    }

    /// Which schedule failed, and by which property, if one did.
    fn run(&self, args: &[&str]) -> Result<Option<String>, String> {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .env("SIM_STOP", "1")
            .env("SIM_RUNS", RUNS)
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if let Some(class) = &self.mutant.class {
            command.env("SIM_CLASS", class);
        }
        let mut child = command.spawn().expect("the test runs");
        let mut stdout = child.stdout.take().expect("piped");
        let reading = thread::spawn(move || {
            let mut out = Vec::new();
            stdout.read_to_end(&mut out).map(|_| out)
        });
        let status = loop {
            if let Some(status) = child.try_wait().expect("it was started") {
                break status;
            }
            if Instant::now() > self.end {
                child.kill().and_then(|()| child.wait()).expect("it is ended");
                return Err(format!("lives after {} s of {}", PATIENCE.as_secs(), args[0]));
            }
            thread::sleep(Duration::from_millis(10));
        };
        let out = reading.join().expect("no panic").expect("read");
        let out = String::from_utf8_lossy(&out);
        Ok((!status.success()).then(|| culprit(&out)))
    }
}

/// The first schedule that failed, and the property that does not hold.
fn culprit(out: &str) -> String {
    if let Some(seed) = out.lines().find_map(|line| line.strip_prefix("first: ")) {
        return seed.to_owned();
    }
    let name = out.lines().find_map(|line| {
        let named = line.strip_prefix("test ")?;
        named.strip_suffix(" ... FAILED")
    });
    // A test that runs alone is named where its output is shown.
    let shown = || {
        let heading = |line: &str| {
            let named = line.strip_prefix("---- ")?;
            Some(named.strip_suffix(" stdout ----")?.to_owned())
        };
        out.lines().find_map(heading)
    };
    let name = name.map(str::to_owned).or_else(shown);
    let property = out.split("violated: ").nth(1);
    let property = property.and_then(|text| text.split(':').next());
    let panicked = "what the schedule needs";
    format!(
        "{}: {}",
        name.as_deref().unwrap_or("a test died"),
        property.unwrap_or(panicked)
    )
}

fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .find(|line| line.starts_with("error"))
        .unwrap_or("unknown")
        .to_owned()
}

/// What the simulation needs to be built, and nothing that changed since stays.
fn copy_tree(tree: &Path) {
    let _ = fs::remove_dir_all(tree);
    for part in ["src", "lua", "tests/simulation", "benches"] {
        copy_dir(&root().join(part), &tree.join(part));
    }
    for file in ["Cargo.toml", "Cargo.lock", "README.md"] {
        fs::copy(root().join(file), tree.join(file)).expect("copied");
    }
    // A mutant runs for seconds: building it is what takes long.
    let manifest = fs::read_to_string(tree.join("Cargo.toml")).expect("copied");
    let plain = manifest.replace("multilock = { opt-level = 1 }", "");
    // And it has no neighbours.
    let plain = plain.replace("members = [\"tests/model\"]", "members = []");
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
