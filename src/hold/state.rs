//! What becomes of a grant by itself: which of its holds it is, who is in, and whether it is held, passed on, given
//! up or lost. Transitions without a clock, a lock or anybody to tell.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::expiry::HoldExpiry;
use super::vote_record::VoteRecord;
use crate::error::LossCause;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::queue::NextInLine;
use crate::time::clock::Moment;
use crate::values::votes::Vote;

/// Timers fire up to a millisecond late. Whoever waits for the end of a hold ends it this much early,
/// so that the word comes no later than the end, and no validity is left when it comes.
pub(super) const TIMER_SLACK: Duration = Duration::from_millis(2);

/// Age at which a grant on a bare quorum is taken on the other masters.
const BARE: Duration = Duration::from_millis(10);

/// A hold that lasts for so many leases may be one that was forgotten.
const LONG: u32 = 10;
/// Where nobody is to be told.
const NEVER: u32 = u32::MAX;
/// After so much longer it is told again.
const AGAIN: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct HoldState {
    pub(super) phase: Phase,
    /// What it is now: one that was to write may come to read.
    pub(super) kind: HoldKind,
    pub(super) ends: HoldExpiry,
    pub(super) lease: Duration,
    /// Whether some master may keep it for longer than that.
    is_longer: bool,
    /// Which of the grant's holds it is, from 0, and since when.
    number: u32,
    since: Moment,
    /// How many guards are in, and how many of these are exclusive.
    count: u64,
    exclusive: u64,
    /// How many of these were leaked, and never leave.
    leaked: u64,
    /// How many of its guards want it renewed, and for how long at the most.
    renewing: u64,
    max_hold: Option<Duration>,
    /// After so many seconds the log has told last how long it lasts; 0 before.
    told_s: u32,
    /// For how long after it began the names are kept from everybody, also where it is given up before.
    kept_for: Duration,
    pub(super) votes: VoteRecord,
    /// Where something of it may be kept.
    pub(super) touched: NodeSet,
    /// Whether the grant stands on a bare quorum, and is to be taken on the other masters once it is old enough.
    is_bare: bool,
    begun: Moment,
    /// Its release was begun.
    released: bool,
    /// Cancelled when the hold is lost; made when it is first asked for.
    cancellation: Option<CancellationToken>,
    /// The key under which the watchdog has it in its schedule.
    pub(super) due: Option<(Instant, u64)>,
}

/// The first hold of a new grant.
#[derive(Debug)]
pub(crate) struct FirstHold {
    pub(crate) ends: HoldExpiry,
    pub(crate) lease: Duration,
    pub(crate) votes: Vec<Vote>,
    pub(crate) max_hold: Option<Duration>,
    /// Whether only as many masters were asked as were needed.
    pub(crate) is_bare: bool,
}

/// Where a grant is in its life. Only a vacant one may be held again, by another hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    /// The last guard of a hold has left, and it is not decided who has it next. It is nobody's, and kept up.
    Vacant,
    /// It is being released.
    Left,
    Lost(LossCause),
}

/// For how long a hold is good.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldView {
    /// When that was looked at.
    pub(crate) at: Moment,
    /// Validity that is left.
    pub(crate) left: Duration,
    pub(crate) lease: Duration,
    pub(crate) kind: HoldKind,
}

/// What entering a hold changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Nobody wanted it renewed before.
    pub(crate) first_to_renew: bool,
}

/// What leaving a hold left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaveOutcome {
    /// Other guards are still in; this many.
    Inside(u64),
    /// The same, and all of them were leaked.
    Leaked(u64),
    /// The same, and all of them only read, from now on; whether all of them were leaked.
    Downgraded { leaked: bool },
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
    /// To be taken on the masters that were not asked.
    Widening { lease: Duration },
    /// Nothing more: it has been given up.
    Nothing,
    /// To be cleaned up: it was lost.
    CleanUp,
}

impl HoldState {
    pub(super) fn new(kind: HoldKind, since: Moment, first: FirstHold) -> Self {
        let FirstHold {
            ends,
            lease,
            votes,
            max_hold,
            is_bare,
        } = first;
        Self {
            phase: Phase::Held,
            kind,
            ends,
            lease,
            is_longer: false,
            number: 0,
            since,
            count: 0,
            exclusive: 0,
            leaked: 0,
            renewing: 0,
            max_hold,
            told_s: 0,
            kept_for: Duration::ZERO,
            touched: NodeSet::of(&votes, Vote::may_have_granted),
            is_bare,
            begun: since,
            released: false,
            votes: VoteRecord::new(votes),
            cancellation: None,
            due: None,
        }
    }

    /// What is left of the grant at `now`, whoever has it.
    pub(super) fn left(&mut self, now: Moment) -> Duration {
        match self.phase {
            Phase::Held | Phase::Vacant => self.ends.remaining(now),
            Phase::Left | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether it is this hold that has it.
    fn is_held_by(&self, number: u32) -> bool {
        self.phase == Phase::Held && self.number == number
    }

    /// What becomes of one of its holds.
    pub(super) fn phase_of(&self, number: u32) -> Phase {
        if self.number == number {
            self.phase
        } else {
            Phase::Left
        }
    }

    /// Validity of a hold that is left at `now`.
    pub(super) fn remaining(&mut self, number: u32, now: Moment) -> Duration {
        if self.is_held_by(number) {
            self.ends.remaining(now)
        } else {
            Duration::ZERO
        }
    }

    /// The same, and the lease, for who wants to enter: nothing is left to enter of a leaked hold.
    pub(super) fn term(&mut self, number: u32, now: Moment) -> HoldView {
        let left = if self.is_leaked() {
            Duration::ZERO
        } else {
            self.remaining(number, now)
        };
        HoldView {
            at: now,
            left,
            lease: self.lease,
            kind: self.kind,
        }
    }

    /// How many guards are in a hold.
    pub(super) fn count(&self, number: u32) -> u64 {
        if self.number == number { self.count } else { 0 }
    }

    /// The same for the masters, whoever is in: a vacant one is about to be entered, or released.
    pub(super) fn entries(&self) -> u64 {
        self.count.max(1)
    }

    /// One more guard is in, if more than `min_validity` is left at `now` and the hold allows what it is for.
    pub(super) fn enter(
        &mut self,
        number: u32,
        now: Moment,
        min_validity: Duration,
        renew: bool,
        kind: HoldKind,
    ) -> Option<Entered> {
        if self.is_leaked() || self.remaining(number, now) <= min_validity || !self.kind.includes(kind) {
            return None;
        }
        let first_to_renew = renew && self.renewing == 0;
        self.count += 1;
        self.exclusive += u64::from(!kind.is_shared());
        self.renewing += u64::from(renew);
        Some(Entered { first_to_renew })
    }

    /// One guard of the hold leaves; the last one leaves it vacant, and the last one that is exclusive to those that
    /// read.
    pub(super) fn leave(&mut self, renew: bool, is_shared: bool) -> LeaveOutcome {
        self.count = self.count.saturating_sub(1);
        self.renewing = self.renewing.saturating_sub(u64::from(renew));
        let is_downgraded = !is_shared && self.give_up_exclusive();
        if self.count > 0 {
            return if is_downgraded {
                LeaveOutcome::Downgraded {
                    leaked: self.is_leaked(),
                }
            } else if self.is_leaked() {
                LeaveOutcome::Leaked(self.count)
            } else {
                LeaveOutcome::Inside(self.count)
            };
        }
        if self.phase == Phase::Held {
            self.phase = Phase::Vacant;
        }
        LeaveOutcome::Last
    }

    /// One guard is exclusive no longer; whether the hold has to tell so.
    pub(super) fn give_up_exclusive(&mut self) -> bool {
        self.exclusive = self.exclusive.saturating_sub(1);
        let is_downgraded = self.exclusive == 0 && self.count > 0 && self.kind == HoldKind::Write;
        if is_downgraded {
            self.kind = HoldKind::Read;
        }
        is_downgraded && self.phase == Phase::Held && !self.released
    }

    /// The next hold begins, with one guard in it, if there is a vacant grant to have; its number.
    pub(super) fn pass(&mut self, now: Moment, next_in_line: &NextInLine) -> Option<u32> {
        if self.phase != Phase::Vacant {
            return None;
        }
        self.phase = Phase::Held;
        self.number += 1;
        self.since = now;
        self.count = 1;
        self.exclusive = 1;
        self.leaked = 0;
        // Not before it is taken: nobody may ever poll who it was passed to.
        self.renewing = 0;
        self.max_hold = next_in_line.max_hold;
        self.told_s = 0;
        self.kept_for = Duration::ZERO;
        // The one before was given up, which is no loss.
        self.cancellation = None;
        Some(self.number)
    }

    /// Its task takes a hold that was passed to it; not once it has been left.
    pub(super) fn take(&mut self, number: u32, renew: bool) -> bool {
        if self.number != number || self.count == 0 {
            return false;
        }
        self.renewing = u64::from(renew);
        true
    }

    /// The hold is to last for so long after `now`, also where it is given up before.
    pub(super) fn keep_at_least(&mut self, number: u32, now: Moment, at_least: Duration) {
        if self.number == number {
            self.kept_for = self.kept_for.max(now.since(self.since).saturating_add(at_least));
        }
    }

    /// Whether nobody has asked for its names to be kept.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.kept_for.is_zero()
    }

    /// For how much longer the names are to be kept from everybody; zero where nothing is left that could be kept.
    pub(super) fn kept(&mut self, now: Moment) -> Duration {
        if self.left(now).is_zero() {
            return Duration::ZERO;
        }
        self.kept_for.saturating_sub(now.since(self.since))
    }

    /// A longer lease than its own has been asked for: some masters may keep it for as long.
    pub(super) fn ask(&mut self, lease: Duration) {
        self.is_longer |= lease > self.lease;
    }

    pub(super) fn is_longer(&self) -> bool {
        self.is_longer
    }

    /// Which hold there was last.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// One guard stays in for good; whether only such ones are in.
    pub(super) fn leak(&mut self, renew: bool) -> bool {
        self.renewing = self.renewing.saturating_sub(u64::from(renew));
        self.leaked += 1;
        self.is_leaked()
    }

    /// The token of the hold, and whether it was made now.
    pub(super) fn cancellation(&mut self, number: u32) -> (CancellationToken, bool) {
        if self.number != number {
            return (CancellationToken::new(), false);
        }
        let made = self.cancellation.is_none();
        (self.cancellation.get_or_insert_default().clone(), made)
    }

    /// Takes over what an extension gives that a hold has asked for, unless nothing is left at `now`. A longer lease is
    /// that hold's alone, not of who has come after it.
    pub(super) fn prolong(&mut self, number: u32, ends: HoldExpiry, lease: Duration, now: Moment) -> bool {
        if self.left(now).is_zero() || number != self.number && lease > self.lease {
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
        let kept = matches!(self.phase, Phase::Held | Phase::Vacant);
        if kept {
            self.phase = Phase::Lost(cause);
        }
        kept
    }

    /// Whether the caller is to release it: the first who asks is. From here on nothing is kept up.
    pub(super) fn is_to_release(&mut self) -> bool {
        if self.phase == Phase::Vacant {
            self.phase = Phase::Left;
        }
        !std::mem::replace(&mut self.released, true)
    }

    /// What the watchdog is to do with it at `now`.
    pub(super) fn upkeep(&mut self, now: Moment) -> Upkeep {
        match self.phase {
            // Whoever closes the client releases its holds.
            Phase::Left | Phase::Lost(LossCause::Closed) => return Upkeep::Nothing,
            Phase::Lost(_) => return Upkeep::CleanUp,
            Phase::Held | Phase::Vacant => {}
        }
        let left = self.left(now);
        if self.is_bare {
            let wait = BARE.saturating_sub(now.since(self.begun));
            return if wait.is_zero() {
                Upkeep::Widening { lease: self.lease }
            } else {
                Upkeep::Look(wait.min(left))
            };
        }
        let spent = self.max_hold.is_some_and(|max| now.since(self.since) >= max);
        if self.renewing > 0 && !spent {
            Upkeep::Renewal {
                lease: self.lease,
                left,
            }
        } else {
            Upkeep::Look(left)
        }
    }

    pub(super) fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// It is being taken on the other masters.
    pub(super) fn widened(&mut self) {
        self.is_bare = false;
    }

    /// However long the hold lasts, nobody is to be told.
    pub(super) fn lasts_by_design(&mut self, number: u32) {
        if self.number == number {
            self.told_s = NEVER;
        }
    }

    /// For how long it has been held, if it is, and is not to last.
    pub(super) fn held_for(&self, now: Moment) -> Option<Duration> {
        let is_told = self.phase == Phase::Held && self.told_s != NEVER;
        is_told.then(|| now.since(self.since))
    }

    /// The same, where the log is to tell: after ten leases, and again each hour.
    pub(super) fn lasts_long(&mut self, now: Moment) -> Option<Duration> {
        let held_for = self.held_for(now)?;
        let due = match self.told_s {
            0 => self.lease * LONG,
            told_s => Duration::from_secs(told_s.into()) + AGAIN,
        };
        if held_for < due {
            return None;
        }
        self.told_s = u32::try_from(held_for.as_secs()).unwrap_or(NEVER).max(1);
        Some(held_for)
    }

    fn is_leaked(&self) -> bool {
        self.leaked > 0 && self.leaked == self.count
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
