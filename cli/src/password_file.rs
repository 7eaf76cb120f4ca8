//! The password file. It is checked before the masters are tried, so that a missing file is not reported as
//! unreachable masters.

use std::env;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::exit::{self, Failure};

/// More bytes than any password has.
const LONGEST: u64 = 1 << 20;
const VARIABLE: &str = "MULTILOCK_PASSWORD_FILE";

/// Refuses a file that no connection can log in with. A pipe or a terminal is left alone, because it can be read only once.
pub(crate) fn check() -> Result<(), Failure> {
    // The library reads the variable likewise, and refuses a blank one and one that is not UTF-8.
    let Ok(text) = env::var(VARIABLE) else {
        return Ok(());
    };
    let file = Path::new(text.trim());
    if file.as_os_str().is_empty() {
        return Ok(());
    }
    read(file).map_err(|why| {
        let message = format!(
            "{VARIABLE}: {} ({why}) is not allowed; allowed: a file with the password",
            file.display()
        );
        Failure::new(exit::UNFIT, message)
    })
}

/// Reads a text of a few words. A device may have no end.
pub(crate) fn read_limited(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn read(file: &Path) -> Result<(), String> {
    let words = |error: io::Error| error.to_string();
    let about = fs::metadata(file).map_err(words)?;
    let kind = about.file_type();
    if kind.is_dir() {
        return Err(String::from("a directory"));
    }
    if kind.is_fifo() || kind.is_socket() {
        return Ok(());
    }
    if File::open(file).map_err(words)?.is_terminal() {
        return Ok(());
    }
    let text = read_limited(file).map_err(words)?;
    if text.trim_matches(['\u{feff}', '\r', '\n']).is_empty() {
        return Err(String::from("empty"));
    }
    Ok(())
}
