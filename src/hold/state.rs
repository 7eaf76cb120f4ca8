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
    /// To be extended by its lease; so much validity is left.
    Renewal { lease: Duration, left: Duration },
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
        let left = self.remaining(now);
        if self.renewing > 0 && !spent {
            Upkeep::Renewal {
                lease: self.lease,
                left,
            }
        } else {
            Upkeep::Look(left)
        }
    }

    fn is_leaked(&self) -> bool {
        self.leaked > 0 && self.leaked == self.count
    }
}

#[cfg(test)]
mod tests;
