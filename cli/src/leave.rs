//! Files that commands leave for other programs.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

use crate::exit::Failure;

/// Most links that lead from one to the next, as for the kernel.
const MOST_LINKS: usize = 40;

/// Puts a file in place in one step, so that nobody reads half of it. A device, a pipe or a link is written to, and not
/// replaced by a file.
pub(crate) fn put(option: &str, file: &Path, text: &str) -> Result<(), Failure> {
    let is_other = fs::symlink_metadata(file).is_ok_and(|about| !about.is_file());
    let put = if is_other {
        write_to(file, text)
    } else {
        // A file that is mounted by itself cannot be replaced.
        replace(file, text).or_else(|_| fs::write(file, text))
    };
    put.map_err(|error| {
        Failure::own(format_args!(
            "{option}: {} cannot be written: {error}",
            file.display()
        ))
    })
}

/// Replaces a file by one that is written beside it, under a name that no other file has.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut new = tempfile::Builder::new()
        .prefix(".multilock-")
        // As of any file that a program makes: the umask takes away from it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}

/// Writes to a device, to a pipe that somebody reads, or to the file that a link leads to.
fn write_to(file: &Path, text: &str) -> io::Result<()> {
    let mut to = OpenOptions::new()
        .append(true)
        .create(true)
        // Without a reader, a pipe is refused at once.
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(file)?;
    fcntl_setfl(&to, OFlags::APPEND)?;
    // What the output goes to is kept, such as a log that stderr is appended to.
    if to.metadata()?.is_file() && !is_descriptor(file) {
        to.set_len(0)?;
    }
    to.write_all(text.as_bytes())
}

/// Whether a path names an open file of this process, as `/dev/stderr` does.
fn is_descriptor(file: &Path) -> bool {
    let mut at = file.to_owned();
    for _ in 0..MOST_LINKS {
        if at.starts_with("/dev") || at.starts_with("/proc") {
            return true;
        }
        let Ok(target) = fs::read_link(&at) else {
            return false;
        };
        at.pop();
        at.push(target);
    }
    false
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
    use std::os::unix::fs::MetadataExt;

    use super::*;

    /// Of an earlier run too, which was killed: in a container each has the same process number.
    #[test]
    fn what_lies_beside_a_file_is_left_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let (file, theirs) = (folder.path().join("report"), folder.path().join("theirs"));
        fs::write(&theirs, "precious").expect("written");
        let beside = folder.path().join(format!("report.{}", std::process::id()));
        std::os::unix::fs::symlink(&theirs, &beside).expect("a link");
        let mut before = None;
        for text in ["done", "done again"] {
            put("--report", &file, text).expect("written");
            assert_eq!(fs::read_to_string(&file).expect("a file"), text);
            let now = fs::metadata(&file).expect("a file");
            assert_ne!(before.replace(now.ino()), Some(now.ino()), "in one step");
            assert_ne!(now.mode() & 0o044, 0, "others may read it: {:o}", now.mode());
        }
        assert_eq!(fs::read_to_string(&theirs).expect("a file"), "precious");
        assert_eq!(fs::read_dir(folder.path()).expect("a directory").count(), 3);
    }

    #[test]
    fn a_link_leads_to_the_file_that_is_written() {
        let folder = tempfile::tempdir().expect("a directory");
        let (link, file) = (folder.path().join("link"), folder.path().join("report"));
        std::os::unix::fs::symlink("report", &link).expect("a link");
        for text in ["done again", "done"] {
            put("--report", &link, text).expect("written");
            assert_eq!(fs::read_to_string(&file).expect("a file"), text);
        }
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        let further = folder.path().join("further");
        std::os::unix::fs::symlink("/dev/stdout", &further).expect("a link");
        std::os::unix::fs::symlink("further", folder.path().join("furthest")).expect("a link");
        assert!(is_descriptor(&folder.path().join("furthest")) && !is_descriptor(&link));
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a directory");
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
        let refused = put("--report", &pipe, "done").expect_err("nobody reads");
        assert_eq!(refused.code, crate::exit::OWN, "{refused:?}");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe)
        });
        let written = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            put("--report", &pipe, "done").is_ok()
        });
        assert!(written);
        assert_eq!(reader.join().expect("no panic").expect("text"), "done");
    }
}
