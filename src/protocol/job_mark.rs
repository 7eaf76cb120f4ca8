//! The mark of a job that is done, as the masters store it (`lua/mark.lua`).

use std::sync::Arc;
use std::time::Duration;

/// Time at which a job was done, and the client that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobMark {
    /// Milliseconds since 1970, by the masters' clocks.
    pub(crate) at_ms: u64,
    /// Time for which the job is not to be begun again.
    pub(crate) keep: Duration,
    /// Label of the client; empty if the client has none.
    pub(crate) label: Arc<str>,
}
