//! Files that commands leave for other programs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// Puts a file in place in one step, so that nobody reads half of it. A device, a pipe or a link is written to, and not
/// replaced by a file.
pub(crate) fn put(option: &str, file: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let is_other = fs::symlink_metadata(file).is_ok_and(|about| !about.is_file());
    let put = if is_other {
        fs::write(file, text)
    } else {
        // A file that is mounted by itself cannot be replaced.
        replace(file, &beside, text).or_else(|_| fs::write(file, text))
    };
    put.map_err(|error| {
        Failure::own(format_args!(
            "{option}: {} cannot be written: {error}",
            file.display()
        ))
    })
}

/// Replaces a file by one that is written beside it. A file or a link that is there already is left alone: in a directory
/// for all users it may be another user's.
fn replace(file: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let mut new = File::create_new(beside)?;
    let replaced = new
        .write_all(text.as_bytes())
        .and_then(|()| fs::rename(beside, file));
    if replaced.is_err() {
        let _ = fs::remove_file(beside);
    }
    replaced
}

/// Escapes the value of a label of Prometheus.
pub(crate) fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_planted_beside_a_file_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, theirs) = (dir.path().join("report"), dir.path().join("theirs"));
        fs::write(&theirs, "precious").expect("written");
        let beside = dir.path().join(format!("report.{}", std::process::id()));
        std::os::unix::fs::symlink(&theirs, &beside).expect("a link");
        put("--report", &file, "done").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "done");
        assert_eq!(fs::read_to_string(&theirs).expect("a file"), "precious");
        fs::remove_file(&beside).expect("it is left");
        put("--report", &file, "done again").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "done again");
        assert_eq!(
            fs::read_dir(dir.path()).expect("a directory").count(),
            2,
            "nothing is beside it"
        );
    }
}
