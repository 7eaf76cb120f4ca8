//! Times at which a keeper sends pending releases to its master, and checks that the master answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Link;
use super::deferred::Deferrals;
use crate::time::backoff::{Backoff, FIRST_DELAY};
use crate::time::random::Random;

/// Times at which the keeper of a connection sends pending releases, and checks that the master answers.
pub(super) struct Pace<'a> {
    random: &'a Random,
    node_timeout: Duration,
    /// Time at which the last batch was sent, while the next one waits for its answer.
    sent: Option<Instant>,
    /// End of the pause after an error that passes.
    paused_until: Option<Instant>,
    delays: Backoff,
    /// Time since which the answer to a release has been overdue without a check for silence.
    pub(super) overdue: Option<Instant>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(random: &'a Random, node_timeout: Duration) -> Self {
        Self {
            random,
            node_timeout,
            sent: Some(Instant::now()),
            paused_until: None,
            delays: Backoff::new(random),
            overdue: None,
        }
    }

    /// Sends the next batch if it is time, and returns the time to look again. A batch waits for the answer
    /// to its predecessor until the node timeout. After that the predecessor is left to the connection, like
    /// every release that was sent.
    pub(super) fn send(&mut self, deferrals: &Arc<Deferrals>, link: &Arc<Link>) -> Option<Instant> {
        let now = Instant::now();
        let deadline = self.sent.map(|sent| sent + self.node_timeout);
        if deferrals.is_under_way() && deadline.is_some_and(|deadline| now < deadline) {
            return deadline;
        }
        if deferrals.is_under_way()
            && let Some(sent) = self.sent.take()
        {
            link.note_missed_deadline(sent);
            self.overdue.get_or_insert_with(Instant::now);
        }
        self.sent = None;
        if deferrals.is_refused() && self.paused_until.is_none() {
            self.paused_until = Some(now + self.delays.next());
        }
        if !deferrals.is_waiting() {
            self.delays = Backoff::new(self.random);
            self.paused_until = None;
            return None;
        }
        if let Some(until) = self.paused_until.filter(|until| now < *until) {
            return Some(until);
        }
        if link.is_backed_up() {
            return Some(now + FIRST_DELAY);
        }
        self.paused_until = None;
        self.sent = Some(now);
        deferrals.send(link);
        Some(now + self.node_timeout)
    }

    /// Counts a missed deadline if the master was silent for another node timeout while a release had no
    /// answer.
    pub(super) fn listen(&mut self, link: &Link) {
        let Some(since) = self.overdue.take() else { return };
        if link.is_waiting() && link.last_received() < since {
            link.note_missed_deadline(since);
            self.overdue = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;
    use crate::node::connection::tests::{Calls, NODE_TIMEOUT, link_to};
    use crate::node::deferred::tests::with;

    /// A node timeout but for the last millisecond.
    const ALMOST: Duration = Duration::from_millis(49);

    /// A first batch is under way, and a second one is pending.
    #[tokio::test(start_paused = true)]
    async fn a_batch_waits_for_the_answer_to_the_last_one_until_the_node_timeout() {
        let (calls, random) = (Calls::default(), Random::from_seed(0));
        let (link, deferrals) = (link_to(&calls, Duration::ZERO), Arc::new(with(200)));
        deferrals.send(&link);
        let mut pace = Pace::new(&random, NODE_TIMEOUT);
        for batches in 1..=3 {
            let next = pace.send(&deferrals, &link).expect("pending");
            assert_eq!(next, Instant::now() + NODE_TIMEOUT);
            assert_eq!(calls.lock().len(), batches);
            advance(ALMOST).await;
            assert_eq!(pace.send(&deferrals, &link), Some(next));
            assert_eq!(calls.lock().len(), batches);
            advance(Duration::from_millis(1)).await;
        }
    }

    /// The master is sent nothing but releases.
    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_no_batch_is_answered_is_replaced() {
        let (calls, random) = (Calls::default(), Random::from_seed(0));
        let (link, deferrals) = (link_to(&calls, Duration::ZERO), Arc::new(with(200)));
        let mut pace = Pace::new(&random, NODE_TIMEOUT);
        for missed in 0..3 {
            assert_eq!(link.replacement_wanted().now_or_never(), None, "{missed}");
            pace.send(&deferrals, &link);
            advance(NODE_TIMEOUT).await;
        }
        pace.send(&deferrals, &link);
        assert_eq!(link.replacement_wanted().now_or_never(), Some("no answer"));
    }
}
