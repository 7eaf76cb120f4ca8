//! What becomes of a hold by itself: who is in, and whether it is held, given up or lost. Transitions
//! without a clock, a lock or anybody to tell.

use std::time::Duration;

use tokio::time::Instant;

use super::ends::Ends;
use super::vote_record::{NodeSet, VoteRecord};
use crate::error::LossCause;
use crate::queue::Turn;
use crate::time::clock::Moment;
use crate::votes::Vote;

/// Timers fire up to a millisecond late. Whoever waits for the end of a hold ends it this much early,
/// so that the word comes no later than the end, and no validity is left when it comes.
pub(super) const TIMER_SLACK: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) ends: Ends,
    pub(super) lease: Duration,
    /// How many guards are in.
    pub(super) count: u64,
    /// How many of these were leaked, and never leave.
    leaked: u64,
    /// How many of its guards want it renewed, and for how long at the most.
    renewing: u64,
    max_hold: Option<Duration>,
    pub(super) votes: VoteRecord,
    /// Where something of it may be kept.
    pub(super) touched: NodeSet,
    /// Its release was begun.
    released: bool,
    /// This process's turn at the names, passed on when the hold ends.
    pub(super) turn: Option<Turn>,
    /// The key under which the watchdog has it in its schedule.
    pub(super) due: Option<(Instant, u64)>,
}

/// Where a hold is in its life. Nothing leads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    /// Its last guard has left.
    Left,
    Lost(LossCause),
}

/// For how long a hold is good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// When that was looked at.
    pub(crate) at: Moment,
    /// Validity that is left.
    pub(crate) left: Duration,
    pub(crate) lease: Duration,
}

/// What entering a hold changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Nobody wanted it renewed before.
    pub(crate) first_to_renew: bool,
}

/// What leaving a hold left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other guards are still in; this many.
    Inside(u64),
    /// The same, and all of them were leaked.
    Leaked(u64),
    /// That was the last one.
    Last,
}

/// What a hold needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// To be extended by this lease.
    Renewal(Duration),
    /// To be looked at again when this much time has passed and it may have lapsed.
    Look(Duration),
    /// Nothing more: it has been given up.
    Nothing,
    /// To be cleaned up: it was lost.
    CleanUp,
}

impl State {
    /// A hold that nobody has entered yet.
    pub(super) fn new(ends: Ends, lease: Duration, max_hold: Option<Duration>, votes: Vec<Vote>) -> Self {
        Self {
            phase: Phase::Held,
            ends,
            lease,
            count: 0,
            leaked: 0,
            renewing: 0,
            max_hold,
            touched: NodeSet::of(&votes, Vote::may_have_granted),
            released: false,
            votes: VoteRecord::new(votes),
            turn: None,
            due: None,
        }
    }

    /// Validity that is left at `now`.
    pub(super) fn remaining(&mut self, now: Moment) -> Duration {
        if self.phase == Phase::Held {
            self.ends.remaining(now)
        } else {
            Duration::ZERO
        }
    }

    /// The same, and the lease, for who wants to enter: nothing is left to enter of a leaked hold.
    pub(super) fn term(&mut self, now: Moment) -> Term {
        let left = if self.is_leaked() {
            Duration::ZERO
        } else {
            self.remaining(now)
        };
        Term {
            at: now,
            left,
            lease: self.lease,
        }
    }

    /// One more guard is in, if more than `min_validity` is left at `now`.
    pub(super) fn enter(&mut self, now: Moment, min_validity: Duration, renew: bool) -> Option<Entered> {
        if self.is_leaked() || self.remaining(now) <= min_validity {
            return None;
        }
        let first_to_renew = renew && self.renewing == 0;
        self.count += 1;
        self.renewing += u64::from(renew);
        Some(Entered { first_to_renew })
    }

    /// One guard leaves; the last one gives the hold up.
    pub(super) fn leave(&mut self, renew: bool) -> Left {
        self.count = self.count.saturating_sub(1);
        self.renewing = self.renewing.saturating_sub(u64::from(renew));
        if self.count > 0 {
            return if self.is_leaked() {
                Left::Leaked(self.count)
            } else {
                Left::Inside(self.count)
            };
        }
        if self.phase == Phase::Held {
            self.phase = Phase::Left;
        }
        Left::Last
    }

    /// One guard stays in for good; whether only such ones are in.
    pub(super) fn leak(&mut self, renew: bool) -> bool {
        self.renewing = self.renewing.saturating_sub(u64::from(renew));
        self.leaked += 1;
        self.is_leaked()
    }

    /// Takes over what an extension gives, unless no validity is left at `now`.
    pub(super) fn prolong(&mut self, ends: Ends, lease: Duration, now: Moment) -> bool {
        if self.remaining(now).is_zero() {
            return false;
        }
        self.ends.prolong(ends, now);
        self.lease = self.lease.max(lease);
        true
    }

    /// A hold of which nothing is left at `now` has lapsed; whether that is new.
    pub(super) fn lapse(&mut self, now: Moment) -> bool {
        self.phase == Phase::Held && self.ends.remaining(now) <= TIMER_SLACK && self.lose(LossCause::Expired)
    }

    /// Ends the validity before its time; whether it had not ended yet.
    pub(super) fn lose(&mut self, cause: LossCause) -> bool {
        let held = self.phase == Phase::Held;
        if held {
            self.phase = Phase::Lost(cause);
        }
        held
    }

    /// Whether the caller is to release it: the first who asks is.
    pub(super) fn is_to_release(&mut self) -> bool {
        !std::mem::replace(&mut self.released, true)
    }

    /// What the watchdog is to do with it at `now`, when it was held for so long.
    pub(super) fn upkeep(&mut self, now: Moment, held: Duration) -> Upkeep {
        match self.phase {
            // Whoever closes the client releases its holds.
            Phase::Left | Phase::Lost(LossCause::Closed) => return Upkeep::Nothing,
            Phase::Lost(_) => return Upkeep::CleanUp,
            Phase::Held => {}
        }
        let spent = self.max_hold.is_some_and(|max| held >= max);
        if self.renewing > 0 && !spent {
            Upkeep::Renewal(self.lease)
        } else {
            Upkeep::Look(self.remaining(now))
        }
    }

    fn is_leaked(&self) -> bool {
        self.leaked > 0 && self.leaked == self.count
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(state.upkeep(at(1), at(1).since(at(0))), Upkeep::Renewal(LEASE));
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
        assert_eq!(
            state.upkeep(at(19), Duration::from_secs(19)),
            Upkeep::Renewal(LEASE)
        );
        assert_eq!(
            state.upkeep(at(20), Duration::from_secs(20)),
            Upkeep::Look(Duration::from_secs(10))
        );
    }
}
