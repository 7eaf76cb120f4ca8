//! The rollback of an attempt that does not become a hold.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::hold::release::Release;
use crate::protocol::claim::Claim;
use crate::protocol::node_set::NodeSet;
use crate::queue::QueueEntry;
use crate::round::pool::Pool;
use crate::values::votes::Vote;

/// An acquisition in progress, made before the first await. Unless it is settled, its drop rolls it back, whatever
/// the reason for the drop.
pub(crate) struct Rollback {
    pool: Arc<Pool>,
    pub(super) claim: Claim,
    /// Queue entry of the waiter that the rollback puts back into the queues.
    waiting: Option<QueueEntry>,
    pub(crate) votes: Vec<Vote>,
    settled: bool,
    /// Makes closing wait for the outcome.
    _under_way: TaskTrackerToken,
}

impl Rollback {
    pub(crate) fn new(pool: &Arc<Pool>, claim: Claim, waiting: Option<QueueEntry>) -> Self {
        Self {
            pool: Arc::clone(pool),
            claim,
            waiting,
            votes: vec![Vote::Pending; pool.slots.len()],
            settled: false,
            _under_way: pool.tracker.token(),
        }
    }

    /// Puts the waiter back into the queues of all masters, not of the first one alone.
    pub(crate) fn requeue_everywhere(&mut self) {
        if let Some(waiting) = &mut self.waiting {
            waiting.waiter.at_first_master = false;
        }
    }

    /// Cancels the rollback, because the attempt has become a hold. Returns the votes so far.
    pub(crate) fn settle(mut self) -> Vec<Vote> {
        self.settled = true;
        std::mem::take(&mut self.votes)
    }
}

/// Rollback of an attempt for which more answers are awaited for a moment. [`finish`](Self::finish) rolls it
/// back at once.
#[derive(Clone)]
pub(crate) struct DelayedRollback(Arc<Mutex<Option<Rollback>>>);

impl DelayedRollback {
    pub(crate) fn new(rollback: Rollback) -> Self {
        Self(Arc::new(Mutex::new(Some(rollback))))
    }

    /// Notes a vote. Returns whether it still matters.
    pub(crate) fn note(&self, node: usize, vote: Vote) -> bool {
        let mut rollback = self.0.lock();
        let Some(rollback) = rollback.as_mut() else {
            return false;
        };
        rollback.votes[node] = vote;
        true
    }

    /// Rolls back now, unless that has been done. A message that is sent after this call follows the rollback
    /// on every master.
    pub(crate) fn finish(&self) {
        let mut rollback = self.0.lock();
        // The rollback is sent under the mutex. So a caller that finds no rollback knows that it was sent.
        drop(rollback.take());
    }
}

impl Drop for Rollback {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let touched = NodeSet::of(&self.votes, Vote::may_have_granted);
        if !touched.is_empty() {
            // A waiter that has withdrawn from the queues must not get back into them, and must not prevent the call of
            // the next waiter.
            let waiting = self.waiting.take();
            let waiting =
                waiting.filter(|QueueEntry { calls, .. }| calls.may_be_queued() && !calls.is_over());
            Release::roll_back(&self.pool, self.claim.clone(), waiting, touched);
        }
    }
}
