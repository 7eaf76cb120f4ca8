//! The rollback of an attempt that does not become a hold.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::hold::release::Release;
use crate::protocol::claim::Claim;
use crate::queue::QueueEntry;
use crate::round::pool::Pool;
use crate::values::votes::Vote;

/// An acquisition in progress: made before the first await, and unless it is settled by then,
/// whatever ends it rolls it back.
pub(crate) struct Rollback {
    pool: Arc<Pool>,
    claim: Claim,
    /// Who waits, and is put back into the queues.
    waiting: Option<QueueEntry>,
    pub(crate) votes: Vec<Vote>,
    settled: bool,
    /// Closing waits for the outcome.
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

    /// The attempt has become a hold: nothing is to be rolled back. What was answered so far.
    pub(crate) fn settle(mut self) -> Vec<Vote> {
        self.settled = true;
        std::mem::take(&mut self.votes)
    }
}

/// The rollback of an attempt of which more is heard for a moment. Whoever wants it done at once drops it.
#[derive(Clone)]
pub(crate) struct DelayedRollback(Arc<Mutex<Option<Rollback>>>);

impl DelayedRollback {
    pub(crate) fn new(rollback: Rollback) -> Self {
        Self(Arc::new(Mutex::new(Some(rollback))))
    }

    /// Takes note of an answer; whether it still matters.
    pub(crate) fn note(&self, node: usize, vote: Vote) -> bool {
        let mut rollback = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rollback) = rollback.as_mut() else {
            return false;
        };
        rollback.votes[node] = vote;
        true
    }

    /// Rolls back now, unless that has been done. What is sent after this comes after it on every master.
    pub(crate) fn finish(&self) {
        let mut rollback = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // While it is locked: whoever finds it gone may rely on its having been sent.
        drop(rollback.take());
    }
}

impl fmt::Debug for DelayedRollback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedRollback").finish_non_exhaustive()
    }
}

impl Drop for Rollback {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let votes = &self.votes;
        let touched = |node: usize| votes[node].may_have_granted();
        if (0..votes.len()).any(touched) {
            // Who has left the queues is not to stand there, nor to keep the next one from being called.
            let waiting = self.waiting.take();
            let waiting = waiting.filter(|QueueEntry { calls, .. }| calls.stands() && !calls.is_over());
            Release::roll_back(&self.pool, self.claim.clone(), waiting, touched);
        }
    }
}
