//! What all histories have in common, and what a row may choose.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

pub const WORKERS: usize = 3;
/// The name that is only ever locked on all masters.
pub const EVERY_MASTER: &str = "c";
const LEASE: Duration = Duration::from_secs(1);
/// More than a container needs to start again.
const LONG_LEASE: Duration = Duration::from_secs(4);
/// Above what a busy machine adds, below what the slow links take.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(250);

/// Whether masters that need nothing special are those of the compose file.
pub fn on_containers() -> bool {
    std::env::var("MULTILOCK_TEST_CLUSTER").is_ok_and(|word| word == "compose")
}

/// How the masters of a row are started and trusted.
// Options that have nothing to do with each other.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SetUp {
    /// Options that need servers of the history's own.
    pub args: &'static [&'static str],
    /// The servers' clocks can be set.
    pub clocks: bool,
    /// Servers can be put in the place of others.
    pub replaceable: bool,
    pub no_quarantine: bool,
    pub allow_eviction: bool,
    /// The memory of the masters is marked.
    pub strict: bool,
    /// Holds must be there still when a container has started again.
    pub outlasts_restarts: bool,
}

/// Where a server with a clock of its own reads it, beside its data.
pub const CLOCK_FILE: &str = "clock";

impl SetUp {
    /// Whether the masters of the compose file would do.
    pub fn is_plain(self) -> bool {
        self.args.is_empty() && !self.clocks && !self.replaceable
    }

    pub fn quarantine_word(self) -> &'static str {
        if self.no_quarantine { "off" } else { "auto" }
    }

    /// The longest lease, drift and a second.
    pub fn quarantine(self) -> Duration {
        if self.no_quarantine {
            Duration::ZERO
        } else {
            self.lease() + self.lease() / 100 + Duration::from_millis(1002)
        }
    }

    pub fn lease(self) -> Duration {
        if self.outlasts_restarts && on_containers() {
            LONG_LEASE
        } else {
            LEASE
        }
    }

    /// The environment of the servers.
    pub fn env(self) -> Result<Vec<(&'static str, String)>> {
        if !self.clocks {
            return Ok(Vec::new());
        }
        let library = libfaketime()?;
        Ok(vec![
            // The C library's malloc goes before jemalloc's, which reads the clock before libfaketime can serve it.
            ("LD_PRELOAD", format!("{library}:libc.so.6")),
            ("FAKETIME_TIMESTAMP_FILE", format!("{{dir}}/{CLOCK_FILE}")),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ])
    }
}

/// libfaketime, from `LIBFAKETIME` or where the packages of the distributions put it.
fn libfaketime() -> Result<String> {
    if let Ok(path) = std::env::var("LIBFAKETIME") {
        anyhow::ensure!(
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
