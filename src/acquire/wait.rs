//! Waiting for a lock: the turn in this process, then a place in the queues on the masters, until a quorum of them has
//! called.
//!
//! A waiter asks the masters only when something has happened that may have changed their answer.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::{sleep, sleep_until};

use crate::acquire::attempt::Asker;
use crate::acquire::enter::{acquire, acquire_as};
use crate::acquire::line::{Got, LinePlace};
use crate::acquire::patience::Patience;
use crate::acquire::pauses::SPLIT;
use crate::acquire::refusal::Refusal;
use crate::acquire::rest::rest;
use crate::acquire::terms::Terms;
use crate::acquire::waiting::{Asked, InLineAs, Waiting};
use crate::error::LockError;
use crate::events::WokenBy;
use crate::owned_entry::OwnedEntry;
use crate::owner::Standing;
use crate::protocol::tally::Obstacle;
use crate::queue::Given;

/// Waits for this process's turn, and then until the masters grant. What they have told last is left in `last`, for the
/// caller whose patience ends; nothing where the waiter stands behind another task, which knows more.
///
/// Dropped at any point, it leaves the line and the queues, and rolls back.
pub(crate) async fn contend(
    terms: &Terms,
    last: &mut Option<Arc<LockError>>,
) -> Result<OwnedEntry, LockError> {
    let mut waiting = Waiting::begin(terms);
    let mut patience = Patience::of_a_wait_since(waiting.since);
    loop {
        // Its turn was taken back where its task was not polled in time.
        if !waiting.seat.has_turn()
            && let ControlFlow::Break(guard) = line_up(terms, &mut waiting, &mut patience, last).await?
        {
            return Ok(guard);
        }
        be_courteous(terms, &mut waiting).await?;
        let asked = waiting.prepare();
        let clocks = waiting.clocks.take();
        let refusal = match acquire_as(terms, Asker::of(waiting.place()), clocks).await {
            Ok(guard) => {
                match waiting.seat.take() {
                    Some(Given::Turn(turn)) if terms.kind.is_shared() => turn.open(),
                    Some(Given::Turn(turn)) => guard.keep_turn(turn),
                    _ => {}
                }
                return Ok(guard);
            }
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        let why = Arc::new(refusal.error.clone());
        waiting.seat.refused(&why);
        waiting.mind_absence();
        patience.mind(terms, Some(&why));
        *last = Some(why);
        after(terms, &mut waiting, &refusal, &asked).await?;
    }
}

/// Leaves clients of other libraries their turn.
pub(super) async fn be_courteous(terms: &Terms, waiting: &mut Waiting<'_>) -> Result<(), LockError> {
    if let Some(until) = terms.client.pool.topics.courtesy.until(&terms.names) {
        unless_closed(terms, sleep_until(until)).await?;
        // They have gone on meanwhile.
        waiting.clocks = None;
    }
    Ok(())
}

/// What a refusal means for a waiter, and its sleep until another attempt is worthwhile.
pub(super) async fn after(
    terms: &Terms,
    waiting: &mut Waiting<'_>,
    refusal: &Refusal,
    asked: &Asked,
) -> Result<(), LockError> {
    if refusal.obstacle == Obstacle::Unreachable {
        let bounds = &terms.client.pool.bounds;
        bounds.still_waiting(&terms.names, &refusal.error);
    }
    waiting.refused(refusal);
    if !asked.stood && waiting.may_stand() {
        // It tried, so nobody would call it.
        return Ok(());
    }
    // Who is inside and yet refused has too little validity left to enter: only time will help.
    let outside = !is_inside(terms);
    let resting = async {
        tokio::select! {
            biased;
            by = rest(terms, waiting, refusal, asked) => terms.client.pool.events.woken(by),
            () = inside(terms), if outside => {}
        }
    };
    unless_closed(terms, resting).await
}

/// Waits for this process's turn; breaks with a guard where the one ahead has passed its hold on, or another task of
/// the same owner has got one meanwhile, which is then entered instead.
async fn line_up(
    terms: &Terms,
    waiting: &mut Waiting<'_>,
    patience: &mut Patience,
    last: &mut Option<Arc<LockError>>,
) -> Result<ControlFlow<OwnedEntry>, LockError> {
    loop {
        let got = match waiting.join_line() {
            InLineAs::Front => return Ok(ControlFlow::Continue(())),
            InLineAs::Beside => Some(Got::Open),
            InLineAs::Behind(place) => {
                *last = None;
                waiting.mind_absence();
                let got = unless_closed(terms, turn(terms, waiting, place, patience)).await?;
                waiting.place.calls.present();
                if got.is_some() {
                    terms.client.pool.events.woken(WokenBy::HandOn);
                }
                got
            }
        };
        // They have gone on meanwhile.
        waiting.clocks = None;
        match got {
            Some(Got::Turn) => return Ok(ControlFlow::Continue(())),
            Some(Got::Nothing) => continue,
            Some(Got::Entry(entry)) => {
                if let Some(guard) = entry.and_then(|entry| terms.take_over(entry)) {
                    return Ok(ControlFlow::Break(guard));
                }
                // It came too late, and has gone on to the next one.
                continue;
            }
            Some(Got::Open) => {
                be_courteous(terms, waiting).await?;
                let asker = waiting.beside();
                match acquire_as(terms, asker, waiting.clocks.take()).await {
                    Ok(guard) => return Ok(ControlFlow::Break(guard)),
                    Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
                    Err(refusal) => *last = Some(Arc::new(refusal.error)),
                }
                // Whoever stands in front has been told the same, or is about to be.
                terms.client.lines.refused(&terms.wanted());
                continue;
            }
            None => {}
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(terms).await {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.obstacle == Obstacle::Final => return Err(refusal.error),
            Err(refusal) => *last = Some(Arc::new(refusal.error)),
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

/// This process's turn, or the hold of the one ahead; `None` when another task of the same owner has got a hold
/// meanwhile, which is then entered instead.
async fn turn(
    terms: &Terms,
    waiting: &mut Waiting<'_>,
    mut place: LinePlace<'_>,
    patience: &mut Patience,
) -> Option<Got> {
    let ticket = place.standing.ticket();
    let mut turn = pin!(async {
        tokio::select! {
            biased;
            () = inside(terms) => None,
            got = place.wait() => Some(got),
            () = waiting.draw_late(|drawn| ticket.set(drawn)) => None,
        }
    });
    loop {
        tokio::select! {
            biased;
            got = &mut turn => return got,
            () = patience.over() => patience.mind(terms, None),
        }
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
