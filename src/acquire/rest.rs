//! Sleep of a waiter between two attempts.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::acquire::line_up::inside;
use crate::acquire::pauses::OUTAGE;
use crate::acquire::refusal::{Asked, Refusal};
use crate::acquire::step::{AFTER_LEASE, NextStep, REASK, Refused, is_quorum_open};
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::events::{EventObserver, WokenBy};
use crate::node::messages::MessageCounts;
use crate::node::waiter_state::WaiterState;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::FIRST_MASTER;
use crate::time::until::until;
use crate::values::policy::Policy;
use crate::values::votes::Vote;

/// Longest wait for more calls while masters name different seats. Their calls come at about the same time.
const DISAGREE: Duration = Duration::from_millis(2);

/// Time for the question of one waiter, where all of a client ask.
const EACH: Duration = Duration::from_micros(100);

impl Waiting<'_> {
    /// Takes in a refusal, and sleeps until another attempt is worthwhile.
    pub(super) async fn rest_after(&mut self, refusal: &Refusal) -> Result<(), LockError> {
        let request = self.request;
        if refusal.reason == LossReason::Unreachable {
            let log_throttle = &request.client.pool.log_throttle;
            log_throttle.still_waiting(&request.names, &refusal.error);
        }
        let only = self.entry.waiter.only;
        self.refused(refusal);
        let is_queued = self.was_queued && (only.is_none() || only == self.entry.waiter.only);
        if !is_queued && self.may_queue() {
            // The attempt had no place in the queues, or in that of another name alone, so no master would call the waiter.
            return Ok(());
        }
        // An owner that was inside and yet refused has too little validity left to enter. Only time helps. An owner that came in
        // since then lets the waiter in at once.
        let outside = !self.was_inside;
        let resting = async {
            tokio::select! {
                biased;
                by = self.rest(refusal) => request.client.pool.events.woken(by),
                () = inside(request), if outside => {}
            }
        };
        request.unless_closed(resting).await
    }

    /// Sleeps until masters have called enough since the last attempt was sent for a quorum to be possible.
    /// Also wakes when another event may have changed their answers. Returns the event.
    async fn rest(&mut self, refusal: &Refusal) -> WokenBy {
        let request = self.request;
        let refused = Refused {
            refusal,
            blocking: request.blocking(),
            could_win: self.could_win,
            // Whether masters are connected decides nothing while those that answer refuse.
            votes_within: match refusal.reason {
                LossReason::Unreachable => request.client.pool.votes_within(request.needed),
                _ => Some(Duration::ZERO),
            },
            may_listen: request.client.pool.config.beside_redisson && !self.foreign_releases.listens(),
            may_keep_shut: self.may_keep_shut(),
            waited: self.since.elapsed(),
        };
        let state = &self.entry.state;
        let (at_most, behind_foreign_field) = match refused.next_step(&mut self.pauses) {
            NextStep::Listen => {
                state.ignores_calls_until(Instant::now() + request.client.pool.config.node_timeout);
                self.foreign_releases
                    .listen(&request.client.pool, &request.names, request.kind)
                    .await;
                return WokenBy::Gap;
            }
            NextStep::Sleep(pause) => {
                self.sleep_through_calls(Instant::now() + pause).await;
                return WokenBy::Timer;
            }
            NextStep::AwaitMasters { at_most } => {
                let pool = &request.client.pool;
                state.ignores_calls_until(Instant::now() + at_most);
                if timeout(at_most, pool.wait_for_connections(request.needed))
                    .await
                    .is_err()
                {
                    return WokenBy::Timer;
                }
                let turn = self.pauses.within(for_each_waiter(pool.topics.waiters.len()));
                self.sleep_through_calls(Instant::now() + turn).await;
                return WokenBy::Gap;
            }
            NextStep::AwaitCalls {
                at_most,
                behind_foreign_field,
            } => (at_most, behind_foreign_field),
        };
        // A waiter that asked the first master alone is woken by this master alone.
        let (votes, needed) = match refusal.asked {
            Asked::FirstAlone => (&refusal.votes[..=FIRST_MASTER], 1),
            _ => (&refusal.votes[..], request.needed),
        };
        // A master that refused one seat may have named others.
        let would_give = |vote: &Vote| {
            let at_once = Vote::Refused {
                remaining: Some(Duration::ZERO),
            };
            request.permits.is_some() && *vote == at_once
        };
        // A notice from a master that granted may come from this waiter's own rollback.
        let counts = |node: usize| votes.get(node).is_some_and(|vote| !vote.may_have_granted());
        let rolled_back = |node| self.rolled_back.contains(node);
        let latest = Instant::now() + at_most;
        let others_come_within = self.others_come_within;
        tokio::select! {
            biased;
            by = called(state, &self.calls_before, latest, votes, needed, would_give) => by,
            () = majority_called(state, &self.calls_before, votes, needed, others_come_within) => {
                self.others_come_within = (others_come_within * 2).min(REASK);
                WokenBy::Notice
            }
            () = self.foreign_releases.released(rolled_back, counts), if behind_foreign_field => WokenBy::Notice,
            () = appointed(state) => WokenBy::Notice,
            () = sleep_until(latest) => WokenBy::Timer,
        }
    }
}

/// Window in which the waiters of a client ask once masters are connected again: all at once, they would be too much for the
/// node timeout.
fn for_each_waiter(waiters: usize) -> Duration {
    OUTAGE.min(EACH * u32::try_from(waiters).unwrap_or(u32::MAX))
}

/// Resolves once calls since the last attempt make a quorum possible, or when calls may have been missed. The waiter rests until
/// `latest` at most.
async fn called(
    state: &Arc<WaiterState>,
    since: &MessageCounts,
    latest: Instant,
    votes: &[Vote],
    needed: usize,
    would_give: impl Fn(&Vote) -> bool,
) -> WokenBy {
    let is_open = |node: usize| state.messages.came_since(node, since) || would_give(&votes[node]);
    let woken_by = until(&state.messages.news, || {
        state.rests_until(latest);
        if is_quorum_open(votes, needed, is_open) {
            return Some(WokenBy::Notice);
        }
        state.messages.interrupted_since(since).then_some(WokenBy::Gap)
    })
    .await;
    if woken_by == WokenBy::Notice && state.seats_differ(needed) {
        let _ = timeout(DISAGREE, state.seats_agree(needed)).await;
    }
    woken_by
}

/// Resolves a while after a majority has called a waiter that needs more masters than that. A master that does not follow may be
/// silent, and no question has found that yet. The waiter keeps others out of the majority until it asks, and leaves the queues.
async fn majority_called(
    state: &WaiterState,
    since: &MessageCounts,
    votes: &[Vote],
    needed: usize,
    others_come_within: Duration,
) {
    let majority = Policy::smallest_quorum(votes.len());
    if needed <= majority {
        return pending().await;
    }
    let has_called = |node: usize| state.messages.came_since(node, since);
    until(&state.messages.news, || {
        // A call from a master that granted may come from this waiter's own rollback.
        let is_news = (0..votes.len()).any(|node| votes[node] != Vote::Granted && has_called(node));
        (is_news && is_quorum_open(votes, majority, has_called)).then_some(())
    })
    .await;
    sleep(others_come_within).await;
}

/// Resolves at the time that masters have given: the end of a short lease, or of the turn of clients of other
/// libraries.
async fn appointed(state: &WaiterState) {
    loop {
        // Made before the look, so that no message falls between the look and the wait.
        let notified = state.messages.news.notified();
        let Some(at) = state.alarm() else {
            notified.await;
            continue;
        };
        tokio::select! {
            () = sleep_until(at + AFTER_LEASE) => return,
            () = notified => {}
        }
    }
}
