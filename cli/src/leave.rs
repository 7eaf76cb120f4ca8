//! Files that commands leave for other programs.

use std::fs;
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
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, file))
            // A file that is mounted by itself cannot be replaced.
            .or_else(|_| fs::write(file, text))
    };
    let _ = fs::remove_file(&beside);
    put.map_err(|error| {
        Failure::own(format_args!(
            "{option}: {} cannot be written: {error}",
            file.display()
        ))
    })
}

/// Escapes the value of a label of Prometheus.
pub(crate) fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}
