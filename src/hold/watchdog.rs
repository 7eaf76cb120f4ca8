//! The watchdog at work: renews the holds of a process, cleans up those that are lost, and lets others go ahead of
//! waiters whose tasks are not polled.
//!
//! One task for all holds. Those that are due together travel in one script call per master; a
//! master that is slow or gone delays nobody: a hold is prolonged when the quorum-th answer is in.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use crate::error::LossCause;
use crate::events::log;
use crate::hold::Upkeep;
use crate::hold::client::Client;
use crate::hold::extend::Extension;
use crate::hold::release::Release;
use crate::hold::tenure::{Hold, Tenure};
use crate::protocol::calls;
use crate::round::pool::Pool;
use crate::time::clock::Moment;

/// More than two clocks that run differ by in that time.
const SUSPENSION: Duration = Duration::from_millis(50);

/// Looks after the holds of a client for as long as there is one.
pub(crate) fn start(client: &Arc<Client>) {
    client.pool.keep(run(Arc::downgrade(client)));
}

async fn run(client: Weak<Client>) {
    let shared = |client: Arc<Client>| {
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
            // Holds under one policy travel together: whose votes count depends on it.
            let mut due = sort_out(&client, due);
            due.sort_by_key(|(hold, _)| hold.tenure.needed);
            for policy in due.chunk_by(|(one, _), (other, _)| one.tenure.needed == other.tenure.needed) {
                for batch in calls::batches(policy, |(hold, _)| hold.tenure.extended_keys()) {
                    renewals.push(renew(Arc::clone(&client), batch.to_vec()));
                }
            }
            next
        };
        // In this order: each branch ends after finitely many turns, and what is due is looked for first
        // in every turn.
        tokio::select! {
            biased;
            Some(outcome) = renewals.next(), if !renewals.is_empty() => {
                for (tenure, confirmed) in outcome {
                    schedule.reschedule(&tenure, confirmed);
                }
            }
            () = steps.more() => schedule.look_again(),
            absent = topics.waiters.absent() => absent.is_absent(),
            () = schedule.earlier() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

/// Whether the clock of leases has gone on between two looks while timers stood still.
fn suspended(before: (Moment, Instant), now: (Moment, Instant)) -> bool {
    now.0.since(before.0).saturating_sub(now.1 - before.1) > SUSPENSION
}

/// Cleans up what is lost, puts back what is not due yet; what remains is to be renewed.
fn sort_out(client: &Arc<Client>, due: Vec<Arc<Tenure>>) -> Vec<(Hold, Duration)> {
    let mut renewals = Vec::new();
    for tenure in due {
        if let Some(held_for) = tenure.lasts_long() {
            log::held_long(&tenure.names, held_for);
        }
        match tenure.upkeep() {
            Upkeep::Renewal { lease, .. } => renewals.push((tenure.hold(), lease)),
            Upkeep::CleanUp => {
                clean_up(&client.pool, &tenure);
                client.schedule.done(&tenure);
            }
            Upkeep::Look(_) | Upkeep::Nothing => {
                client.schedule.reschedule(&tenure, true);
            }
        }
    }
    renewals
}

async fn renew(client: Arc<Client>, holds: Vec<(Hold, Duration)>) -> Vec<(Arc<Tenure>, bool)> {
    let mut extension = Extension::begin(&client, holds);
    while extension.step().await {}
    let told = |(tenure, margin): (Arc<Tenure>, Option<Duration>)| {
        client.pool.events.renewed(margin);
        if margin.is_some() {
            tenure.trace.renewed(|| tenure.left());
        }
        (tenure, margin.is_some())
    };
    extension.outcome().map(told).collect()
}

/// What was lost is released wherever something of it may be left, and passes its turn on.
fn clean_up(pool: &Arc<Pool>, tenure: &Tenure) {
    let is_mine = tenure.is_to_release();
    if is_mine {
        log::hold_lost(&tenure.names, &pool.evidence(&tenure.votes()));
    }
    if let Some(trace) = tenure.trace.take() {
        trace.lost(tenure.loss().unwrap_or(LossCause::Expired));
    }
    if is_mine {
        let touched = tenure.touched();
        Release::leave(pool, tenure.claim(), None, |node| touched.contains(node));
    }
    drop(tenure.take_turn());
}
