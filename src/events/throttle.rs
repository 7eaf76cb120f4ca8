//! Warnings that recur for as long as something is wrong. Each cause has one line in ten seconds, or in a minute for
//! candidates, with a count of the lines that were left out.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::TARGET;
use super::kinds::{AcquireOutcome, Word};
use crate::error::LockError;
use crate::time::rounded::Rounded;
use crate::values::names::Names;
use crate::values::votes::{Confirmations, Votes};

/// Time between two lines of one cause.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Time between two lines for candidates, which wait for days.
const LEAD_INTERVAL: Duration = Duration::from_secs(60);

/// Time of the last line of one cause, and number of lines that were left out since.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    last: Option<Instant>,
    left_out: u64,
}

/// Recurring warnings of one client.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    /// One bound for each kind of error, as for `leads`.
    waits: [Bound; AcquireOutcome::ALL.len()],
    leads: [Bound; AcquireOutcome::ALL.len()],
    releases: Bound,
    unpolled: Bound,
}

/// Recurring warnings about the credentials of one connection.
#[derive(Debug, Default)]
pub(crate) struct CredentialsThrottle(Bound);

#[derive(Debug, Default)]
struct Bound(Mutex<LastLine>);

impl LogThrottle {
    /// Logs that masters could not decide about a lock that is waited for.
    pub(crate) fn still_waiting(&self, names: &Names, error: &LockError) {
        if let Some(left_out) = self.waits[AcquireOutcome::of_error(error).index()].admit(INTERVAL) {
            tracing::warn!(target: TARGET, %names, %error, left_out, "still waiting for a lock");
        }
    }

    /// Logs that a candidate for the lead was refused for a reason that time may cure.
    pub(crate) fn cannot_lead(&self, names: &Names, error: &LockError) {
        if let Some(left_out) = self.leads[AcquireOutcome::of_error(error).index()].admit(LEAD_INTERVAL) {
            tracing::warn!(target: TARGET, %names, %error, left_out, "cannot lead yet");
        }
    }

    /// Logs that a woken waiter's task was not polled in time: its turn goes on to the next.
    pub(crate) fn not_polled(&self, names: &Names) {
        if let Some(left_out) = self.unpolled.admit(INTERVAL) {
            tracing::warn!(target: TARGET, %names, left_out, "a task that waits for a lock is not polled");
        }
    }

    /// Logs that too few masters have confirmed the release after a body has ended.
    pub(crate) fn release_unconfirmed(&self, names: &Names, free_within: Duration, votes: &Votes) {
        if let Some(left_out) = self.releases.admit(INTERVAL) {
            let (free_within, votes) = (Rounded(free_within), Confirmations(votes));
            tracing::warn!(target: TARGET, %names, %free_within, %votes, left_out, "release not confirmed");
        }
    }
}

impl CredentialsThrottle {
    /// Logs that a live connection could not get or use other credentials.
    pub(crate) fn not_refreshed(&self, node: &str, reason: &str) {
        if let Some(left_out) = self.0.admit(INTERVAL) {
            tracing::warn!(target: TARGET, node, reason, left_out, "credentials were not refreshed");
        }
    }
}

impl Bound {
    fn admit(&self, interval: Duration) -> Option<u64> {
        let mut last = self.0.lock();
        last.admit(interval, true)
    }
}

impl LastLine {
    /// Admits a line if the last one is an interval ago. Returns the number of lines that were left out before it. A line
    /// that `is_new` counts if it is left out.
    pub(super) fn admit(&mut self, interval: Duration, is_new: bool) -> Option<u64> {
        let now = Instant::now();
        if self.last.is_some_and(|last| now - last < interval) {
            self.left_out += u64::from(is_new);
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_in_ten_seconds_and_the_count_of_the_others() {
        let bound = Bound::default();
        assert_eq!(bound.admit(INTERVAL), Some(0));
        assert_eq!((bound.admit(INTERVAL), bound.admit(INTERVAL)), (None, None));
        tokio::time::advance(Duration::from_millis(9999)).await;
        assert_eq!(bound.admit(INTERVAL), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((bound.admit(INTERVAL), bound.admit(INTERVAL)), (Some(3), None));
        tokio::time::advance(INTERVAL * 100).await;
        assert_eq!(bound.admit(INTERVAL), Some(1));
    }
}
