//! Decision whether a grant may be handed on to the next in line, and for how long.
//!
//! - While no waiter elsewhere is known, the grant is handed on to any task. A waiter that a master refuses recalls it. A
//!   recall may be lost, so this lasts for a second after the question to the masters. The grant of a sticky lock is
//!   handed on for two leases.
//! - Once a waiter elsewhere is known, tasks with smaller tickets come first, as they would on the masters. Other
//!   tasks that waited already have one hold each, which begins within 20 ms.
//! - Clients of other libraries recall nothing. If they are to make progress beside this crate, the grant is handed on for
//!   30 ms.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::queue::{LineOptions, NextInLine};
use crate::time::clock::Moment;
use crate::values::token::Block;

/// Time for which an answer of the masters counts that reported no waiter.
const NEWS: Duration = Duration::from_secs(1);
/// Time after a waiter became known for which the grant is handed on to tasks that waited already.
const SLICE: Duration = Duration::from_millis(20);
/// Time after the grant for which the grant is handed on beside clients of other libraries.
const BESIDE_OTHERS: Duration = Duration::from_millis(30);

/// Waiters of other lines and clients, as far as masters have reported them.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitersElsewhere {
    /// Smallest of their tickets.
    pub(super) first: NonZeroU64,
    /// Time at which the first of them became known.
    pub(super) since: Moment,
}

/// Facts of a vacant grant that is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handoff {
    /// Number that the next hold would have in the grant.
    pub(super) number: u64,
    pub(super) tokens: Block,
    /// Validity left of the grant, and its lease; `None` if masters may keep the names locked for longer.
    pub(super) left: Duration,
    pub(super) lease: Option<Duration>,
    /// Time before the acquire was sent.
    pub(super) begun: Moment,
    /// Time since it was granted.
    pub(super) age_since_grant: Duration,
    /// Waiters elsewhere.
    pub(super) elsewhere: Option<WaitersElsewhere>,
    /// Whether the grant stays with the client until it is recalled.
    pub(super) may_stay: bool,
    /// Whether clients of other libraries are to make progress beside this crate.
    pub(super) beside_redisson: bool,
    /// Time of the offer.
    pub(super) now: Moment,
}

/// Whether the grant may be handed on to the next in a line with the same options.
pub(super) fn may_hand_off(offer: &Handoff, options: &LineOptions, next: &NextInLine) -> bool {
    let has_token = offer.tokens.is_none() || offer.number < offer.tokens.size();
    options.hands_on && has_token && is_worth_it(offer, options, next) && is_in_turn(offer, options, next)
}

/// Whether the grant has the lease of the waiter, and not much less of it than after an acquire.
fn is_worth_it(offer: &Handoff, options: &LineOptions, next: &NextInLine) -> bool {
    let enough = enough(options.lease, next.renew);
    // A grant that was extended by a longer lease is not handed on.
    let is_its_own = offer.lease == Some(options.lease);
    is_its_own && offer.left > options.min_validity && offer.left >= enough.max(next.at_least)
}

/// Part of a lease with which a hold that was handed on may begin.
pub(crate) fn enough(lease: Duration, renew: bool) -> Duration {
    if renew { lease * 2 / 3 } else { lease * 9 / 10 }
}

/// Whether it is the next task's turn: bounds the time for which others wait, by tickets and by the age of the news.
fn is_in_turn(offer: &Handoff, options: &LineOptions, next: &NextInLine) -> bool {
    // Whether the task began to wait before a moment, by the clock of this process; equal times do not count.
    let waited_at = |moment: Moment| !moment.since(next.begun).is_zero();
    let is_older = |first: NonZeroU64| next.ticket.is_some_and(|ticket| ticket < first.get());
    if offer.beside_redisson && offer.age_since_grant >= BESIDE_OTHERS {
        return false;
    }
    match offer.elsewhere {
        // A waiter that the masters did not know when they were asked may be older, in the order of tickets.
        _ if options.fair && !waited_at(offer.begun) => false,
        None => offer.may_stay || offer.now.since(offer.begun) < NEWS,
        Some(others) if is_older(others.first) => true,
        Some(others) => !options.fair && waited_at(others.since) && offer.now.since(others.since) < SLICE,
    }
}

#[cfg(test)]
#[path = "handoff/tests.rs"]
mod tests;
