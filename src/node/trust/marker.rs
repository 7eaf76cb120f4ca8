//! The mark on a master's memory by which a client notices that it was wiped.
//!
//! One key tells which run of the server has remembered everything since when. A wiped memory has no
//! such key, another server behind the same address has another one, and a client that comes later
//! and marks the memory anew writes a later time: what a vote depends on is that the marker still
//! says what it said when the connection was set up.

use std::sync::Arc;
use std::time::Duration;

/// What the marker of a connection's master says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker(Arc<str>);

impl Marker {
    /// For a run of the server that has not marked its memory yet.
    pub(crate) fn new(run_id: &str, clock_us: u64) -> Self {
        Self(format!("{run_id} {clock_us}").into())
    }

    /// What was found on a master, and for how long it stands; `None` when another run wrote it.
    pub(crate) fn found(text: &str, run_id: &str, clock_us: u64) -> Option<(Self, Duration)> {
        let (run, since) = text.split_once(' ')?;
        let since: u64 = since.parse().ok()?;
        let age = Duration::from_micros(clock_us.saturating_sub(since));
        (run == run_id).then(|| (Self(text.into()), age))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_run_is_recognised() {
        let written = Marker::new("run", 5_000_000);
        let found = Marker::found(written.as_str(), "run", 7_000_000);
        assert_eq!(found, Some((written.clone(), Duration::from_secs(2))));
        assert_eq!(Marker::found(written.as_str(), "other", 7_000_000), None);
        assert_eq!(Marker::found("", "run", 7_000_000), None);
        assert_eq!(Marker::found("run soon", "run", 7_000_000), None);
    }
}
