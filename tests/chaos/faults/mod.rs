//! The faults, one row each: the broken part, and the promises under it.

mod client;
mod clock;
mod disk;
mod network;
mod partition;
mod restart;
mod server;

use std::time::Duration;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use crate::settings::SetUp;
use crate::stage::Stage;

/// Expectation of one event under a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It must not happen.
    Never,
    /// It may happen: nothing is promised.
    Open,
    /// It must be seen, or the campaign would be blind.
    Seen,
}

pub type Strike = for<'a> fn(&'a mut Stage) -> LocalBoxFuture<'a, Result<()>>;

// A row consists of yes and no.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// The promise, in words.
    pub promise: &'static str,
    pub set_up: SetUp,
    /// Before the first strike.
    pub prepare: Option<Strike>,
    /// Breaks, lasts and heals.
    pub strike: Strike,
    /// Two valid at once.
    pub overlaps: Expect,
    /// Writes after a later holder's: the unfenced twin takes them.
    pub stale: Expect,
    /// The later grant has the larger token, and the fenced resource takes no stale write.
    pub tokens: bool,
    /// A reader's token is not below the tokens of the writers before. It is the token that the masters have stored.
    /// If they go back to an older one, so does the reader, while a writer's token is drawn from the clocks.
    pub reader_tokens: bool,
    /// Masters keep their stored data, and their clocks go on: a job that is done is not done again.
    pub jobs: bool,
    /// Majority locks are granted during the fault, too.
    pub available: bool,
    /// No majority is there: nothing is granted and nothing is *held by another*.
    pub blackout: bool,
    /// Nothing is left on the masters after the lease.
    pub clean: bool,
    /// Containers can do it, and it is not all about the links, which are the same for them.
    pub containers: bool,
    /// Everybody gets a lock again within this after the fault.
    pub back_within: Duration,
}

/// Everything is promised, and all of it for servers of any kind.
pub const PROMISED: Row = Row {
    name: "",
    promise: "",
    set_up: SetUp {
        args: &[],
        clocks: false,
        replaceable: false,
        no_quarantine: false,
        allow_eviction: false,
        strict: false,
        outlasts_restarts: false,
    },
    prepare: None,
    strike: |_| Box::pin(async { Ok(()) }),
    overlaps: Expect::Never,
    stale: Expect::Open,
    tokens: true,
    reader_tokens: true,
    jobs: false,
    available: false,
    blackout: false,
    clean: true,
    containers: true,
    back_within: Duration::from_secs(15),
};

/// The same where masters keep their stored data.
pub const REMEMBERED: Row = Row {
    jobs: true,
    ..PROMISED
};

pub fn all() -> Vec<Row> {
    [
        restart::rows(),
        disk::rows(),
        server::rows(),
        network::rows(),
        client::rows(),
        clock::rows(),
        partition::rows(),
    ]
    .concat()
}
