//! Common settings of all histories, and the choices of a row.

use std::time::Duration;

use anyhow::Result;

use crate::support::clock;

pub const WORKERS: usize = 3;
/// The name that is only ever locked on all masters.
pub const EVERY_MASTER: &str = "c";
/// The name that has permits, and their number: fewer than there are workers.
pub const PERMITS: (&str, u32) = ("p", 2);
const LEASE: Duration = Duration::from_secs(1);
/// More than a container needs to start again.
const LONG_LEASE: Duration = Duration::from_secs(4);
/// Above the delays of a busy machine, below the delays of the slow links.
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
    /// The record of a master is looked at with each vote.
    pub strict: bool,
    /// Holds must be there still when a container has started again.
    pub outlasts_restarts: bool,
}

impl SetUp {
    /// Whether the masters of the compose file would do.
    pub fn is_plain(self) -> bool {
        self.args.is_empty() && !self.clocks && !self.replaceable
    }

    pub fn quarantine_word(self) -> &'static str {
        if self.no_quarantine { "off" } else { "auto" }
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
        clock::env()
    }
}
