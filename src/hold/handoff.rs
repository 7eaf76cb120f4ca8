//! Whether a grant may pass to the next in line, and for how long it may go on so.
//!
//! A pass tells nobody outside. So it is bounded: while others wait, every task of this process that stood in line when
//! its turn began may have one hold, for a slice of time; where nobody waited when the grant was granted, whoever
//! stands there, for a longer slice, because who has come meanwhile is heard of at a release only.

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
    // One that was extended by a longer lease is not to give it away.
    let is_its_own = offer.lease == Some(wanted.lease);
    is_its_own && offer.left > wanted.min_validity && offer.left >= enough.max(next.at_least)
}

/// Nobody outside has to wait for it longer than is told here.
fn is_in_turn(offer: &Handoff, wanted: &Wanted, next: &NextInLine) -> bool {
    let others_wait = offer.behind.waiting > 0;
    // By the clock of this process: not where it is as late.
    let stood_before = !offer.begun.since(next.begun).is_zero();
    let is_older = |first: NonZeroU64| next.ticket.is_some_and(|ticket| ticket < first.get());
    let is_fair = stood_before && offer.behind.first.is_none_or(is_older);
    let slice = if others_wait { SLICE } else { LONG_SLICE };
    offer.for_so_long < slice && (stood_before || !others_wait) && (is_fair || !wanted.fair)
}

#[cfg(test)]
#[path = "handoff/tests.rs"]
mod tests;
