//! Release on every master that an acquire may have reached.
//!
//! A release that has begun is always completed. The task that begins it may be dropped at any moment; the
//! rest goes on in the background with its own deadline. A master that cannot be reached then gets the
//! release after it is connected again.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::events::VoteKind;
use crate::hold::grant::Grant;
use crate::node::waiter_state::WaiterState;
use crate::node::{self, PendingRelease};
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::fault::Fault;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, Released};
use crate::protocol::waiter::FIRST_MASTER;
use crate::queue::QueueEntry;
use crate::queue::entry::Next;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::time::validity::covering;
use crate::values::votes::Vote;

/// A release under way, or what is asked in its place: that the names stay locked, or that readers are let in. When it is
/// dropped, it goes on in the background.
pub(crate) struct Release {
    round: Option<Round>,
    record: ReleaseRecord,
}

/// State that is needed if a release cannot be delivered.
#[derive(Clone)]
struct ReleaseRecord {
    pool: Arc<Pool>,
    claim: Claim,
    /// Whether it is no release. A master that it does not reach locks the names until their lease ends or is renewed:
    /// a release there would admit others too early.
    frees_nothing: bool,
    /// Waiter of the attempt that is rolled back.
    waiting: Option<Arc<WaiterState>>,
    sent: Instant,
}

impl Release {
    /// Sends the release to the masters `to`, and `next` along with it.
    pub(crate) fn begin(pool: &Arc<Pool>, claim: Claim, next: Option<Next>, to: NodeSet) -> Self {
        pool.topics.yielding.released(&claim.names, &pool.random);
        let round = Self::send(pool, &claim, next.as_ref(), to);
        if let Some(next) = next {
            next.sent(pool, &claim.queued_under(), round.sent_to);
        }
        Self::of(pool, round, claim, false, None)
    }

    /// Releases all that an attempt may have taken, and puts its waiter back into the queues, or into those of the first
    /// master alone.
    pub(crate) fn roll_back(pool: &Arc<Pool>, claim: Claim, waiting: Option<QueueEntry>, to: NodeSet) {
        match waiting {
            Some(waiting) if waiting.waiter.at_first_master => {
                let others = to.without(NodeSet::one(FIRST_MASTER));
                Self::roll_back_on(pool, claim.clone(), None, others);
                Self::roll_back_on(pool, claim, Some(waiting), to.without(others));
            }
            waiting => Self::roll_back_on(pool, claim, waiting, to),
        }
    }

    fn roll_back_on(pool: &Arc<Pool>, claim: Claim, waiting: Option<QueueEntry>, to: NodeSet) {
        if to.is_empty() {
            return;
        }
        let here = waiting.map(Next::resting);
        let round = Self::send(pool, &claim, here.as_ref(), to);
        let state = here.map(|here| Arc::clone(&here.entry.state));
        drop(Self::of(pool, round, claim, false, state));
    }

    /// Makes the names stay locked for the time `rest` by the clock here, in place of a release.
    pub(crate) fn keep(pool: &Arc<Pool>, claim: Claim, rest: Duration, to: NodeSet) -> Self {
        let request = calls::retain(&claim, covering(rest, pool.config.drift_factor));
        let round = Round::begin(pool, &request, Trust::All, to);
        Self::of(pool, round, claim, true, None)
    }

    /// Lets other readers in beside a hold that only reads from now on. The hold is downgraded before anything is sent, so a
    /// lost message does no harm. A master that it does not reach keeps readers out until the hold is renewed there.
    pub(crate) fn downgrade(pool: &Arc<Pool>, grant: &Grant) -> Self {
        let (claim, to) = (grant.claim(), grant.touched());
        let request = calls::downgrade(&claim, grant.lease());
        let round = Round::begin(pool, &request, Trust::All, to);
        Self::of(pool, round, claim, true, None).wake_after(grant.needed)
    }

    /// Sends a release, with a waiter that is to join the queues.
    fn send(pool: &Arc<Pool>, claim: &Claim, here: Option<&Next>, to: NodeSet) -> Round {
        let request = calls::release(claim, here.map(|next| (next.entry.waiter, next.asks)));
        let round = Round::release(pool, &request, claim.clone(), to);
        match here {
            None => round,
            Some(next) => next.entry.followed(round, pool, &claim.queued_under()),
        }
    }

    fn of(
        pool: &Arc<Pool>,
        round: Round,
        claim: Claim,
        frees_nothing: bool,
        waiting: Option<Arc<WaiterState>>,
    ) -> Self {
        let sent = round.sent;
        Self {
            round: Some(round),
            record: ReleaseRecord {
                pool: Arc::clone(pool),
                claim,
                frees_nothing,
                waiting,
                sent,
            },
        }
    }

    /// Releases a hold if no task waits for the answers. If all its masters are backed up, only the claim is
    /// stored until the release is sent.
    pub(crate) fn in_background(pool: &Arc<Pool>, claim: Claim, next: Option<Next>, to: NodeSet) {
        if to.iter().all(|node| pool.slots[node].is_backed_up()) {
            for node in to.iter() {
                pool.slots[node].defer(PendingRelease::new(claim.clone()));
            }
            return;
        }
        // The release is dropped at once, so it goes on in the background.
        drop(Self::begin(pool, claim, next, to));
    }

    /// Wakes the caller after this number of masters have released.
    pub(crate) fn wake_after(mut self, masters: usize) -> Self {
        self.round = self.round.take().map(|round| round.wake_after(masters));
        self
    }

    /// Waits until this number of masters have done it, or no answer is left to come.
    pub(crate) async fn confirmed_by(mut self, masters: usize) {
        let mut confirmed = 0;
        while confirmed < masters
            && let Some((_, vote)) = self.next().await
        {
            confirmed += usize::from(vote == Vote::Granted);
        }
    }

    /// Next vote of a master: *granted* if everything was released, or was done in place of it.
    pub(crate) async fn next(&mut self) -> Option<(usize, Vote)> {
        let round = self.round.as_mut()?;
        let (node, answer) = round.next().await?;
        let vote = self.record.note(node, answer);
        round.voted(node, &vote);
        Some((node, vote))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(round) = self.round.take() {
            let record = self.record.clone();
            let note = move |node, answer| VoteKind::of(&record.note(node, answer));
            round.detach(NoScriptFallback::Resend, note);
        }
    }
}

impl ReleaseRecord {
    fn note(&self, node: usize, answer: Result<Value, Fault>) -> Vote {
        let fault = match reply::released(answer) {
            Ok(Released::Whole { .. }) if self.frees_nothing => return Vote::Granted,
            Ok(Released::Whole { others_listen }) => {
                let (yielding, random) = (&self.pool.topics.yielding, &self.pool.random);
                yielding.note_listeners(&self.claim.names, node, others_listen, self.sent, random);
                if let Some(waiting) = &self.waiting {
                    // The waiter had been granted there, and would be again.
                    waiting.open(node);
                }
                return Vote::Granted;
            }
            Ok(Released::Partly) => return Vote::NotHeld,
            Err(fault) => fault,
        };
        // An answer that may still come is left to the connection.
        let vote = fault.vote();
        if !self.frees_nothing && !fault.is_late() && node::needs_retry(&Err(fault)) {
            self.pool.slots[node].defer(PendingRelease::new(self.claim.clone()));
        }
        vote
    }
}
