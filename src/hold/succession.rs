//! Whether a tenure may pass to the next in line, and for how long it may go on so.
//!
//! A pass tells nobody outside. So it is bounded: while others wait, every task of this process that stood in line when
//! its turn began may have one hold, for a slice of time; where nobody waited when the tenure was granted, whoever
//! stands there, for a longer slice, because who has come meanwhile is heard of at a release only.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::protocol::reply::Behind;
use crate::queue::{Successor, Wanted};
use crate::time::clock::Moment;
use crate::token::FencingToken;

/// For so long after it began a tenure passes on while others wait.
const SLICE: Duration = Duration::from_millis(20);
/// The same where nobody waited when it was granted.
const LONG_SLICE: Duration = Duration::from_millis(30);

/// What a vacant tenure has to give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The next hold's number in the tenure.
    pub(super) number: u32,
    /// What is left of it, and of what lease; none where masters may keep it for longer.
    pub(super) left: Duration,
    pub(super) lease: Option<Duration>,
    /// Before its acquire was sent.
    pub(super) begun: Moment,
    /// Since it was granted.
    pub(super) for_so_long: Duration,
    /// Who waited for the names when it was granted.
    pub(super) behind: Behind,
}

/// Whether it may pass to the next in a line of those who want the same.
pub(super) fn may_pass(offer: &Offer, wanted: &Wanted, next: &Successor) -> bool {
    let has_token = !wanted.fenced || u64::from(offer.number) < FencingToken::BLOCK;
    has_token && is_worth_it(offer, wanted, next) && is_in_turn(offer, wanted, next)
}

/// It would have its own lease, and not much less of it than from an acquire.
fn is_worth_it(offer: &Offer, wanted: &Wanted, next: &Successor) -> bool {
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
fn is_in_turn(offer: &Offer, wanted: &Wanted, next: &Successor) -> bool {
    let others_wait = offer.behind.waiting > 0;
    // By the clock of this process: not where it is as late.
    let stood_before = !offer.begun.since(next.begun).is_zero();
    let is_older = |first: NonZeroU64| next.ticket.is_some_and(|ticket| ticket < first.get());
    let is_fair = stood_before && offer.behind.first.is_none_or(is_older);
    let slice = if others_wait { SLICE } else { LONG_SLICE };
    offer.for_so_long < slice && (stood_before || !others_wait) && (is_fair || !wanted.fair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Names;
    use crate::protocol::kind::Kind;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    /// Asks for what a tenure gives that began at 1 s and was granted so many ms ago, after a change of what is asked.
    fn passes(later: u64, change: impl FnOnce(&mut Offer, &mut Wanted, &mut Successor)) -> bool {
        let mut offer = Offer {
            number: 1,
            left: LEASE,
            lease: Some(LEASE),
            begun: at(1_000),
            for_so_long: Duration::from_millis(later),
            behind: Behind::default(),
        };
        let mut wanted = Wanted {
            names: Names::from("a"),
            needed: 2,
            lease: LEASE,
            min_validity: Duration::ZERO,
            fenced: true,
            fair: false,
            kind: Kind::Plain,
        };
        let mut next = Successor {
            ticket: Some(500),
            begun: at(999),
            renew: true,
            max_hold: None,
            at_least: Duration::ZERO,
        };
        change(&mut offer, &mut wanted, &mut next);
        may_pass(&offer, &wanted, &next)
    }

    fn others(offer: &mut Offer, first: u64) {
        offer.behind = Behind {
            waiting: 1,
            first: NonZeroU64::new(first),
        };
    }

    #[test]
    fn a_pass_is_bounded() {
        assert!(passes(29, |_, _, next| next.begun = at(1_020)), "nobody waited");
        assert!(!passes(30, |_, _, _| {}));
        assert!(passes(19, |offer, _, _| others(offer, 1)));
        assert!(!passes(20, |offer, _, _| others(offer, 1)));
        let came_later = |offer: &mut Offer, _: &mut Wanted, next: &mut Successor| {
            others(offer, 1);
            next.begun = offer.begun;
        };
        assert!(!passes(1, came_later));
        assert!(passes(1, |offer, _, _| offer.number = 63));
        assert!(
            !passes(1, |offer, _, _| offer.number = 64),
            "it has no token left"
        );
        assert!(passes(1, |offer, wanted, _| {
            offer.number = 64;
            wanted.fenced = false;
        }));
    }

    #[test]
    fn a_fair_pass_goes_by_tickets() {
        let fair = |first, begun| {
            move |offer: &mut Offer, wanted: &mut Wanted, next: &mut Successor| {
                wanted.fair = true;
                next.begun = at(begun);
                if first > 0 {
                    others(offer, first);
                }
            }
        };
        assert!(passes(19, fair(501, 999)) && !passes(20, fair(501, 999)));
        assert!(!passes(1, fair(499, 999)), "another is older");
        let unknown = |offer: &mut Offer, wanted: &mut Wanted, next: &mut Successor| {
            fair(501, 999)(offer, wanted, next);
            next.ticket = None;
        };
        assert!(!passes(1, unknown), "it has no ticket yet");
        assert!(!passes(1, fair(0, 1_000)), "another may have come before it");
    }

    #[test]
    fn a_hold_has_its_own_lease_and_most_of_it() {
        assert!(!passes(1, |offer, _, _| offer.lease = Some(2 * LEASE)));
        assert!(!passes(1, |offer, _, _| offer.lease = None));
        let left = |seconds, renew| {
            move |offer: &mut Offer, _: &mut Wanted, next: &mut Successor| {
                offer.left = Duration::from_secs(seconds);
                next.renew = renew;
            }
        };
        assert!(passes(1, left(20, true)) && !passes(1, left(19, true)));
        assert!(passes(1, left(27, false)) && !passes(1, left(26, false)));
        assert!(!passes(1, |_, wanted, _| wanted.min_validity = LEASE));
        let kept = |seconds| {
            move |offer: &mut Offer, _: &mut Wanted, next: &mut Successor| {
                offer.left = Duration::from_secs(25);
                next.at_least = Duration::from_secs(seconds);
            }
        };
        assert!(
            passes(1, kept(25)) && !passes(1, kept(26)),
            "a crash would free it before its time"
        );
    }
}
