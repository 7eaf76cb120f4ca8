//! Between two rounds: the turn in this process, release notices, the holder's remaining time, jitter.
//!
//! A waiter asks the masters only when something has happened that may have changed their answer.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::acquire::enter::acquire;
use crate::acquire::race::{OUTAGE, Pace, SPLIT};
use crate::acquire::refusal::Refusal;
use crate::acquire::terms::Plan;
use crate::error::LockError;
use crate::guard::MultiLockGuard;
use crate::owner::Standing;
use crate::protocol::tally::Obstacle;
use crate::queue::subscription::{NoticeCounts, Subscription};
use crate::queue::{Turn, Waiter};

/// A notice may be lost, and silence is not noticed: a waiter that has heard nothing for so long asks
/// again.
const FALLBACK: Duration = Duration::from_secs(5);
/// After the end of a lease, until every master has seen it end too.
const AFTER_LEASE: Duration = Duration::from_millis(2);

/// Waits for this process's turn, and then until the masters grant. What stood in the way last is left
/// in `last`, for the caller whose patience ends.
///
/// Dropped at any point, it leaves the line and its subscriptions, and rolls back.
pub(crate) async fn contend(plan: &Plan, last: &mut Option<LockError>) -> Result<MultiLockGuard, LockError> {
    let mut pace = Pace::new(&plan.client.pool.chance);
    let turn = match line_up(plan, &mut pace, last).await? {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(guard) => return Ok(guard),
    };
    if turn.must_step_back() {
        unless_closed(plan, step_back(plan, &turn)).await?;
    }
    loop {
        let heard = turn.listening().map(|listening| listening.heard());
        let asked = Instant::now();
        let acquired = acquire(plan).await;
        let refusal = match acquired {
            Ok(guard) => {
                turn.granted(asked.elapsed());
                guard.keep_turn(turn);
                return Ok(guard);
            }
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        if refusal.obstacle == Obstacle::Unreachable {
            tracing::warn!(names = %plan.names, error = %refusal.error, "still waiting for a lock");
        }
        turn.refused(asked.elapsed());
        pace.race.lost();
        *last = Some(refusal.error.clone());
        unless_closed(plan, rest_outside(plan, &turn, &refusal, heard, &mut pace)).await?;
    }
}

/// Waits for this process's turn; breaks with a guard where another task of the same owner has got a hold
/// meanwhile, which is then entered instead.
async fn line_up(
    plan: &Plan,
    pace: &mut Pace<'_>,
    last: &mut Option<LockError>,
) -> Result<ControlFlow<MultiLockGuard, Turn>, LockError> {
    loop {
        let waiting = match plan.client.queues.join(&plan.names).try_turn() {
            Ok(turn) => return Ok(ControlFlow::Continue(turn)),
            Err(waiting) => waiting,
        };
        if let Some(turn) = unless_closed(plan, turn(plan, waiting)).await? {
            return Ok(ControlFlow::Continue(turn));
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(plan).await {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => *last = Some(refusal.error),
        }
        unless_closed(plan, sleep(pace.pauses.next(SPLIT))).await?;
    }
}

/// Waits for something that may take long. An attempt needs no such care: it looks for itself whether
/// the pool is closed, and is over by the node deadline.
async fn unless_closed<T>(plan: &Plan, waiting: impl Future<Output = T>) -> Result<T, LockError> {
    tokio::select! {
        biased;
        () = plan.client.pool.closing.cancelled() => Err(LockError::Closed),
        done = waiting => Ok(done),
    }
}

/// This process's turn; `None` when another task of the same owner has got a hold meanwhile, which is
/// then entered instead.
async fn turn(plan: &Plan, waiting: Waiter) -> Option<Turn> {
    tokio::select! {
        biased;
        () = inside(plan) => None,
        turn = waiting.turn() => Some(turn),
    }
}

/// Resolves when the owner is inside, by another of its tasks.
async fn inside(plan: &Plan) {
    let Some(owner) = &plan.owner else {
        return std::future::pending().await;
    };
    loop {
        // First listen, then look: nothing falls in between.
        let mut entered = pin!(owner.entered());
        entered.as_mut().enable();
        if is_inside(plan) {
            return;
        }
        entered.await;
    }
}

fn is_inside(plan: &Plan) -> bool {
    !matches!(plan.standing(), Standing::Outside)
}

/// Sleeps until another attempt is worthwhile, or until another task of the same owner is inside.
async fn rest_outside(
    plan: &Plan,
    turn: &Turn,
    refusal: &Refusal,
    heard: Option<NoticeCounts>,
    pace: &mut Pace<'_>,
) {
    // Who is inside and yet refused has too little validity left to enter: only time will help.
    let outside = !is_inside(plan);
    tokio::select! {
        biased;
        () = rest(plan, turn, refusal, heard, pace) => {}
        () = inside(plan), if outside => {}
    }
}

/// Sleeps until another attempt is worthwhile.
async fn rest(plan: &Plan, turn: &Turn, refusal: &Refusal, heard: Option<NoticeCounts>, pace: &mut Pace<'_>) {
    let timer = match (&refusal.error, refusal.obstacle) {
        (LockError::Contended { retry_after, .. }, Obstacle::Held) => {
            // Contenders that took each other for a holder would else wake at the same moment.
            (*retry_after + AFTER_LEASE).min(FALLBACK) + pace.alarms.next(SPLIT)
        }
        (_, Obstacle::Unreachable) => pace.pauses.next(OUTAGE),
        _ => return sleep(pace.pauses.next(SPLIT)).await,
    };
    let (Some(listening), Some(heard)) = (turn.listening(), heard) else {
        // A release between the refusal and the subscription was announced to nobody: ask once more.
        listening(plan, turn).await;
        return;
    };
    let asleep = Instant::now();
    tokio::select! {
        biased;
        () = sleep(timer) => {}
        () = async {
            listening.quorum_possible(&heard, &refusal.votes, plan.needed).await;
            let slept = asleep.elapsed();
            defer(plan, turn, &listening).await;
            pace.race.start(slept, &plan.client.pool.chance).await;
        } => {}
    }
}

/// Leaves the names to others who come first.
async fn step_back(plan: &Plan, turn: &Turn) {
    match turn.listening() {
        Some(listening) => defer(plan, turn, &listening).await,
        // It has not been in anybody's way so far, and perhaps there is nobody any more.
        None => sleep(turn.patience()).await,
    }
}

/// Leaves the names to those who have waited longer, until nobody takes them or they have had them.
async fn defer(plan: &Plan, turn: &Turn, listening: &Subscription) {
    let since = turn.waits_since(listening);
    loop {
        let releases = listening.releases(&since, plan.needed);
        let ahead = turn.heard(releases);
        if ahead.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = listening.more_releases(&since, plan.needed, releases) => {}
            () = sleep(ahead) => return turn.waited(),
        }
    }
}

async fn listening(plan: &Plan, turn: &Turn) -> Arc<Subscription> {
    if let Some(listening) = turn.listening() {
        return listening;
    }
    let listening = Arc::new(Subscription::begin(&plan.client.pool, &plan.names).await);
    turn.listen_with(Arc::clone(&listening));
    listening
}
