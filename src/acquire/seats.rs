//! Attempts at a permit: one seat after the other, while masters say that another one is open.

use std::time::Duration;

use tokio::time::sleep;

use crate::acquire::attempt::attempt;
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::error::LockError;
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::seats::{FreeSeats, SeatSet};
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::Precedence;
use crate::queue::QueueEntry;
use crate::round::clocks::Clocks;
use crate::values::votes::Vote;

/// Most seats that are asked for in a row. Then the caller rests as after any refusal.
const IN_A_ROW: usize = 4;
/// Window of the pause before the third seat and each later one: others ask for the same seats.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks for a seat: the seat that most masters have named to the waiter, else a seat that this client has given up,
/// else any. If masters refuse it and name others, asks for the seat that most of them name.
pub(super) async fn attempt_one(
    request: &AcquireRequest,
    permits: u8,
    precedence: Precedence<&QueueEntry>,
    mut clocks: Option<Clocks>,
) -> Result<HoldGuard, Refusal> {
    let mut seat = first(request, permits, precedence);
    let mut free = FreeSeats::unknown(request.client.pool.slots.len());
    for asked in 1..IN_A_ROW {
        let mut refusal = match attempt(request, Some(seat), precedence, clocks.take()).await {
            Err(refusal) if some_are_open(request, &refusal) => refusal,
            ended => return ended,
        };
        let Some(other) = other_seat(request, &mut free, seat, &refusal) else {
            refusal.has_no_common_seat = true;
            return Err(refusal);
        };
        if let Some(deferred) = &refusal.deferred {
            // Otherwise the rollback could put the waiter back into a queue after it was let in.
            deferred.finish();
        }
        if asked > 1 {
            sleep(request.client.pool.random.within(PAUSE)).await;
            if request.client.pool.is_closed() {
                return Err(LockError::Closed.into());
            }
        }
        seat = other;
    }
    attempt(request, Some(seat), precedence, clocks).await
}

/// Seat to ask for first.
fn first(request: &AcquireRequest, permits: u8, precedence: Precedence<&QueueEntry>) -> u8 {
    let named = precedence.waiter().and_then(|entry| entry.state.take_seat());
    let last = || {
        let name = request.names.iter().next()?;
        request.client.seats.take(name, permits)
    };
    let any = || request.client.pool.random.below(usize::from(permits)) + 1;
    named
        .filter(|seat| *seat <= permits)
        .or_else(last)
        .unwrap_or_else(|| u8::try_from(any()).unwrap_or(1))
}

/// Whether a quorum of the masters may have free seats.
fn some_are_open(request: &AcquireRequest, refusal: &Refusal) -> bool {
    let answers = &refusal.blockers.seats;
    let closed = answers.iter().filter(|(_, open)| open.is_empty()).count();
    refusal.reason == LossReason::Held && closed < request.blocking()
}

/// Seat that most masters would give instead of `seat`; any of several. `None` if no seat is free on a quorum: holders may
/// have different seats on different masters.
fn other_seat(request: &AcquireRequest, free: &mut FreeSeats, seat: u8, refusal: &Refusal) -> Option<u8> {
    for (node, vote) in refusal.votes.iter().enumerate() {
        match vote {
            Vote::Granted => free.granted(node, seat),
            Vote::Refused { .. } | Vote::Pending | Vote::NotAsked => {}
            // This master gives none. If it counted as one that may give any, the caller would ask again at once.
            _ => free.refused(node, SeatSet::default()),
        }
    }
    for (node, open) in &refusal.blockers.seats {
        free.refused(*node, *open);
    }
    let best = free.most_named(request.needed);
    best.get(request.client.pool.random.below(best.len())).copied()
}
