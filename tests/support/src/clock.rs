//! The clock of a native server, set by libfaketime.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::server::Server;

const FILE: &str = "clock";

/// Environment of a server with a clock that can be [`set`].
pub fn env() -> Result<Vec<(&'static str, String)>> {
    let library = libfaketime()?;
    Ok(vec![
        // The C library's malloc goes before jemalloc's, which reads the clock before libfaketime can serve it.
        ("LD_PRELOAD", format!("{library}:libc.so.6")),
        ("FAKETIME_TIMESTAMP_FILE", format!("{{dir}}/{FILE}")),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ])
}

/// Sets a server's clock this number of seconds ahead of the host's, or behind it.
pub fn set(server: &Server, seconds: i64) -> Result<()> {
    let file = server.dir().join(FILE);
    let new = file.with_extension("new");
    // At once: the server reads the file at any moment.
    fs::write(&new, format!("{seconds:+}s\n")).context("setting a clock")?;
    fs::rename(&new, &file).context("setting a clock")
}

/// libfaketime, from `LIBFAKETIME` or where the packages of the distributions put it.
fn libfaketime() -> Result<String> {
    if let Ok(path) = std::env::var("LIBFAKETIME") {
        ensure!(
            Path::new(&path).is_file(),
            "LIBFAKETIME names '{path}', which is not there"
        );
        return Ok(path);
    }
    let arch = std::env::consts::ARCH;
    let places = [
        format!("/usr/lib/{arch}-linux-gnu/faketime/libfaketime.so.1"),
        "/usr/lib/faketime/libfaketime.so.1".to_owned(),
        "/usr/lib64/faketime/libfaketime.so.1".to_owned(),
        "/usr/local/lib/faketime/libfaketime.so.1".to_owned(),
    ];
    places.into_iter().find(|place| Path::new(place).is_file()).context(
        "libfaketime is missing, which sets the clocks of the servers: install it by `apt-get install faketime`, \
         or name it in LIBFAKETIME",
    )
}
