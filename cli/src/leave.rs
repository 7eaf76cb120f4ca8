//! Files that commands leave for other programs.

use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

use crate::exit::Failure;

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
    put.map_err(|error| not_written(option, file, &error))
}

/// Refuses a file that cannot be written, because its folder does not exist.
pub(crate) fn check_folder(option: &str, file: &Path) -> Result<(), Failure> {
    let Some(folder) = folder_of(file) else {
        return Ok(());
    };
    let is_folder = fs::metadata(folder).and_then(|about| {
        if about.is_dir() {
            Ok(())
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    });
    is_folder.map_err(|error| not_written(option, file, &error))
}

fn not_written(option: &str, file: &Path, error: &io::Error) -> Failure {
    Failure::own(format_args!(
        "{option}: {} cannot be written: {error}",
        file.display()
    ))
}

/// Folder of a file, if its path has one.
fn folder_of(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// Replaces a file by one that is written beside it, under a name that no other file has.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = tempfile::Builder::new()
        .prefix(".multilock-")
        // As of any file that a program makes: the umask takes away from it.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder_of(file).unwrap_or(Path::new(".")))?;
    if let Ok(about) = fs::metadata(file) {
        // Somebody may have hidden it from others.
        new.as_file().set_permissions(about.permissions())?;
    }
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
    let about = to.metadata()?;
    if about.is_file() {
        // A log that the output goes to is kept, and has the text at its present end.
        match open_already(&about, to.as_raw_fd()) {
            None => to.set_len(0)?,
            Some(1) => {
                io::stdout().write_all(text.as_bytes())?;
                return io::stdout().flush();
            }
            Some(2) => return io::stderr().write_all(text.as_bytes()),
            Some(_) => {}
        }
    }
    to.write_all(text.as_bytes())
}

/// Another descriptor of this process for the same file, as `/dev/stderr` stands for one.
fn open_already(about: &Metadata, own: RawFd) -> Option<RawFd> {
    let all = fs::read_dir("/dev/fd").ok()?.flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_same = |number: &RawFd| {
        let other = fs::metadata(format!("/dev/fd/{number}"));
        *number != own && other.is_ok_and(|other| (other.dev(), other.ino()) == (about.dev(), about.ino()))
    };
    numbers.filter(is_same).min()
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
    fn a_file_is_replaced_in_one_step() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("report");
        let mut before = None;
        for text in ["done", "done again"] {
            put("--report", &file, text).expect("written");
            assert_eq!(fs::read_to_string(&file).expect("a file"), text);
            let now = fs::metadata(&file).expect("a file");
            assert_ne!(before.replace(now.ino()), Some(now.ino()), "in one step");
            assert_ne!(now.mode() & 0o044, 0, "others may read it: {:o}", now.mode());
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn a_file_stays_hidden_from_others() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("report");
        fs::write(&file, "").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its owner");
        put("--report", &file, "done").expect("written");
        assert_eq!(fs::metadata(&file).expect("a file").mode() & 0o777, 0o600);
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
        let _log = fs::OpenOptions::new().append(true).open(&file).expect("a log");
        put("--report", &link, " once more").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "done once more");
    }

    /// A collector would refuse the whole file.
    #[test]
    fn a_label_may_have_anything_in_it() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
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
