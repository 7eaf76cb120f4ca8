//! Waiting for a lock: the turn in this process, then a place in the queues on the masters, until a quorum of them has
//! called.
//!
//! A waiter asks the masters only when something has happened that may have changed their answer.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use tokio::time::{sleep, sleep_until};

use crate::acquire::enter::{acquire, acquire_as};
use crate::acquire::line::LinePlace;
use crate::acquire::patience::Patience;
use crate::acquire::pauses::SPLIT;
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::rest::rest;
use crate::acquire::waiting::{Asked, Waiting};
use crate::error::LockError;
use crate::events::{EventObserver, WokenBy};
use crate::hold::entry::HoldEntry;
use crate::hold::grant::Hold;
use crate::lock::owned_entry::OwnedEntry;
use crate::lock::owner::OwnerStanding;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::Precedence;
use crate::queue::{Given, Joined};

/// Waits for this process's turn, and then until the masters grant. What they have told last is left in `last`, for the
/// caller whose patience ends; nothing where the waiter stands behind another task, which knows more.
///
/// Dropped at any point, it leaves the line and the queues, and rolls back.
pub(crate) async fn contend(
    request: &AcquireRequest,
    last: &mut Option<Arc<LockError>>,
) -> Result<OwnedEntry, LockError> {
    let mut waiting = Waiting::begin(request);
    let mut patience = Patience::of_a_wait_since(waiting.since);
    loop {
        // Its turn was taken back where its task was not polled in time.
        if !waiting.seat.has_turn()
            && let ControlFlow::Break(guard) = line_up(request, &mut waiting, &mut patience, last).await?
        {
            return Ok(guard);
        }
        yield_to_foreign(request, &mut waiting).await?;
        let asked = waiting.prepare();
        let clocks = waiting.clocks.take();
        let refusal = match acquire_as(request, Precedence::of(waiting.queued_entry()), clocks).await {
            Ok(guard) => {
                match waiting.seat.take() {
                    Some(Given::Turn(turn)) if request.kind.is_shared() => turn.open(),
                    Some(Given::Turn(turn)) => guard.keep_turn(turn),
                    _ => {}
                }
                return Ok(guard);
            }
            Err(refusal) if refusal.reason == LossReason::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        let why = Arc::new(refusal.error.clone());
        waiting.seat.refused(&why);
        waiting.mind_absence();
        patience.mind(request, Some(&why));
        *last = Some(why);
        after(request, &mut waiting, &refusal, &asked).await?;
    }
}

/// Leaves clients of other libraries their turn.
pub(super) async fn yield_to_foreign(
    request: &AcquireRequest,
    waiting: &mut Waiting<'_>,
) -> Result<(), LockError> {
    if let Some(until) = request.client.pool.topics.yielding.until(&request.names) {
        unless_closed(request, sleep_until(until)).await?;
        // They have gone on meanwhile.
        waiting.clocks = None;
    }
    Ok(())
}

/// What a refusal means for a waiter, and its sleep until another attempt is worthwhile.
pub(super) async fn after(
    request: &AcquireRequest,
    waiting: &mut Waiting<'_>,
    refusal: &Refusal,
    asked: &Asked,
) -> Result<(), LockError> {
    if refusal.reason == LossReason::Unreachable {
        let log_throttle = &request.client.pool.log_throttle;
        log_throttle.still_waiting(&request.names, &refusal.error);
    }
    waiting.refused(refusal);
    if !asked.stood && waiting.may_stand() {
        // It tried, so nobody would call it.
        return Ok(());
    }
    // Who is inside and yet refused has too little validity left to enter: only time will help.
    let outside = !is_inside(request);
    let resting = async {
        tokio::select! {
            biased;
            by = rest(request, waiting, refusal, asked) => request.client.pool.events.woken(by),
            () = inside(request), if outside => {}
        }
    };
    unless_closed(request, resting).await
}

/// Waits for this process's turn; breaks with a guard where the one ahead has passed its hold on, or another task of
/// the same owner has got one meanwhile, which is then entered instead.
async fn line_up(
    request: &AcquireRequest,
    waiting: &mut Waiting<'_>,
    patience: &mut Patience,
    last: &mut Option<Arc<LockError>>,
) -> Result<ControlFlow<OwnedEntry>, LockError> {
    loop {
        let given = match waiting.join_line() {
            Joined::Turn(turn) => {
                waiting.seat.put(Given::Turn(turn));
                return Ok(ControlFlow::Continue(()));
            }
            Joined::Beside => ControlFlow::Continue(Some(Given::Open)),
            Joined::Behind(standing, asks) => {
                *last = None;
                let place = waiting.stand_behind(standing, asks);
                let given = unless_closed(request, turn(request, waiting, place, patience)).await?;
                waiting.entry.calls.present();
                if given.is_continue() {
                    request.client.pool.events.woken(WokenBy::HandOn);
                }
                given
            }
        };
        // They have gone on meanwhile.
        waiting.clocks = None;
        match given {
            ControlFlow::Continue(None) => continue,
            ControlFlow::Continue(Some(turn @ Given::Turn(_))) => {
                waiting.seat.put(turn);
                return Ok(ControlFlow::Continue(()));
            }
            ControlFlow::Continue(Some(Given::Passed(hold))) => {
                let entry = HoldEntry::passed(&request.client, hold, request.renew);
                if let Some(guard) = entry.and_then(|entry| request.take_over(entry)) {
                    return Ok(ControlFlow::Break(guard));
                }
                // It came too late, and has gone on to the next one.
                continue;
            }
            ControlFlow::Continue(Some(Given::Open)) => {
                yield_to_foreign(request, waiting).await?;
                let precedence = waiting.beside();
                match acquire_as(request, precedence, waiting.clocks.take()).await {
                    Ok(guard) => return Ok(ControlFlow::Break(guard)),
                    Err(refusal) if refusal.reason == LossReason::Final => return Err(refusal.error),
                    Err(refusal) => *last = Some(Arc::new(refusal.error)),
                }
                // The one in front has been told the same, or is about to be.
                request.client.lines.refused(&request.wanted());
                continue;
            }
            ControlFlow::Break(()) => {}
        }
        // The same owner is inside by now. Should it leave before this task has entered, begin again.
        match acquire(request).await {
            Ok(guard) => return Ok(ControlFlow::Break(guard)),
            Err(refusal) if refusal.reason == LossReason::Final => return Err(refusal.error),
            Err(refusal) => *last = Some(Arc::new(refusal.error)),
        }
        unless_closed(request, sleep(waiting.pauses.next(SPLIT))).await?;
    }
}

/// Waits for something that may take long. An attempt needs no such care: it looks for itself whether
/// the pool is closed, and is over by the node deadline.
async fn unless_closed<T>(
    request: &AcquireRequest,
    waiting: impl Future<Output = T>,
) -> Result<T, LockError> {
    tokio::select! {
        biased;
        () = request.client.pool.closing.cancelled() => Err(LockError::Closed),
        done = waiting => Ok(done),
    }
}

/// What this waiter is given in line; breaks when another task of the same owner has got a hold meanwhile, which is then
/// entered instead.
async fn turn(
    request: &AcquireRequest,
    waiting: &mut Waiting<'_>,
    mut place: LinePlace<'_>,
    patience: &mut Patience,
) -> ControlFlow<(), Option<Given<Hold>>> {
    let ticket = place.standing.ticket();
    let mut turn = pin!(async {
        tokio::select! {
            biased;
            () = inside(request) => ControlFlow::Break(()),
            given = place.wait() => ControlFlow::Continue(given),
            () = waiting.draw_late(|drawn| ticket.set(drawn)) => ControlFlow::Break(()),
        }
    });
    loop {
        tokio::select! {
            biased;
            given = &mut turn => return given,
            () = patience.over() => patience.mind(request, None),
        }
    }
}

/// Resolves when the owner is inside, by another of its tasks.
async fn inside(request: &AcquireRequest) {
    let Some(owner) = &request.owner else {
        return std::future::pending().await;
    };
    loop {
        // First listen, then look: nothing falls in between.
        let mut entered = pin!(owner.entered());
        entered.as_mut().enable();
        if is_inside(request) {
            return;
        }
        entered.await;
    }
}

fn is_inside(request: &AcquireRequest) -> bool {
    !matches!(request.standing(), OwnerStanding::Outside)
}
