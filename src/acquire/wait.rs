//! Waiting for a lock: the turn in this process, then sleep between attempts until release notices, the end of
//! the holder's lease or a timer make another one worthwhile.
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
use crate::acquire::terms::Terms;
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
/// Dropped at any point, it leaves the queue and its subscriptions, and rolls back.
pub(crate) async fn contend(
    terms: &Terms,
    last: &mut Option<LockError>,
) -> Result<MultiLockGuard, LockError> {
    let mut pace = Pace::new(&terms.client.pool.chance);
    let turn = match queue_up(terms, &mut pace, last).await? {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(guard) => return Ok(guard),
    };
    if turn.must_step_back() {
        unless_closed(terms, step_back(terms, &turn)).await?;
    }
    loop {
        let heard = turn.subscription().map(|subscription| subscription.heard());
        let asked = Instant::now();
        let acquired = acquire(terms).await;
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
            tracing::warn!(names = %terms.names, error = %refusal.error, "still waiting for a lock");
        }
        turn.refused(asked.elapsed());
        pace.race.lost();
        *last = Some(refusal.error.clone());
        unless_closed(terms, rest_outside(terms, &turn, &refusal, heard, &mut pace)).await?;
    }
}

/// Waits for this process's turn; breaks with a guard where another task of the same owner has got a hold
/// meanwhile, which is then entered instead.
async fn queue_up(
    terms: &Terms,
    pace: &mut Pace<'_>,
    last: &mut Option<LockError>,
) -> Result<ControlFlow<MultiLockGuard, Turn>, LockError> {
    loop {
        let waiting = match terms.client.queues.join(&terms.names).try_turn() {
            Ok(turn) => return Ok(ControlFlow::Continue(turn)),
            Err(waiting) => waiting,
        };
        if let Some(turn) = unless_closed(terms, turn(terms, waiting)).await? {
            return Ok(ControlFlow::Continue(turn));
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(terms).await {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => *last = Some(refusal.error),
        }
        unless_closed(terms, sleep(pace.pauses.next(SPLIT))).await?;
    }
}

/// Waits for something that may take long. An attempt needs no such care: it looks for itself whether
/// the pool is closed, and is over by the node deadline.
async fn unless_closed<T>(terms: &Terms, waiting: impl Future<Output = T>) -> Result<T, LockError> {
    tokio::select! {
        biased;
        () = terms.client.pool.closing.cancelled() => Err(LockError::Closed),
        done = waiting => Ok(done),
    }
}

/// This process's turn; `None` when another task of the same owner has got a hold meanwhile, which is
/// then entered instead.
async fn turn(terms: &Terms, waiting: Waiter) -> Option<Turn> {
    tokio::select! {
        biased;
        () = inside(terms) => None,
        turn = waiting.turn() => Some(turn),
    }
}

/// Resolves when the owner is inside, by another of its tasks.
async fn inside(terms: &Terms) {
    let Some(owner) = &terms.owner else {
        return std::future::pending().await;
    };
    loop {
        // First listen, then look: nothing falls in between.
        let mut entered = pin!(owner.entered());
        entered.as_mut().enable();
        if is_inside(terms) {
            return;
        }
        entered.await;
    }
}

fn is_inside(terms: &Terms) -> bool {
    !matches!(terms.standing(), Standing::Outside)
}

/// Sleeps until another attempt is worthwhile, or until another task of the same owner is inside.
async fn rest_outside(
    terms: &Terms,
    turn: &Turn,
    refusal: &Refusal,
    heard: Option<NoticeCounts>,
    pace: &mut Pace<'_>,
) {
    // Who is inside and yet refused has too little validity left to enter: only time will help.
    let outside = !is_inside(terms);
    tokio::select! {
        biased;
        () = rest(terms, turn, refusal, heard, pace) => {}
        () = inside(terms), if outside => {}
    }
}

/// Sleeps until another attempt is worthwhile.
async fn rest(
    terms: &Terms,
    turn: &Turn,
    refusal: &Refusal,
    heard: Option<NoticeCounts>,
    pace: &mut Pace<'_>,
) {
    let timer = match (&refusal.error, refusal.obstacle) {
        (LockError::Contended { retry_after, .. }, Obstacle::Held) => {
            // Contenders that took each other for a holder would else wake at the same moment.
            (*retry_after + AFTER_LEASE).min(FALLBACK) + pace.alarms.next(SPLIT)
        }
        (_, Obstacle::Unreachable) => pace.pauses.next(OUTAGE),
        _ => return sleep(pace.pauses.next(SPLIT)).await,
    };
    let (Some(subscription), Some(heard)) = (turn.subscription(), heard) else {
        // A release between the refusal and the subscription was announced to nobody: ask once more.
        subscribed(terms, turn).await;
        return;
    };
    let asleep = Instant::now();
    tokio::select! {
        biased;
        () = sleep(timer) => {}
        () = async {
            subscription.quorum_possible(&heard, &refusal.votes, terms.needed).await;
            let slept = asleep.elapsed();
            defer(terms, turn, &subscription).await;
            pace.race.start(slept, &terms.client.pool.chance).await;
        } => {}
    }
}

/// Leaves the names to others who come first.
async fn step_back(terms: &Terms, turn: &Turn) {
    match turn.subscription() {
        Some(subscription) => defer(terms, turn, &subscription).await,
        // It has not been in anybody's way so far, and perhaps there is nobody any more.
        None => sleep(turn.patience()).await,
    }
}

/// Leaves the names to those who have waited longer, until nobody takes them or they have had them.
async fn defer(terms: &Terms, turn: &Turn, subscription: &Subscription) {
    let since = turn.waits_since(subscription);
    loop {
        let releases = subscription.releases(&since, terms.needed);
        let ahead = turn.heard(releases);
        if ahead.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = subscription.more_releases(&since, terms.needed, releases) => {}
            () = sleep(ahead) => return turn.waited(),
        }
    }
}

async fn subscribed(terms: &Terms, turn: &Turn) -> Arc<Subscription> {
    if let Some(subscription) = turn.subscription() {
        return subscription;
    }
    let subscription = Arc::new(Subscription::begin(&terms.client.pool, &terms.names).await);
    turn.listen_with(Arc::clone(&subscription));
    subscription
}
