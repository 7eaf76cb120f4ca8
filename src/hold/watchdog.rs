//! The watchdog: renews the holds of a process, and cleans up lost ones. If the task of a waiter is not
//! polled, it lets others overtake that waiter.
//!
//! One task serves all holds. Holds that are due together go in one script call to each master. A slow or
//! missing master delays no hold: a hold is prolonged when the quorum-th answer has come.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use crate::error::LossCause;
use crate::events::{EventObserver, log};
use crate::hold::client::ClientCore;
use crate::hold::extend::Extension;
use crate::hold::grant::{Grant, Hold};
use crate::hold::release::Release;
use crate::hold::retake;
use crate::hold::{HoldState, Upkeep};
use crate::protocol::calls;
use crate::round::pool::Pool;
use crate::time::clock::Moment;
use crate::time::until::sleep_until_if;

/// Difference of two clocks that shows a suspension. Without one, clocks with different rates differ by less
/// between two looks.
const SUSPENSION: Duration = Duration::from_millis(50);

/// Serves the holds of a client for as long as the client exists.
pub(crate) fn start(client: &Arc<ClientCore>) {
    client.pool.spawn(run(Arc::downgrade(client)));
}

async fn run(client: Weak<ClientCore>) {
    let shared = |client: Arc<ClientCore>| {
        let (pool, schedule) = (&client.pool, Arc::clone(&client.schedule));
        (schedule, Arc::clone(&pool.steps), Arc::clone(&pool.topics))
    };
    let Some((schedule, steps, topics)) = client.upgrade().map(shared) else {
        return;
    };
    let mut renewals = FuturesUnordered::new();
    let mut awake = None;
    loop {
        let next = {
            let Some(client) = client.upgrade() else {
                return;
            };
            let now = (client.pool.clock.now(), Instant::now());
            if awake.replace(now).is_some_and(|before| suspended(before, now)) {
                schedule.look_again();
            }
            let (due, next) = schedule.take_due();
            // Holds under one policy travel together, because it decides on the masters with a vote.
            let mut due = sort_out(&client, due);
            due.sort_by_key(|(hold, _)| hold.grant.needed);
            for policy in due.chunk_by(|(one, _), (other, _)| one.grant.needed == other.grant.needed) {
                for batch in calls::batches(policy, |(hold, _)| hold.grant.extended_keys()) {
                    renewals.push(renew(Arc::clone(&client), batch.to_vec()));
                }
            }
            next
        };
        // The order matters. Each branch ends after finitely many turns, and the due grants are taken first
        // in every turn.
        tokio::select! {
            biased;
            Some(outcome) = renewals.next(), if !renewals.is_empty() => {
                for (grant, confirmed) in outcome {
                    schedule.reschedule(&grant, confirmed);
                }
            }
            () = steps.news.notified() => schedule.look_again(),
            absent = topics.waiters.absent() => absent.handle_absence(),
            () = schedule.earlier.notified() => {}
            () = sleep_until_if(next) => {}
        }
    }
}

/// Whether the clock of leases has advanced between two looks while timers stood still.
fn suspended(before: (Moment, Instant), now: (Moment, Instant)) -> bool {
    now.0.since(before.0).saturating_sub(now.1 - before.1) > SUSPENSION
}

/// Cleans up lost grants, puts back grants that are not due yet, and returns grants to be renewed.
fn sort_out(client: &Arc<ClientCore>, due: Vec<Arc<Grant>>) -> Vec<(Hold, Duration)> {
    let mut renewals = Vec::new();
    for grant in due {
        if let Some(held_for) = grant.look(HoldState::lasts_long) {
            log::held_long(&grant.names, held_for);
        }
        match grant.upkeep() {
            // The grant may have been taken in between.
            Upkeep::Renewal { .. } if grant.take_unwanted() && client.idle.release(&grant) => {
                client.schedule.done(&grant);
            }
            Upkeep::Renewal { lease, .. } => renewals.push((grant.hold(), lease)),
            Upkeep::Widening => {
                retake::widen(&client.pool, &grant);
                client.schedule.reschedule(&grant, true);
            }
            Upkeep::CleanUp => {
                client.idle.forget(&grant);
                clean_up(&client.pool, &grant);
                client.schedule.done(&grant);
            }
            Upkeep::Look(_) | Upkeep::Nothing => {
                client.schedule.reschedule(&grant, true);
            }
        }
    }
    renewals
}

async fn renew(client: Arc<ClientCore>, holds: Vec<(Hold, Duration)>) -> Vec<(Arc<Grant>, bool)> {
    let mut extension = Extension::begin(&client, holds);
    while extension.take_next().await {}
    let with_outcome = |(grant, margin): (Arc<Grant>, Option<Duration>)| {
        client.pool.events.renewed(margin);
        if margin.is_some() {
            grant.trace.renewed(|| grant.left());
        }
        (grant, margin.is_some())
    };
    extension.outcome().map(with_outcome).collect()
}

/// Releases a lost grant on every master that may store a part of it, and drops its turn.
pub(crate) fn clean_up(pool: &Arc<Pool>, grant: &Grant) {
    // Closing waits until the release is sent.
    let _under_way = pool.tracker.token();
    let is_mine = grant.begin_release();
    let cause = grant.loss().unwrap_or(LossCause::Expired);
    if is_mine && !grant.state().was_idle {
        log::hold_lost(&grant.names, cause, &pool.evidence(&grant.votes()));
    }
    if let Some(trace) = grant.trace.take() {
        trace.lost(cause);
    }
    if is_mine {
        Release::in_background(pool, grant.claim(), None, grant.touched());
    }
    drop(grant.take_turn());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_known_by_the_clock_that_goes_on() {
        let start = (Moment::at(Duration::ZERO), Instant::now());
        let is_noticed = |clock: u64, timers: u64| {
            let [clock, timers] = [clock, timers].map(Duration::from_millis);
            suspended(start, (Moment::at(clock), start.1 + timers))
        };
        assert!(is_noticed(1060, 1000));
        assert!(!is_noticed(1040, 1000), "their rates differ");
        assert!(!is_noticed(1000, 1060));
    }
}
