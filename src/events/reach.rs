//! Lines of the log about a master that comes and goes: in ten seconds at most one outage, and one time of being unfit.

use super::throttle::{INTERVAL, LastLine};
use crate::error::NodeError;

/// State of one master, by the log.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Reason why there is no connection; `None` while the log says that there is one.
    outage: Option<NodeError>,
    /// Lines about a master that is out of reach, and about one that is unfit.
    lines: [LastLine; 2],
}

impl Reach {
    /// Notes that there is no connection; `is_new` for another reason than before. Returns the number of reasons that were
    /// left out if a line is to be written. A reason that lasts is written once the time is over. The text may differ at
    /// each attempt, as from a proxy that ends connections in several ways.
    pub(super) fn lost(&mut self, reason: &NodeError, is_new: bool) -> Option<u64> {
        if self.outage.as_ref() == Some(reason) {
            return None;
        }
        let is_unfit = matches!(reason, NodeError::Unfit(_));
        let left_out = self.lines[usize::from(is_unfit)].admit(INTERVAL, is_new)?;
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
    use crate::error::Unfit;

    #[tokio::test(start_paused = true)]
    async fn a_master_that_comes_and_goes_is_logged_once_in_ten_seconds() {
        let mut reach = Reach::default();
        let refused = NodeError::Unavailable("connection refused".into());
        assert_eq!(reach.lost(&refused, true), Some(0));
        assert_eq!(reach.lost(&refused, false), None, "it is known");
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

    /// A proxy ends connections in several ways, and an error may contain the time.
    #[tokio::test(start_paused = true)]
    async fn a_text_that_changes_at_each_attempt_is_logged_once_in_ten_seconds() {
        let mut reach = Reach::default();
        let lines = async |reach: &mut Reach| {
            let mut lines = 0;
            for attempt in 0..40 {
                let reason = NodeError::Unavailable(format!("attempt {attempt} failed"));
                lines += usize::from(reach.lost(&reason, true).is_some());
                tokio::time::advance(Duration::from_millis(250)).await;
            }
            lines
        };
        assert_eq!(lines(&mut reach).await, 1);
        let replica = NodeError::Unfit(Unfit::Replica);
        assert_eq!(
            reach.lost(&replica, true),
            Some(0),
            "another kind is logged at once"
        );
        assert_eq!(lines(&mut reach).await, 1);
        assert!(reach.found());
    }

    /// An address may lead to a replica, and to nobody, by turns.
    #[tokio::test(start_paused = true)]
    async fn kinds_that_alternate_are_logged_once_in_ten_seconds_each() {
        let mut reach = Reach::default();
        let refused = NodeError::Unavailable("connection refused".into());
        let replica = NodeError::Unfit(Unfit::Replica);
        let mut lines = 0;
        for _ in 0..39 {
            for reason in [&refused, &replica] {
                lines += usize::from(reach.lost(reason, true).is_some());
            }
            tokio::time::advance(Duration::from_millis(250)).await;
        }
        assert_eq!(lines, 2);
    }
}
