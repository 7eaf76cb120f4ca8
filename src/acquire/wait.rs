//! Waiting for a lock: the turn in this process, then a place in the queues on the masters, until a quorum of them has
//! called.
//!
//! A waiter asks the masters only when something has happened that may have changed their answer.

use std::ops::ControlFlow;
use std::pin::pin;

use tokio::time::{sleep, sleep_until};

use crate::acquire::enter::{acquire, acquire_as};
use crate::acquire::pauses::SPLIT;
use crate::acquire::rest::rest;
use crate::acquire::terms::Terms;
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::guard::MultiLockGuard;
use crate::owner::Standing;
use crate::protocol::tally::Obstacle;
use crate::queue::subscription::Subscription;
use crate::queue::{self, Turn};

/// Waits for this process's turn, and then until the masters grant. What stood in the way last is left
/// in `last`, for the caller whose patience ends.
///
/// Dropped at any point, it leaves the line and the queues, and rolls back.
pub(crate) async fn contend(
    terms: &Terms,
    last: &mut Option<LockError>,
) -> Result<MultiLockGuard, LockError> {
    let mut waiting = Waiting::begin(terms);
    let turn = match line_up(terms, &mut waiting, last).await? {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(guard) => return Ok(guard),
    };
    loop {
        if let Some(until) = terms.client.pool.topics.courtesy.until(&terms.names) {
            unless_closed(terms, sleep_until(until)).await?;
            // They have gone on meanwhile.
            waiting.clocks = None;
        }
        waiting.prepare();
        let heard = waiting.heard();
        let noticed = waiting.foreign.as_ref().map(Subscription::heard);
        let stood = waiting.place().is_some();
        let clocks = waiting.clocks.take();
        let refusal = match acquire_as(terms, waiting.place(), clocks).await {
            Ok(guard) => {
                guard.keep_turn(turn);
                return Ok(guard);
            }
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        if refusal.obstacle == Obstacle::Unreachable {
            tracing::warn!(names = %terms.names, error = %refusal.error, "still waiting for a lock");
        }
        waiting.refused(&refusal);
        *last = Some(refusal.error.clone());
        if !stood && waiting.may_stand() {
            // It tried, so nobody would call it.
            continue;
        }
        // Who is inside and yet refused has too little validity left to enter: only time will help.
        let outside = !is_inside(terms);
        let resting = async {
            tokio::select! {
                biased;
                () = rest(terms, &mut waiting, &refusal, &heard, noticed) => {}
                () = inside(terms), if outside => {}
            }
        };
        unless_closed(terms, resting).await?;
    }
}

/// Waits for this process's turn; breaks with a guard where another task of the same owner has got a hold
/// meanwhile, which is then entered instead.
async fn line_up(
    terms: &Terms,
    waiting: &mut Waiting<'_>,
    last: &mut Option<LockError>,
) -> Result<ControlFlow<MultiLockGuard, Turn>, LockError> {
    loop {
        let standing = match waiting.join_line() {
            Ok(turn) => return Ok(ControlFlow::Continue(turn)),
            Err(standing) => standing,
        };
        let turn = unless_closed(terms, turn(terms, standing)).await?;
        // They have gone on meanwhile.
        waiting.clocks = None;
        if let Some(turn) = turn {
            return Ok(ControlFlow::Continue(turn));
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(terms).await {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => *last = Some(refusal.error),
        }
        unless_closed(terms, sleep(waiting.pauses.next(SPLIT))).await?;
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
async fn turn(terms: &Terms, standing: queue::Standing) -> Option<Turn> {
    tokio::select! {
        biased;
        () = inside(terms) => None,
        turn = standing.turn() => Some(turn),
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
