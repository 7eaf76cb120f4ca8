//! The list of mutants, and how one is made.

use std::fs;
use std::path::{Path, PathBuf};

/// One broken variant.
#[derive(Debug, Default)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) rule: String,
    /// The directed schedule that is aimed at it.
    pub(super) aim: Option<String>,
    /// The one class of schedules at random that can show it.
    pub(super) class: Option<String>,
    pub(super) edits: Vec<Edit>,
}

#[derive(Debug, Default)]
pub(super) struct Edit {
    pub(super) file: String,
    pub(super) old: String,
    pub(super) new: String,
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(super) fn list() -> Vec<Mutant> {
    let text = include_str!("list.txt");
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

pub(super) fn apply(mutant: &Mutant, tree: &Path, original: &Path) -> Result<(), String> {
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
    let files = files.flatten().map(|file| file.path());
    files.filter(|path| path.is_file()).map(read).collect()
}
