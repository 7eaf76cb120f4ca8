//! The rollback of an attempt that does not become a hold.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::events::VoteKind;
use crate::hold::release::Release;
use crate::protocol::claim::Claim;
use crate::protocol::fault::Fault;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::queue::QueueEntry;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round};
use crate::values::votes::Vote;

/// Shortest time for which late answers are awaited before a rollback. With very many waiters, questions come
/// in bursts, and a master may be a few milliseconds behind.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(4);

/// Time for which the imminent answers of a lost round are awaited.
pub(super) fn patience(round: &Round) -> Duration {
    round.elapsed().max(SHORTEST_PATIENCE)
}

/// The duty to roll an attempt back, from before its first await. Unless it is settled, its drop does so, whatever the
/// reason for the drop.
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

    /// Masters with this vote so far.
    pub(super) fn masters(&self, with: &Vote) -> NodeSet {
        NodeSet::of(&self.votes, |vote| vote == with)
    }

    /// Notes masters that are not asked any more.
    pub(super) fn not_asked(&mut self, masters: NodeSet) {
        for node in masters.iter() {
            self.votes[node] = Vote::NotAsked;
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
    /// Delays the rollback of an attempt that met a holder until the imminent answers are there. A master that refuses needs
    /// no release, so a waiter costs it one command instead of two. Only for a caller that waits now, and that finishes the
    /// rollback before it asks again.
    pub(super) fn begin(pool: &Arc<Pool>, mut round: Round, rollback: Rollback, waiting: QueueEntry) -> Self {
        let patience = patience(&round);
        let begun = Self(Arc::new(Mutex::new(Some(rollback))));
        let delayed = begun.clone();
        // If a master had forgotten the script, the waiter did not get into the queues there, and is not called.
        let unless_queued = move |answer: &Result<Value, Fault>| {
            if Fault::is_no_script(answer) {
                waiting.state.messages.interrupt();
            }
        };
        pool.in_background(async move {
            let receiving = async {
                while let Some((node, answer)) = round.next_as_sent().await {
                    unless_queued(&answer);
                    let vote = Reply::acquired(answer).vote;
                    round.voted(node, &vote);
                    if !delayed.note(node, vote) {
                        break;
                    }
                }
            };
            // Slower masters get the release after their acquire, in order.
            let _ = timeout(patience, receiving).await;
            delayed.finish();
            round.detach(NoScriptFallback::LoadOnly, move |_, answer| {
                unless_queued(&answer);
                VoteKind::of(&Reply::acquired(answer).vote)
            });
        });
        begun
    }

    /// Notes a vote. Returns whether it still matters.
    fn note(&self, node: usize, vote: Vote) -> bool {
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
                waiting.filter(|QueueEntry { state, .. }| state.may_be_queued() && !state.is_over());
            Release::roll_back(&self.pool, self.claim.clone(), waiting, touched);
        }
    }
}
