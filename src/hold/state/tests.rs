use std::sync::Arc;

use super::*;
use crate::time::steps::Steps;
use crate::time::validity::Validity;

const LEASE: Duration = Duration::from_secs(30);
const AT_ONCE: Duration = Duration::ZERO;

fn at(seconds: u64) -> Moment {
    Moment::at(Duration::from_secs(seconds))
}

/// What a round gives that began then, without drift.
fn ends(start: u64) -> Ends {
    let validity = Validity::of_lease(at(start), LEASE + Duration::from_millis(2), 0.0);
    let on = NodeSet::of(&[Vote::Granted], |_| true);
    Ends::new(validity, on, 1, &Arc::new(Steps::new(1)), 0)
}

fn held() -> State {
    State::new(ends(0), LEASE, None, vec![Vote::Granted])
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
    assert!(state.enter(at(0), AT_ONCE, true).is_some());
    assert!(!state.lapse(at(29)));
    assert!(state.lapse(at(30)) && !state.lapse(at(31)));
    assert!(!state.prolong(ends(31), LEASE, at(31)));
    assert_eq!(state.enter(at(31), AT_ONCE, true), None);
    assert_eq!(state.remaining(at(31)), Duration::ZERO);
    assert_eq!(state.upkeep(at(31), LEASE), Upkeep::CleanUp);
}

#[test]
fn an_extension_is_too_late_once_nothing_is_left() {
    let mut state = held();
    assert!(state.prolong(ends(29), LEASE, at(29)));
    assert!(!state.lapse(at(58)));
    assert!(!state.prolong(ends(59), LEASE, at(59)));
}

#[test]
fn the_last_to_leave_gives_it_up() {
    let mut state = held();
    let (inner, outer) = (
        state.enter(at(0), AT_ONCE, false),
        state.enter(at(0), AT_ONCE, true),
    );
    let renews = |entered: Option<Entered>| entered.map(|entered| entered.first_to_renew);
    assert_eq!((renews(inner), renews(outer)), (Some(false), Some(true)));
    assert_eq!(state.upkeep(at(1), at(1).since(at(0))), renewal(29));
    assert_eq!(state.leave(true), Left::Inside(1));
    assert_eq!(
        state.upkeep(at(1), at(1).since(at(0))),
        Upkeep::Look(Duration::from_secs(29))
    );
    assert_eq!(state.leave(false), Left::Last);
    assert_eq!(state.upkeep(at(1), at(1).since(at(0))), Upkeep::Nothing);
    assert_eq!(state.remaining(at(1)), Duration::ZERO);
    assert!(!state.lose(LossCause::Expired), "what was given up is not lost");
}

#[test]
fn nobody_enters_what_only_leaked_guards_are_in() {
    let mut state = held();
    for _ in 0..2 {
        state.enter(at(0), AT_ONCE, true);
    }
    assert!(!state.leak(true));
    assert_eq!(state.leave(true), Left::Leaked(1));
    assert_eq!(state.enter(at(0), AT_ONCE, true), None);
    assert_eq!(state.term(at(0)).left, Duration::ZERO);
    assert_ne!(
        state.remaining(at(0)),
        Duration::ZERO,
        "it still shuts others out"
    );
}

#[test]
fn it_is_released_once() {
    let mut state = held();
    assert!(state.lose(LossCause::TakenAway) && !state.lose(LossCause::Closed));
    assert!(state.is_to_release() && !state.is_to_release());
}

#[test]
fn renewal_ends_with_the_longest_hold() {
    let mut state = State::new(ends(0), LEASE, Some(Duration::from_secs(20)), vec![Vote::Granted]);
    state.enter(at(0), AT_ONCE, true);
    assert_eq!(state.upkeep(at(19), Duration::from_secs(19)), renewal(11));
    assert_eq!(
        state.upkeep(at(20), Duration::from_secs(20)),
        Upkeep::Look(Duration::from_secs(10))
    );
}
