//! Lines of the log about a master that comes and goes: at most one outage in ten seconds.

use super::throttle::{INTERVAL, LastLine};
use crate::error::NodeError;

/// State of one master, by the log.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Reason why there is no connection; `None` while the log says that there is one.
    outage: Option<NodeError>,
    line: LastLine,
}

impl Reach {
    /// Notes that there is no connection; `is_new` for another reason than before. Returns the number of outages that
    /// were left out if a line is to be written. An outage that lasts is written once the time is over.
    pub(super) fn lost(&mut self, reason: &NodeError, is_new: bool) -> Option<u64> {
        if self.outage.as_ref() == Some(reason) {
            return None;
        }
        let left_out = self.line.admit(INTERVAL, self.outage.is_some(), is_new)?;
        self.outage = Some(reason.clone());
        Some(left_out)
    }

    /// Notes a connection. Returns whether a line is to be written: not after an outage that was left out.
    pub(super) fn found(&mut self) -> bool {
        self.outage.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_master_that_comes_and_goes_is_logged_once_in_ten_seconds() {
        let mut reach = Reach::default();
        let refused = NodeError::Unavailable("connection refused".into());
        let silent = NodeError::Unavailable("no answer".into());
        assert_eq!(reach.lost(&refused, true), Some(0));
        assert_eq!(reach.lost(&refused, false), None, "it is known");
        assert_eq!(
            reach.lost(&silent, true),
            Some(0),
            "another reason is logged at once"
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
