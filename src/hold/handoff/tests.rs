use super::*;
use crate::protocol::kind::HoldKind;
use crate::values::names::Names;
use crate::values::token::FencingToken;

const LEASE: Duration = Duration::from_secs(30);

fn at(ms: u64) -> Moment {
    Moment::at(Duration::from_millis(ms))
}

/// Whether a grant that began at 1 s is handed on `later` ms after it was granted, with a change of the
/// request.
fn passes(later: u64, change: impl FnOnce(&mut Handoff, &mut LineOptions, &mut NextInLine)) -> bool {
    let mut offer = Handoff {
        number: 1,
        tokens: FencingToken(100).block(Block::SIZE),
        left: LEASE,
        lease: Some(LEASE),
        begun: at(1_000),
        age_since_grant: Duration::from_millis(later),
        elsewhere: None,
        may_stay: false,
        beside_redisson: false,
        // The grant took 5 ms.
        now: at(1_005 + later),
    };
    let mut options = LineOptions {
        names: Names::from("a"),
        needed: 2,
        lease: LEASE,
        min_validity: Duration::ZERO,
        fenced: true,
        fair: false,
        caption: None,
        hands_on: true,
        kind: HoldKind::Plain,
    };
    let mut next = NextInLine {
        ticket: Some(500),
        begun: at(999),
        renew: true,
        max_hold: None,
        at_least: Duration::ZERO,
        is_sticky: false,
    };
    change(&mut offer, &mut options, &mut next);
    may_hand_off(&offer, &options, &next)
}

/// A waiter elsewhere has been known since the grant, at 1,005 ms.
fn others(offer: &mut Handoff, first: u64) {
    offer.elsewhere = Some(WaitersElsewhere {
        first: NonZeroU64::new(first).expect("not 0"),
        since: at(1_005),
    });
}

#[test]
fn without_waiters_elsewhere_it_goes_on_for_a_second() {
    let late = |_: &mut Handoff, _: &mut LineOptions, next: &mut NextInLine| next.begun = at(1_020);
    assert!(passes(994, late) && !passes(995, late));
    assert!(passes(5_000, |offer, _, _| offer.may_stay = true));
    assert!(passes(29, |offer, _, _| offer.beside_redisson = true));
    assert!(!passes(30, |offer, _, _| offer.beside_redisson = true));
    assert!(passes(1, |offer, _, _| offer.number = 63));
    assert!(
        !passes(1, |offer, _, _| offer.number = 64),
        "it has no token left"
    );
    assert!(passes(1, |offer, _, _| {
        offer.number = 64;
        offer.tokens = Block::NONE;
    }));
    assert!(passes(1, |offer, _, _| {
        offer.number = 64;
        offer.tokens = FencingToken(100).block(65);
    }));
}

#[test]
fn waiters_elsewhere_bound_it() {
    let younger = |begun| {
        move |offer: &mut Handoff, _: &mut LineOptions, next: &mut NextInLine| {
            others(offer, 1);
            (next.begun, offer.may_stay) = (at(begun), true);
        }
    };
    assert!(passes(19, younger(1_004)) && !passes(20, younger(1_004)));
    assert!(!passes(1, younger(1_005)), "it came later");
    let older = |offer: &mut Handoff, _: &mut LineOptions, _: &mut NextInLine| others(offer, 501);
    assert!(passes(5_000, older), "the masters would let it in first, too");
}

#[test]
fn a_fair_pass_goes_by_tickets() {
    let fair = |first, begun| {
        move |offer: &mut Handoff, options: &mut LineOptions, next: &mut NextInLine| {
            options.fair = true;
            next.begun = at(begun);
            if first > 0 {
                others(offer, first);
            }
        }
    };
    assert!(passes(900, fair(501, 999)) && passes(900, fair(0, 999)));
    assert!(!passes(1, fair(499, 999)), "another is older");
    let unknown = |offer: &mut Handoff, options: &mut LineOptions, next: &mut NextInLine| {
        fair(501, 999)(offer, options, next);
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
        move |offer: &mut Handoff, _: &mut LineOptions, next: &mut NextInLine| {
            offer.left = Duration::from_secs(seconds);
            next.renew = renew;
        }
    };
    assert!(passes(1, left(20, true)) && !passes(1, left(19, true)));
    assert!(passes(1, left(27, false)) && !passes(1, left(26, false)));
    assert!(!passes(1, |_, options, _| options.min_validity = LEASE));
    let kept = |seconds| {
        move |offer: &mut Handoff, _: &mut LineOptions, next: &mut NextInLine| {
            offer.left = Duration::from_secs(25);
            next.at_least = Duration::from_secs(seconds);
        }
    };
    assert!(
        passes(1, kept(25)) && !passes(1, kept(26)),
        "a crash would free it before its time"
    );
}
