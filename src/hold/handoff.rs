//! Whether a grant may pass to the next in line, and for how long it may go on so.
//!
//! A pass inside the process is not known to other processes, so it is bounded. If other processes waited at the
//! grant, it passes for 20 ms, and only to tasks that began to wait before it. Otherwise it passes for 30 ms, to any
//! task: a waiter that came later shows at a release only.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::protocol::reply::WaitersBehind;
use crate::queue::{NextInLine, Wanted};
use crate::time::clock::Moment;
use crate::values::token::FencingToken;

/// For so long after it began a grant passes on while others wait.
const SLICE: Duration = Duration::from_millis(20);
/// The same where nobody waited when it was granted.
const LONG_SLICE: Duration = Duration::from_millis(30);

/// What a vacant grant has to give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handoff {
    /// The next hold's number in the grant.
    pub(super) number: u32,
    /// What is left of it, and of what lease; none where masters may keep it for longer.
    pub(super) left: Duration,
    pub(super) lease: Option<Duration>,
    /// Before its acquire was sent.
    pub(super) begun: Moment,
    /// Since it was granted.
    pub(super) for_so_long: Duration,
    /// Who waited for the names when it was granted.
    pub(super) behind: WaitersBehind,
}

/// Whether it may pass to the next in a line of those who want the same.
pub(super) fn may_hand_off(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let has_token = !wanted.fenced || u64::from(offer.number) < FencingToken::BLOCK;
    has_token && is_worth_it(offer, wanted, next) && is_in_turn(offer, wanted, next)
}

/// It would have its own lease, and not much less of it than from an acquire.
fn is_worth_it(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let enough = if next.renew {
        wanted.lease * 2 / 3
    } else {
        wanted.lease * 9 / 10
    };
    // A grant that was extended by a longer lease does not pass on.
    let is_its_own = offer.lease == Some(wanted.lease);
    is_its_own && offer.left > wanted.min_validity && offer.left >= enough.max(next.at_least)
}

/// Bounds how long other processes wait for it: by the slice, and by the tickets of their waiters.
fn is_in_turn(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let others_wait = offer.behind.waiting > 0;
    // It began to wait before the grant, by the clock of this process; equal times do not count.
    let stood_before = !offer.begun.since(next.begun).is_zero();
    let is_older = |first: NonZeroU64| next.ticket.is_some_and(|ticket| ticket < first.get());
    let is_fair = stood_before && offer.behind.first.is_none_or(is_older);
    let slice = if others_wait { SLICE } else { LONG_SLICE };
    offer.for_so_long < slice && (stood_before || !others_wait) && (is_fair || !wanted.fair)
}

#[cfg(test)]
#[path = "handoff/tests.rs"]
mod tests;
