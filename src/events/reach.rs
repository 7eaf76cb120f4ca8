//! What is written in the log of a master that comes and goes: not more than one outage in ten seconds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::bounded::INTERVAL;
use crate::error::NodeError;

/// What the log says of one master.
#[derive(Debug, Default)]
pub(super) struct Reach(Mutex<ReachLog>);

#[derive(Debug, Default)]
struct ReachLog {
    /// Why there is no connection; none while the log says that there is one.
    outage: Option<NodeError>,
    /// When the last outage was written.
    at: Option<Instant>,
    /// Outages that were left out since.
    left_out: u64,
    was_connected: bool,
}

impl Reach {
    /// There is no connection, and `is_new` says whether for another reason than before. Whether to write it; with the
    /// number of outages that were left out. An outage that lasts is written once the time is over.
    pub(super) fn lost(&self, reason: &NodeError, is_new: bool) -> Option<u64> {
        let mut written = self.written();
        let now = Instant::now();
        match &written.outage {
            Some(before) if before == reason => return None,
            None if written.at.is_some_and(|at| now - at < INTERVAL) => {
                written.left_out += u64::from(is_new);
                return None;
            }
            _ => {}
        }
        written.at = Some(now);
        written.outage = Some(reason.clone());
        Some(std::mem::take(&mut written.left_out))
    }

    /// There is a connection. Whether to write it: not after an outage that was left out.
    pub(super) fn found(&self) -> bool {
        let mut written = self.written();
        let is_first = !std::mem::replace(&mut written.was_connected, true);
        written.outage.take().is_some() || is_first
    }

    fn written(&self) -> MutexGuard<'_, ReachLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_master_that_comes_and_goes_is_told_of_once_in_ten_seconds() {
        let reach = Reach::default();
        let refused = NodeError::Unavailable("connection refused".into());
        let silent = NodeError::Unavailable("no answer".into());
        assert!(reach.found(), "the first connection");
        assert_eq!(reach.lost(&refused, true), Some(0));
        assert_eq!(reach.lost(&refused, false), None, "it is known");
        assert_eq!(
            reach.lost(&silent, true),
            Some(0),
            "another reason is told at once"
        );
        assert!(reach.found());
        for _ in 0..40 {
            assert_eq!(reach.lost(&refused, true), None);
            assert!(!reach.found());
        }
        assert_eq!(reach.lost(&refused, true), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(reach.lost(&refused, false), Some(41), "it lasts");
        assert!(reach.found());
    }
}
