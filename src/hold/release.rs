//! Release wherever an acquire may have landed.
//!
//! A release is never given up half-way. Whoever starts one may be dropped at any moment; the rest
//! goes on in the background with its own deadline, and a master that cannot be told then is told
//! after it has been reconnected.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use crate::events::VoteKind;
use crate::node::waiters::Calls;
use crate::node::{self, PendingRelease};
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::fault::Fault;
use crate::protocol::reply::{self, Released};
use crate::queue::QueueEntry;
use crate::queue::entry::Next;
use crate::round::pool::Pool;
use crate::round::{OnNoScript, Round, Trust};
use crate::time::validity::covering;
use crate::values::votes::Vote;

/// A release under way, or what is sent in its place while the names are kept. Dropped, it carries on in the background.
pub(crate) struct Release {
    round: Option<Round>,
    record: ReleaseRecord,
}

/// Who owes what if it cannot be delivered.
#[derive(Clone)]
struct ReleaseRecord {
    pool: Arc<Pool>,
    claim: Claim,
    /// The names stay as they are for a while. A master that cannot be told keeps them until their lease ends: to release
    /// them there would let others in before.
    is_kept: bool,
    /// The waiter whose attempt is rolled back.
    waiting: Option<Arc<Calls>>,
    sent: Instant,
}

impl Release {
    /// Sends the release to the masters that `asked` accepts, and `next` along with it.
    pub(crate) fn begin(
        pool: &Arc<Pool>,
        claim: Claim,
        next: Option<Next>,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        pool.topics.yielding.released(&claim.names, &pool.random);
        let round = Self::send(pool, &claim, next.as_ref(), asked);
        if let Some(next) = next {
            next.sent(pool, &claim.names, round.sent_to());
        }
        Self::of(pool, round, claim, false, None)
    }

    /// Releases what an attempt may have taken, and puts its waiter back into the queues.
    pub(crate) fn roll_back(
        pool: &Arc<Pool>,
        claim: Claim,
        waiting: Option<QueueEntry>,
        asked: impl Fn(usize) -> bool,
    ) {
        let here = waiting.map(Next::resting);
        let round = Self::send(pool, &claim, here.as_ref(), asked);
        let calls = here.map(|here| Arc::clone(&here.entry().calls));
        drop(Self::of(pool, round, claim, false, calls));
    }

    /// Has the names kept for so much longer by the clock here, in place of a release.
    pub(crate) fn keep(
        pool: &Arc<Pool>,
        claim: Claim,
        rest: Duration,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let request = calls::retain(&claim, covering(rest, pool.config.drift_factor));
        let round = Round::begin(pool, &request, Trust::All, asked);
        Self::of(pool, round, claim, true, None)
    }

    /// Sends it, with a waiter that is to stand in the queues.
    fn send(pool: &Arc<Pool>, claim: &Claim, here: Option<&Next>, asked: impl Fn(usize) -> bool) -> Round {
        let request = calls::release(claim, here.map(|next| (next.entry().waiter, next.asks())));
        let round = Round::release(pool, &request, claim.clone(), asked);
        match here {
            None => round,
            Some(next) => next.entry().followed(round, pool, &claim.names),
        }
    }

    fn of(pool: &Arc<Pool>, round: Round, claim: Claim, is_kept: bool, waiting: Option<Arc<Calls>>) -> Self {
        let sent = round.sent();
        Self {
            round: Some(round),
            record: ReleaseRecord {
                pool: Arc::clone(pool),
                claim,
                is_kept,
                waiting,
                sent,
            },
        }
    }

    /// Releases where nobody waits for what the masters say. Where all of them have much to do, nothing but
    /// the claim is kept until they are told.
    pub(crate) fn leave(pool: &Arc<Pool>, claim: Claim, next: Option<Next>, asked: impl Fn(usize) -> bool) {
        let asked_slots = || pool.slots.iter().enumerate().filter(|(node, _)| asked(*node));
        if asked_slots().all(|(_, slot)| slot.is_backed_up()) {
            for (_, slot) in asked_slots() {
                slot.defer(PendingRelease::new(claim.clone()));
            }
            return;
        }
        // Dropped at once, so it is carried on in the background.
        drop(Self::begin(pool, claim, next, asked));
    }

    /// So many masters have to release it.
    pub(crate) fn wake_after(mut self, masters: usize) -> Self {
        self.round = self.round.take().map(|round| round.wake_after(masters));
        self
    }

    /// The next master's vote: *granted* where everything was released, or is kept.
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
            round.leave(OnNoScript::Resend, note);
        }
    }
}

impl ReleaseRecord {
    fn note(&self, node: usize, answer: Result<Value, Fault>) -> Vote {
        let fault = match reply::released(answer) {
            Ok(Released::Whole { .. }) if self.is_kept => return Vote::Granted,
            Ok(Released::Whole { others_listen }) => {
                let (yielding, random) = (&self.pool.topics.yielding, &self.pool.random);
                yielding.heard(&self.claim.names, node, others_listen, self.sent, random);
                if let Some(waiting) = &self.waiting {
                    // It had been granted there, and would be again.
                    waiting.open(node);
                }
                return Vote::Granted;
            }
            Ok(Released::Partly) => return Vote::NotHeld,
            Err(fault) => fault,
        };
        // What may yet be answered is the connection's to do.
        let vote = fault.vote();
        if !self.is_kept && !fault.is_late() && !node::is_done(&Err(fault)) {
            self.pool.slots[node].defer(PendingRelease::new(self.claim.clone()));
        }
        vote
    }
}
