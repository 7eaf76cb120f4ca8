//! Decision whether a grant may be handed on to the next in line, and for how long.
//!
//! Other processes do not know of a hand-off inside the process, so it is bounded.
//! - If other processes waited at the grant, it is handed on for 20 ms, only to tasks that began to wait
//!   before it.
//! - Otherwise it is handed on for 30 ms, to any task: a waiter that came later shows at a release only.
//! - The grant of a sticky lock is handed on to any task until a waiter of another process recalls it.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::protocol::reply::WaitersBehind;
use crate::queue::{NextInLine, Wanted};
use crate::time::clock::Moment;
use crate::values::token::FencingToken;

/// Time after its begin for which a grant is handed on while others wait.
const SLICE: Duration = Duration::from_millis(20);
/// The same if no others waited at the grant.
const LONG_SLICE: Duration = Duration::from_millis(30);

/// Facts of a vacant grant that is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handoff {
    /// Number that the next hold would have in the grant.
    pub(super) number: u64,
    /// Validity left of the grant, and its lease; `None` if masters may keep the names locked for longer.
    pub(super) left: Duration,
    pub(super) lease: Option<Duration>,
    /// Time before its acquire was sent.
    pub(super) begun: Moment,
    /// Time since it was granted.
    pub(super) for_so_long: Duration,
    /// Waiters for the names at the grant.
    pub(super) behind: WaitersBehind,
    /// Whether the grant stays with the client until it is recalled, and was not recalled.
    pub(super) stays: bool,
}

/// Whether the grant may be handed on to the next in a line with the same options.
pub(super) fn may_hand_off(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let has_token = !wanted.fenced || offer.number < FencingToken::BLOCK;
    has_token && is_worth_it(offer, wanted, next) && (offer.stays || is_in_turn(offer, wanted, next))
}

/// Whether the grant has the lease of the waiter, and not much less of it than after an acquire.
fn is_worth_it(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let enough = if next.renew {
        wanted.lease * 2 / 3
    } else {
        wanted.lease * 9 / 10
    };
    // A grant that was extended by a longer lease is not handed on.
    let is_its_own = offer.lease == Some(wanted.lease);
    is_its_own && offer.left > wanted.min_validity && offer.left >= enough.max(next.at_least)
}

/// Bounds the time for which other processes wait: by the slice, and by the tickets of their waiters.
fn is_in_turn(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let others_wait = offer.behind.waiting > 0;
    // The task began to wait before the grant, by the clock of this process; equal times do not count.
    let stood_before = !offer.begun.since(next.begun).is_zero();
    let is_older = |first: NonZeroU64| next.ticket.is_some_and(|ticket| ticket < first.get());
    let is_fair = stood_before && offer.behind.first.is_none_or(is_older);
    let slice = if others_wait { SLICE } else { LONG_SLICE };
    offer.for_so_long < slice && (stood_before || !others_wait) && (is_fair || !wanted.fair)
}

#[cfg(test)]
#[path = "handoff/tests.rs"]
mod tests;
