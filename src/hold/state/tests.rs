use std::sync::Arc;

use super::*;
use crate::time::steps::Steps;
use crate::time::validity::Validity;

const LEASE: Duration = Duration::from_secs(30);
const AT_ONCE: Duration = Duration::ZERO;
/// An age that does not matter.
const OLD: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Moment {
    Moment::at(Duration::from_secs(seconds))
}

/// Expiry of a round that began at `start`, without drift.
fn ends(start: u64) -> HoldExpiry {
    let validity = Validity::of_lease(at(start), LEASE + Duration::from_millis(2), 0.0);
    let on = NodeSet::of(&[Vote::Granted], |_| true);
    HoldExpiry::new(validity, on, 1, &Arc::new(Steps::new(1)), 0)
}

fn held() -> HoldState {
    of_kind(HoldKind::Plain, None)
}

fn of_kind(kind: HoldKind, max_hold: Option<Duration>) -> HoldState {
    let first = FirstHold {
        ends: ends(0),
        lease: LEASE,
        votes: vec![Vote::Granted],
        max_hold,
        set_completes_within: None,
        is_sticky: true,
    };
    HoldState::new(kind, at(0), first)
}

fn renewal(seconds_left: u64) -> Upkeep {
    Upkeep::Renewal {
        lease: LEASE,
        left: Duration::from_secs(seconds_left),
    }
}

#[test]
fn a_lapse_is_terminal() {
    let mut state = held();
    assert!(state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain).is_some());
    assert!(!state.lapse(at(29)));
    assert!(state.lapse(at(30)) && !state.lapse(at(31)));
    assert!(!state.prolong(0, ends(31), LEASE, at(31)));
    assert_eq!(state.enter(0, at(31), AT_ONCE, true, HoldKind::Plain), None);
    assert_eq!(state.remaining(0, at(31)), Duration::ZERO);
    assert_eq!(state.upkeep(at(31), OLD), Upkeep::CleanUp);
}

#[test]
fn an_extension_is_too_late_once_nothing_is_left() {
    let mut state = held();
    assert!(state.prolong(0, ends(29), LEASE, at(29)));
    assert!(!state.lapse(at(58)));
    assert!(!state.prolong(0, ends(59), LEASE, at(59)));
}

#[test]
fn the_last_to_exit_gives_it_up() {
    let mut state = held();
    let (inner, outer) = (
        state.enter(0, at(0), AT_ONCE, false, HoldKind::Plain),
        state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain),
    );
    let renews = |entered: Option<Entered>| entered.map(|entered| entered.first_to_renew);
    assert_eq!((renews(inner), renews(outer)), (Some(false), Some(true)));
    assert_eq!(state.upkeep(at(1), OLD), renewal(29));
    assert_eq!(state.exit(true, false), Exited::Inside(1));
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Look(Duration::from_secs(29)));
    assert_eq!(state.exit(false, false), Exited::Last);
    assert_eq!(state.remaining(0, at(1)), Duration::ZERO);
    assert!(state.begin_release());
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Nothing);
    assert!(!state.lose(LossCause::Expired), "what was given up is not lost");
}

#[test]
fn nobody_enters_what_only_leaked_guards_are_in() {
    let mut state = held();
    for _ in 0..2 {
        state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    }
    assert!(!state.leak(true));
    assert_eq!(state.exit(true, false), Exited::Leaked(1));
    assert_eq!(state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain), None);
    assert_eq!(state.view(0, at(0)).left, Duration::ZERO);
    assert_ne!(
        state.remaining(0, at(0)),
        Duration::ZERO,
        "it still shuts others out"
    );
}

#[test]
fn it_is_released_once() {
    let mut state = held();
    assert!(state.lose(LossCause::TakenAway) && !state.lose(LossCause::Closed));
    assert!(state.begin_release() && !state.begin_release());
}

#[test]
fn renewal_ends_with_the_longest_hold() {
    let mut state = of_kind(HoldKind::Plain, Some(Duration::from_secs(20)));
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    assert_eq!(state.upkeep(at(19), OLD), renewal(11));
    assert_eq!(state.upkeep(at(20), OLD), Upkeep::Look(Duration::from_secs(10)));
}

fn next_in_line(renew: bool) -> NextInLine {
    NextInLine {
        ticket: Some(1),
        begun: at(0),
        renew,
        max_hold: Some(Duration::from_secs(20)),
        at_least: Duration::ZERO,
        is_sticky: true,
    }
}

#[test]
fn what_is_kept_counts_from_the_hold() {
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    assert_eq!(state.kept(at(1)), Duration::ZERO);
    state.keep_at_least(0, at(1), Duration::from_secs(10));
    state.keep_at_least(0, at(2), Duration::from_secs(3));
    assert_eq!(state.kept(at(4)), Duration::from_secs(7), "the longer one counts");
    assert_eq!(state.exit(true, false), Exited::Last);
    assert_eq!(state.kept(at(10)), Duration::from_secs(1));
    assert_eq!(state.kept(at(11)), Duration::ZERO);
    assert_eq!(state.hand_on(Phase::Vacant, at(12), &next_in_line(true)), Some(1));
    assert_eq!(state.kept(at(12)), Duration::ZERO, "that was the one before");
    state.keep_at_least(0, at(12), Duration::from_secs(10));
    assert_eq!(state.kept(at(12)), Duration::ZERO, "it was given up");
    state.keep_at_least(1, at(13), Duration::from_secs(10));
    assert_eq!(state.kept(at(20)), Duration::from_secs(3));
    assert!(state.lose(LossCause::Expired));
    assert_eq!(state.kept(at(20)), Duration::ZERO, "what was lost is another's");
}

#[test]
fn what_is_passed_on_is_the_next_holds_alone() {
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, false, HoldKind::Plain);
    assert_eq!(
        state.hand_on(Phase::Vacant, at(1), &next_in_line(true)),
        None,
        "somebody is in"
    );
    assert_eq!(state.exit(false, false), Exited::Last);
    assert_eq!(state.remaining(0, at(1)), Duration::ZERO);
    assert_ne!(state.left(at(1)), Duration::ZERO, "it is kept up meanwhile");
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Look(Duration::from_secs(29)));
    assert_eq!(state.hand_on(Phase::Vacant, at(1), &next_in_line(true)), Some(1));
    let second = |state: &mut HoldState| (state.remaining(1, at(2)), state.count(1), state.phase_of(1));
    assert_eq!(second(&mut state), (Duration::from_secs(28), 1, Phase::Held));
    assert_eq!(
        (state.remaining(0, at(2)), state.count(0), state.phase_of(0)),
        (AT_ONCE, 0, Phase::GivenUp)
    );
    assert_eq!(state.enter(0, at(2), AT_ONCE, true, HoldKind::Plain), None);
    assert!(state.take(1, true));
    assert_eq!(
        state.upkeep(at(20), OLD),
        renewal(10),
        "its longest hold begins with it"
    );
    assert_eq!(state.upkeep(at(21), OLD), Upkeep::Look(Duration::from_secs(9)));
    assert!(!state.prolong(0, ends(2), 2 * LEASE, at(2)), "another's lease");
    assert!(state.prolong(0, ends(2), LEASE, at(2)), "the grant's");
}

#[test]
fn what_is_not_taken_is_not_renewed() {
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    state.exit(true, false);
    state.hand_on(Phase::Vacant, at(1), &next_in_line(true));
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Look(Duration::from_secs(29)));
    assert!(!state.take(0, true) && state.take(1, true));
    assert_eq!(state.upkeep(at(1), OLD), renewal(29));
}

#[test]
fn a_longer_lease_is_remembered_once_it_was_asked_for() {
    let mut state = held();
    state.note_lease_asked(LEASE);
    assert_eq!(state.longest_lease(), LEASE);
    state.note_lease_asked(LEASE * 2);
    state.note_lease_asked(LEASE);
    assert_eq!((state.longest_lease(), state.lease), (LEASE * 2, LEASE));
}

#[test]
fn nothing_is_passed_on_of_what_was_lost_or_is_released() {
    for lost in [true, false] {
        let mut state = held();
        state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
        state.exit(true, false);
        if lost {
            assert!(state.lose(LossCause::Closed));
        } else {
            assert!(state.begin_release());
        }
        assert_eq!(state.hand_on(Phase::Vacant, at(1), &next_in_line(true)), None);
        assert_eq!(state.left(at(1)), AT_ONCE);
    }
}

#[test]
fn a_writer_may_come_to_read_and_never_back() {
    let mut state = of_kind(HoldKind::Write, None);
    let enter = |state: &mut HoldState, kind| state.enter(0, at(0), AT_ONCE, true, kind).is_some();
    assert!(
        enter(&mut state, HoldKind::Write)
            && enter(&mut state, HoldKind::Read)
            && enter(&mut state, HoldKind::Write)
    );
    assert!(!enter(&mut state, HoldKind::Plain));
    assert_eq!(state.exit(true, false), Exited::Inside(2), "another one writes");
    assert_eq!(state.exit(true, false), Exited::Downgraded { leaked: false });
    assert_eq!(state.kind, HoldKind::Read);
    assert!(!enter(&mut state, HoldKind::Write) && enter(&mut state, HoldKind::Read));
    assert_eq!(state.exit(true, true), Exited::Inside(1));
    assert_eq!(state.exit(true, true), Exited::Last);
    let mut alone = of_kind(HoldKind::Write, None);
    enter(&mut alone, HoldKind::Write);
    assert!(alone.give_up_exclusive() && alone.kind == HoldKind::Read);
    assert_eq!(alone.exit(true, true), Exited::Last);
    let mut plain = held();
    enter(&mut plain, HoldKind::Plain);
    assert!(!plain.give_up_exclusive(), "there is nothing to tell");
    assert_eq!(plain.kind, HoldKind::Plain);
}

#[test]
fn a_thrifty_grant_is_widened_until_all_have_it() {
    let on = NodeSet::of(&[Vote::Granted], |_| true);
    let validity = Validity::of_lease(at(0), LEASE, 0.0);
    let first = FirstHold {
        ends: HoldExpiry::new(validity, on, 1, &Arc::new(Steps::new(3)), 0),
        lease: LEASE,
        votes: vec![Vote::Granted, Vote::NotAsked, Vote::NotAsked],
        max_hold: None,
        set_completes_within: None,
        is_sticky: false,
    };
    let mut state = HoldState::new(HoldKind::Plain, at(0), first);
    let look = |ms: u64| Upkeep::Look(Duration::from_millis(ms));
    let (young, old) = (Duration::from_millis(4), Duration::from_millis(10));
    assert_eq!(state.upkeep(at(0), young), look(6));
    assert_eq!(state.upkeep(at(0), old), Upkeep::Widening);
    assert_eq!(state.widen().len(), 2);
    state.votes.set(1, Vote::Granted);
    state.votes.set(2, Vote::Refused { remaining: None });
    // The next try is at twice the age, and after a refusal at five quarters of it.
    assert_eq!(state.upkeep(at(0), old), look(10));
    assert_eq!(state.widen().iter().collect::<Vec<_>>(), [2]);
    assert_eq!(state.upkeep(at(0), old * 2), look(5));
    state.votes.set(2, Vote::Granted);
    assert_eq!(state.widen().len(), 0);
    assert!(matches!(state.upkeep(at(0), old), Upkeep::Look(left) if left > Duration::from_secs(29)));
    // A late answer has the master asked at once, and then not before a quarter of that age has passed.
    let late = Duration::from_secs(3);
    state.votes.set(2, Vote::Refused { remaining: None });
    assert!(state.widen_later(late) && !state.widen_later(late));
    assert_eq!(state.upkeep(at(0), late), Upkeep::Widening);
    assert_eq!(state.widen().len(), 1);
    assert_eq!(state.upkeep(at(0), late), look(750));
    // After a sixth of the lease it is left to the renewals.
    assert_eq!(
        [state.widen(), state.widen(), state.widen()].map(NodeSet::len),
        [1, 1, 0]
    );
    assert!(matches!(state.upkeep(at(0), late), Upkeep::Look(left) if left > Duration::from_secs(29)));
}

fn vacant() -> HoldState {
    let mut state = held();
    assert!(state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain).is_some());
    assert_eq!(state.exit(true, false), Exited::Last);
    state
}

fn idle_hold_options() -> IdleHoldOptions {
    IdleHoldOptions {
        lease: LEASE,
        min_validity: AT_ONCE,
        max_hold: None,
        is_sticky: true,
    }
}

#[test]
fn an_idle_grant_is_taken_by_a_look_at_the_clock() {
    let mut state = vacant();
    assert_eq!(
        state.take_idle(at(1), AT_ONCE, &idle_hold_options()),
        None,
        "it is vacant"
    );
    assert!(state.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert_eq!(state.remaining(0, at(1)), AT_ONCE, "its last hold is over");
    let longer = IdleHoldOptions {
        lease: LEASE * 2,
        ..idle_hold_options()
    };
    let more = IdleHoldOptions {
        min_validity: Duration::from_secs(12),
        ..idle_hold_options()
    };
    assert_eq!(state.take_idle(at(1), AT_ONCE, &longer), None);
    assert_eq!(state.take_idle(at(18), AT_ONCE, &more), None);
    // A third of the lease is left.
    assert_eq!(state.take_idle(at(20), AT_ONCE, &idle_hold_options()), None);
    assert_eq!(state.take_idle(at(19), AT_ONCE, &idle_hold_options()), Some(1));
    assert_eq!(state.remaining(1, at(19)), Duration::from_secs(11));
    assert_eq!(
        state.take_idle(at(19), AT_ONCE, &idle_hold_options()),
        None,
        "it is held"
    );
}

#[test]
fn what_somebody_waits_for_does_not_stay() {
    let ticket = NonZeroU64::new(9).expect("not 0");
    let mut state = vacant();
    assert!(!state.note_waiter(ticket, at(1)));
    assert!(!state.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    let mut state = vacant();
    assert!(state.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert!(state.note_waiter(ticket, at(1)) && state.elsewhere.is_some());
    assert!(!state.begin_release(), "it is idle");
    assert!(state.end_idle() && !state.end_idle());
    assert_eq!(state.take_idle(at(1), AT_ONCE, &idle_hold_options()), None);
    assert_eq!(
        state.hand_on(Phase::Vacant, at(1), &next_in_line(true)),
        None,
        "nobody else gets it"
    );
    assert!(state.begin_release() && !state.begin_release());
}

#[test]
fn what_is_not_as_it_was_granted_does_not_stay() {
    let mut downgraded = of_kind(HoldKind::Write, None);
    assert!(
        downgraded
            .enter(0, at(0), AT_ONCE, true, HoldKind::Write)
            .is_some()
    );
    assert!(
        downgraded
            .enter(0, at(0), AT_ONCE, true, HoldKind::Read)
            .is_some()
    );
    downgraded.exit(true, false);
    downgraded.exit(true, true);
    assert!(!downgraded.become_idle(at(1), AT_ONCE, HoldKind::Write));
    let mut kept = held();
    assert!(kept.enter(0, at(0), AT_ONCE, true, HoldKind::Plain).is_some());
    kept.keep_at_least(0, at(0), Duration::from_secs(5));
    kept.exit(true, false);
    assert!(!kept.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    let mut longer = vacant();
    longer.note_lease_asked(LEASE * 2);
    assert!(!longer.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert!(
        !vacant().become_idle(at(30), AT_ONCE, HoldKind::Plain),
        "nothing is left"
    );
    assert!(
        !vacant().become_idle(at(1), OLD, HoldKind::Plain),
        "recalls may be lost"
    );
    let mut lost = vacant();
    assert!(lost.lose(LossCause::Forgotten) && !lost.become_idle(at(1), AT_ONCE, HoldKind::Plain));
}

#[test]
fn an_idle_grant_is_renewed_once_after_its_last_hold() {
    let mut state = vacant();
    assert!(state.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert_eq!(state.upkeep(at(10), OLD), renewal(20));
    assert!(!state.take_unwanted(AT_ONCE));
    assert!(state.take_unwanted(AT_ONCE));
    assert_eq!(state.take_idle(at(1), AT_ONCE, &idle_hold_options()), Some(1));
    assert!(!state.take_unwanted(AT_ONCE), "it is held");
    state.exit(true, false);
    assert!(
        state.become_idle(at(2), AT_ONCE, HoldKind::Plain)
            && !state.take_unwanted(AT_ONCE)
            && state.take_unwanted(AT_ONCE)
    );
    // Nobody loses a hold when it lapses.
    assert!(state.lapse(at(30)) && state.was_idle);
    let mut old = vacant();
    assert!(old.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert_eq!(old.take_idle(at(1), OLD, &idle_hold_options()), None);
    assert!(old.take_unwanted(OLD), "recalls may be lost");
}

#[test]
fn a_grant_is_passed_on_only_from_the_phase_that_the_caller_knows() {
    let mut state = vacant();
    assert_eq!(state.hand_on(Phase::Idle, at(1), &next_in_line(true)), None);
    assert!(state.become_idle(at(1), AT_ONCE, HoldKind::Plain));
    assert_eq!(state.hand_on(Phase::Vacant, at(1), &next_in_line(true)), None);
    assert_eq!(state.hand_on(Phase::Idle, at(1), &next_in_line(true)), Some(1));
}

#[test]
fn a_leaked_hold_needs_nothing_any_more() {
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    assert!(state.leak(true));
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Nothing);
    // Beside it, a guard that wants no renewal.
    let mut state = held();
    for renew in [true, false] {
        state.enter(0, at(0), AT_ONCE, renew, HoldKind::Plain);
    }
    assert!(!state.leak(true));
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Look(Duration::from_secs(29)));
}

#[test]
fn nothing_of_a_hold_begins_while_it_is_finishing() {
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    assert!(!state.begin_finish(0), "two are in");
    state.exit(true, false);
    assert!(!state.begin_finish(1), "another hold");
    assert!(state.begin_finish(0));
    assert!(state.enter(0, at(1), AT_ONCE, true, HoldKind::Plain).is_none());
    assert!(state.view(0, at(1)).left.is_zero() && !state.may_be_stored(at(1)));
    assert_eq!(state.upkeep(at(1), OLD), Upkeep::Look(Duration::from_secs(29)));
    assert!(!state.lose(LossCause::Forgotten), "the masters release it");
    state.leave_finish_unconfirmed();
    assert!(state.may_be_stored(at(1)) && state.upkeep(at(1), OLD) == renewal(29));
    assert!(
        state.enter(0, at(1), AT_ONCE, true, HoldKind::Plain).is_none(),
        "some may have released it"
    );
    assert!(state.view(0, at(1)).left.is_zero());
    assert!(!state.lose(LossCause::Forgotten) && !state.lose(LossCause::TakenAway));
    assert!(state.begin_finish(0) && state.lose(LossCause::Closed));
    let mut state = held();
    state.enter(0, at(0), AT_ONCE, true, HoldKind::Plain);
    state.keep_at_least(0, at(0), Duration::from_secs(1));
    assert!(!state.begin_finish(0), "its names stay locked");
}
