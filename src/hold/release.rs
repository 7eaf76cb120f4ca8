//! Release wherever an acquire may have landed.
//!
//! A release is never given up half-way. Whoever starts one may be dropped at any moment; the rest
//! goes on in the background with its own deadline, and a master that cannot be told then is told
//! after it has been reconnected.

use std::sync::Arc;

use redis::Value;

use crate::node::{self, DeferredRelease};
use crate::protocol::calls;
use crate::protocol::claim::Claim;
use crate::protocol::fault::Fault;
use crate::protocol::reply;
use crate::queue::Crowd;
use crate::round::pool::Pool;
use crate::round::{Forgotten, Round};
use crate::votes::Vote;

/// A release under way. Dropped, it carries on in the background.
pub(crate) struct Release {
    round: Option<Round>,
    record: ReleaseRecord,
}

/// Who owes what if it cannot be delivered.
#[derive(Clone)]
struct ReleaseRecord {
    pool: Arc<Pool>,
    claim: Claim,
    notify: bool,
    crowd: Option<Crowd>,
}

impl Release {
    /// Sends the release to the masters that `asked` accepts; `crowd` learns whether anybody
    /// listened.
    pub(crate) fn begin(
        pool: &Arc<Pool>,
        claim: Claim,
        notify: bool,
        crowd: Option<Crowd>,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let request = calls::release(&claim, notify);
        let round = Round::release(pool, &request, claim.clone(), notify, asked);
        Self {
            round: Some(round),
            record: ReleaseRecord {
                pool: Arc::clone(pool),
                claim,
                notify,
                crowd,
            },
        }
    }

    /// The same where nobody waits for what the masters say. Where all of them have much to do, nothing but
    /// the claim is kept until they are told.
    pub(crate) fn leave(
        pool: &Arc<Pool>,
        claim: Claim,
        notify: bool,
        crowd: Option<Crowd>,
        asked: impl Fn(usize) -> bool,
    ) {
        let asked_slots = || pool.slots.iter().enumerate().filter(|(node, _)| asked(*node));
        if asked_slots().all(|(_, slot)| slot.is_backed_up()) {
            for (_, slot) in asked_slots() {
                slot.defer(DeferredRelease::new(claim.clone(), notify));
            }
            return;
        }
        // Dropped at once, so it is carried on in the background.
        drop(Self::begin(pool, claim, notify, crowd, asked));
    }

    /// So many masters have to release it.
    pub(crate) fn wake_after(mut self, masters: usize) -> Self {
        self.round = self.round.take().map(|round| round.wake_after(masters));
        self
    }

    /// The next master's vote: *granted* where everything was released.
    pub(crate) async fn next(&mut self) -> Option<(usize, Vote)> {
        let (node, answer) = self.round.as_mut()?.next().await?;
        Some((node, self.record.note(node, answer)))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(crowd) = self.record.crowd.clone()
            && let Some(time) = crowd.lingers()
        {
            self.record.pool.runtime.spawn(async move {
                tokio::time::sleep(time).await;
                drop(crowd);
            });
        }
        if let Some(round) = self.round.take() {
            let record = self.record.clone();
            let note = move |node, answer| {
                record.note(node, answer);
            };
            round.leave(Forgotten::SentAgain, note);
        }
    }
}

impl ReleaseRecord {
    fn note(&self, node: usize, answer: Result<Value, Fault>) -> Vote {
        let fault = match reply::released(answer) {
            Ok(released) => {
                if let Some(crowd) = &self.crowd {
                    crowd.heard_by(released.listeners);
                }
                return if released.all {
                    Vote::Granted
                } else {
                    Vote::NotHeld
                };
            }
            Err(fault) => fault,
        };
        // What may yet be answered is the connection's to do.
        let vote = fault.vote();
        if !fault.is_late() && !node::is_done(&Err(fault)) {
            let release = DeferredRelease::new(self.claim.clone(), self.notify);
            self.pool.slots[node].defer(release);
        }
        vote
    }
}
