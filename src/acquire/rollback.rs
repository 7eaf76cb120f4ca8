//! The rollback of an attempt that does not become a hold.

use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::hold::release::Release;
use crate::protocol::claim::Claim;
use crate::round::pool::Pool;
use crate::votes::Vote;

/// An acquisition in progress: made before the first await, and unless it is settled by then,
/// whatever ends it rolls it back.
pub(crate) struct Rollback {
    pool: Arc<Pool>,
    claim: Claim,
    /// Without so many masters there is no quorum: N − Q + 1.
    blocking: usize,
    pub(crate) votes: Vec<Vote>,
    settled: bool,
    /// Closing waits for the outcome.
    _under_way: TaskTrackerToken,
}

impl Rollback {
    pub(crate) fn new(pool: &Arc<Pool>, claim: Claim, blocking: usize) -> Self {
        Self {
            pool: Arc::clone(pool),
            claim,
            blocking,
            votes: vec![Vote::Pending; pool.slots.len()],
            settled: false,
            _under_way: pool.tracker.token(),
        }
    }

    /// The attempt has become a hold: nothing is to be rolled back.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Rollback {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let touched = self.votes.iter().filter(|vote| vote.may_have_granted()).count();
        if touched == 0 {
            return;
        }
        // A waiter that met this attempt on so many masters took it for a holder and must be woken.
        // Always waking would set off a storm of contenders that wake each other.
        let notify = touched >= self.blocking;
        let votes = &self.votes;
        let asked = |node: usize| votes[node].may_have_granted();
        Release::leave(&self.pool, self.claim.clone(), notify, None, asked);
    }
}
