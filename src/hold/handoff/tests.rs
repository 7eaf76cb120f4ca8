use super::*;
use crate::protocol::kind::HoldKind;
use crate::values::names::Names;

const LEASE: Duration = Duration::from_secs(30);

fn at(ms: u64) -> Moment {
    Moment::at(Duration::from_millis(ms))
}

/// Whether a grant that began at 1 s is handed on `later` ms after it was granted, with a change of the
/// request.
fn passes(later: u64, change: impl FnOnce(&mut Handoff, &mut Wanted, &mut NextInLine)) -> bool {
    let mut offer = Handoff {
        number: 1,
        left: LEASE,
        lease: Some(LEASE),
        begun: at(1_000),
        for_so_long: Duration::from_millis(later),
        behind: WaitersBehind::default(),
        stays: false,
    };
    let mut wanted = Wanted {
        names: Names::from("a"),
        needed: 2,
        lease: LEASE,
        min_validity: Duration::ZERO,
        fenced: true,
        fair: false,
        kind: HoldKind::Plain,
    };
    let mut next = NextInLine {
        ticket: Some(500),
        begun: at(999),
        renew: true,
        max_hold: None,
        at_least: Duration::ZERO,
        stays: false,
    };
    change(&mut offer, &mut wanted, &mut next);
    may_hand_off(&offer, &wanted, &next)
}

fn others(offer: &mut Handoff, first: u64) {
    offer.behind = WaitersBehind {
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
    let came_later = |offer: &mut Handoff, _: &mut Wanted, next: &mut NextInLine| {
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
        move |offer: &mut Handoff, wanted: &mut Wanted, next: &mut NextInLine| {
            wanted.fair = true;
            next.begun = at(begun);
            if first > 0 {
                others(offer, first);
            }
        }
    };
    assert!(passes(19, fair(501, 999)) && !passes(20, fair(501, 999)));
    assert!(!passes(1, fair(499, 999)), "another is older");
    let unknown = |offer: &mut Handoff, wanted: &mut Wanted, next: &mut NextInLine| {
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
        move |offer: &mut Handoff, _: &mut Wanted, next: &mut NextInLine| {
            offer.left = Duration::from_secs(seconds);
            next.renew = renew;
        }
    };
    assert!(passes(1, left(20, true)) && !passes(1, left(19, true)));
    assert!(passes(1, left(27, false)) && !passes(1, left(26, false)));
    assert!(!passes(1, |_, wanted, _| wanted.min_validity = LEASE));
    let kept = |seconds| {
        move |offer: &mut Handoff, _: &mut Wanted, next: &mut NextInLine| {
            offer.left = Duration::from_secs(25);
            next.at_least = Duration::from_secs(seconds);
        }
    };
    assert!(
        passes(1, kept(25)) && !passes(1, kept(26)),
        "a crash would free it before its time"
    );
}
