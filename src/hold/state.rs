//! State of one grant: its current hold, the guards in it, and its phase: held, vacant, idle, given up or lost.
//! Transitions use no clock, mutex or notification.

use std::num::NonZeroU64;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::age_report::AgeReport;
use super::expiry::HoldExpiry;
use super::guard_counts::GuardCounts;
use super::handoff::WaitersElsewhere;
use super::vote_record::VoteRecord;
use crate::error::LossCause;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::queue::NextInLine;
use crate::time::clock::Moment;
use crate::values::votes::Vote;

/// Time before the end of a hold at which it ends for the tasks that wait for its end. Timers fire up to a
/// millisecond late. So these tasks are woken no later than the end, and no validity is left then.
pub(super) const TIMER_TOLERANCE: Duration = Duration::from_millis(2);

/// Age at which a grant is taken on the masters that were not asked for it, or did not grant it for a reason that may have
/// passed. A try that not all of them grant is followed by another one at twice the age, until a sixth of the lease has
/// passed. If one has refused, the other try follows sooner, after a quarter of the age: on a name that many ask for, attempts
/// that lose have a master for a while, one after the other. A renewal takes the grant on all masters anyway.
const WIDEN_AFTER: Duration = Duration::from_millis(10);
const WIDENING_ENDS: u32 = 6;

/// Number of leases after which the grant of a sticky lock no longer stays. Recalls may all be lost, or denied.
const MOST_IDLE_LEASES: u32 = 2;

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct HoldState {
    pub(super) phase: Phase,
    /// Current kind of the hold: a write hold may become a read hold.
    pub(super) kind: HoldKind,
    pub(super) ends: HoldExpiry,
    pub(super) lease: Duration,
    /// Longest lease that some master may have, if it is longer than that of the grant.
    pub(super) longer: Option<Duration>,
    /// Number of the current hold in the grant, from 0, and its begin.
    pub(super) number: u64,
    since: Moment,
    guards: GuardCounts,
    /// Longest time for which the hold is renewed.
    max_hold: Option<Duration>,
    /// The same, while the set of the hold does not have all of its locks.
    set_completes_within: Option<Duration>,
    age_report: AgeReport,
    /// Time after the begin for which the names stay locked for everybody, even if the hold is given up before.
    kept_for: Duration,
    pub(super) votes: VoteRecord,
    /// Masters that may store something of the grant.
    pub(super) touched: NodeSet,
    /// Age at which the grant is taken on masters that do not have it; `None` while no master is known to be worth it.
    widen_after: Option<Duration>,
    /// Waiters of other lines and clients, as far as masters have reported them.
    pub(super) elsewhere: Option<WaitersElsewhere>,
    /// Whether the grant stays with the client when its hold is given up and nobody waits.
    is_sticky: bool,
    /// Whether recalls may have been missed, so that masters may know of waiters that this client does not know.
    pub(super) missed_recalls: bool,
    /// Whether the grant had a hold since its last renewal.
    is_used: bool,
    /// Whether the grant was idle when it was lost, so that nobody lost a hold.
    pub(super) was_idle: bool,
    /// Whether its release has begun.
    released: bool,
    finish: Finish,
    /// Token that is cancelled when the hold is lost; made at the first request.
    cancellation: Option<CancellationToken>,
    /// Key of the grant in the watchdog's schedule.
    pub(super) due: Option<(Instant, u64)>,
}

/// First hold of a new grant.
pub(crate) struct FirstHold {
    pub(crate) ends: HoldExpiry,
    pub(crate) lease: Duration,
    pub(crate) votes: Vec<Vote>,
    pub(crate) max_hold: Option<Duration>,
    /// Longest time for which the hold is renewed before the set that it is for has all of its locks.
    pub(crate) set_completes_within: Option<Duration>,
    /// Whether the grant is to stay with the client when the hold is given up.
    pub(crate) is_sticky: bool,
}

/// Demands of a lock on an idle grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleHoldOptions {
    pub(crate) lease: Duration,
    pub(crate) min_validity: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) is_sticky: bool,
}

/// Phase in the life of a grant. Only a vacant or idle grant can get another hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Held,
    /// The last guard of a hold has exited. The task that removed it decides next: it hands the grant on, lets it become
    /// idle, or releases it.
    Vacant,
    /// Nobody holds the grant, and it stays with the client for the next lock of its names.
    Idle,
    /// The grant is being released.
    GivenUp,
    Lost(LossCause),
}

/// Release of a grant together with another message, while its last guard is still in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    NotBegun,
    UnderWay,
    /// Too few masters have confirmed it, and more may have released the grant. So nothing enters the hold any more.
    Unconfirmed,
}

/// Time that a hold has left, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldView {
    /// Moment of the look.
    pub(crate) at: Moment,
    /// Validity that is left.
    pub(crate) left: Duration,
    pub(crate) lease: Duration,
    pub(crate) kind: HoldKind,
}

/// Change by a new entry into a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Whether this guard is the first that wants a renewal, or one without a bound.
    pub(crate) first_to_renew: bool,
}

/// Change by the exit of a guard from a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exited {
    /// This number of other guards is still in.
    Inside(u64),
    /// This number of other guards is still in, and all of them were leaked.
    Leaked(u64),
    /// Other guards are still in, and all of them only read from now on. `leaked` if all of them were leaked.
    Downgraded { leaked: bool },
    /// No guard is in any more.
    Last,
}

/// Next need of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// Extension by its lease; `left` is its validity.
    Renewal { lease: Duration, left: Duration },
    /// Another look after this time, when it may have lapsed.
    Look(Duration),
    /// To be taken on the masters that were not asked.
    Widening,
    /// None: the hold has been given up, or only leaked guards are in.
    Nothing,
    /// Cleanup, because the hold was lost.
    CleanUp,
}

impl HoldState {
    pub(super) fn new(kind: HoldKind, since: Moment, first: FirstHold) -> Self {
        let is_missing = first.votes.iter().any(Vote::may_soon_grant);
        Self {
            phase: Phase::Held,
            kind,
            ends: first.ends,
            lease: first.lease,
            longer: None,
            number: 0,
            since,
            guards: GuardCounts::default(),
            max_hold: first.max_hold,
            set_completes_within: first.set_completes_within,
            age_report: AgeReport::default(),
            kept_for: Duration::ZERO,
            touched: NodeSet::of(&first.votes, Vote::may_have_granted),
            widen_after: is_missing.then(|| WIDEN_AFTER.min(first.lease / WIDENING_ENDS)),
            elsewhere: None,
            is_sticky: first.is_sticky,
            missed_recalls: false,
            is_used: true,
            was_idle: false,
            released: false,
            finish: Finish::NotBegun,
            votes: VoteRecord::new(first.votes),
            cancellation: None,
            due: None,
        }
    }

    /// Validity of the grant at `now`, whichever hold has it.
    pub(super) fn left(&mut self, now: Moment) -> Duration {
        match self.phase {
            Phase::Held | Phase::Vacant | Phase::Idle => self.ends.remaining(now),
            Phase::GivenUp | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether this hold has the grant.
    fn is_held_by(&self, number: u64) -> bool {
        self.phase == Phase::Held && self.number == number
    }

    /// Phase of one of its holds.
    pub(super) fn phase_of(&self, number: u64) -> Phase {
        if self.number == number {
            self.phase
        } else {
            Phase::GivenUp
        }
    }

    /// Validity of a hold at `now`.
    pub(super) fn remaining(&mut self, number: u64, now: Moment) -> Duration {
        if self.is_held_by(number) {
            self.ends.remaining(now)
        } else {
            Duration::ZERO
        }
    }

    /// Validity, lease and kind of a hold, for a caller that wants to enter. A hold that is leaked has no validity for
    /// that, nor has one whose release has begun.
    pub(crate) fn view(&mut self, number: u64, now: Moment) -> HoldView {
        let left = if self.guards.are_leaked() || self.finish != Finish::NotBegun {
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

    /// Whether the hold has lasted for as long as it may be renewed.
    pub(crate) fn is_past_bound(&self, now: Moment) -> bool {
        self.left_to_renew(now).is_some_and(|left| left.is_zero())
    }

    /// Time for which the hold may still be renewed; `None` without a bound.
    pub(super) fn left_to_renew(&self, now: Moment) -> Option<Duration> {
        let bounds = [self.max_hold, self.set_completes_within];
        let shortest = bounds.into_iter().flatten().min();
        shortest.map(|most| most.saturating_sub(now.since(self.since)))
    }

    /// Number of guards in a hold.
    pub(crate) fn count(&self, number: u64) -> u64 {
        if self.number == number { self.guards.all } else { 0 }
    }

    /// Number of guards for the masters, whichever hold has the grant. A vacant one is about to be entered or
    /// released.
    pub(super) fn entries(&self) -> u64 {
        self.guards.all.max(1)
    }

    /// Notes that the masters are about to release the grant. From here on nothing enters the hold, and no message stores a
    /// part of the grant. Returns `false` if others are in the hold, or if the names are to stay locked.
    pub(crate) fn begin_finish(&mut self, number: u64) -> bool {
        let may_begin = self.number == number && self.guards.all == 1 && self.kept_for.is_zero();
        if may_begin {
            self.finish = Finish::UnderWay;
        }
        may_begin
    }

    /// Notes that too few masters have confirmed the release. The grant is renewed again for its last guard.
    pub(crate) fn leave_finish_unconfirmed(&mut self) {
        self.finish = Finish::Unconfirmed;
    }

    /// Whether a message may still store a part of the grant at `now`.
    pub(super) fn may_be_stored(&mut self, now: Moment) -> bool {
        self.finish != Finish::UnderWay && !self.left(now).is_zero()
    }

    /// Adds a guard, if more than `min_validity` is left at `now` and the hold allows the kind.
    pub(crate) fn enter(
        &mut self,
        number: u64,
        now: Moment,
        min_validity: Duration,
        renew: bool,
        kind: HoldKind,
    ) -> Option<Entered> {
        if self.guards.are_leaked()
            || self.finish != Finish::NotBegun
            || self.remaining(number, now) <= min_validity
            || !self.kind.includes(kind)
        {
            return None;
        }
        // Another task of the owner has the hold from here on, whatever becomes of the set.
        let is_unbound = renew && self.guards.all > 0 && self.lift_set_bound();
        let first_to_renew = self.guards.enter(renew, kind.is_shared()) || is_unbound;
        Some(Entered { first_to_renew })
    }

    /// Removes a guard. The last guard leaves the grant vacant. The last exclusive guard leaves the hold to
    /// its readers.
    pub(super) fn exit(&mut self, renew: bool, is_shared: bool) -> Exited {
        self.guards.exit(renew);
        let is_downgraded = !is_shared && self.give_up_exclusive();
        if self.guards.all > 0 {
            return if is_downgraded {
                Exited::Downgraded {
                    leaked: self.guards.are_leaked(),
                }
            } else if self.guards.are_leaked() {
                Exited::Leaked(self.guards.all)
            } else {
                Exited::Inside(self.guards.all)
            };
        }
        if self.phase == Phase::Held {
            self.phase = Phase::Vacant;
        }
        Exited::Last
    }

    /// Makes one exclusive guard a shared one. Returns whether the downgrade has to be sent. No message that admits readers
    /// is sent before this.
    pub(crate) fn give_up_exclusive(&mut self) -> bool {
        let is_downgraded = self.guards.remove_exclusive() && self.kind == HoldKind::Write;
        if is_downgraded {
            self.kind = HoldKind::Read;
        }
        is_downgraded && self.phase == Phase::Held && !self.released
    }

    /// Begins the next hold, with one guard in it, if the grant is vacant, or idle, as the caller says. Returns its number.
    pub(super) fn hand_on(&mut self, from: Phase, now: Moment, next_in_line: &NextInLine) -> Option<u64> {
        if self.phase != from || self.finish != Finish::NotBegun {
            return None;
        }
        // Renewal begins only when the hold is taken: its task may never be polled.
        self.begin_next(now, next_in_line.max_hold, next_in_line.is_sticky, false);
        Some(self.number)
    }

    fn begin_next(&mut self, now: Moment, max_hold: Option<Duration>, is_sticky: bool, renew: bool) {
        self.phase = Phase::Held;
        self.number += 1;
        self.since = now;
        self.guards = GuardCounts::one(renew);
        self.max_hold = max_hold;
        self.is_sticky = is_sticky;
        self.set_completes_within = None;
        self.is_used = true;
        self.age_report = AgeReport::default();
        self.kept_for = Duration::ZERO;
        // The hold before was given up, and so was not lost.
        self.cancellation = None;
    }

    /// Lets a vacant grant stay with the client, if nobody is known to wait for its names and it is as it was granted.
    /// Returns whether it stays.
    pub(super) fn become_idle(&mut self, now: Moment, age: Duration, granted: HoldKind) -> bool {
        let is_as_granted = self.kind == granted && self.longer.is_none() && self.kept_for.is_zero();
        let stays = self.phase == Phase::Vacant
            && self.may_stay(age)
            && self.elsewhere.is_none()
            && is_as_granted
            && self.ends.remaining(now) > TIMER_TOLERANCE;
        if stays {
            self.phase = Phase::Idle;
        }
        stays
    }

    /// Begins a hold of an idle grant of this age for a task that is running, with the grant renewed. Returns its number.
    /// `None` if the grant is not idle, is too old, or has less validity at `now` than the task wants.
    pub(super) fn take_idle(&mut self, now: Moment, age: Duration, options: &IdleHoldOptions) -> Option<u64> {
        let least = options.min_validity.max(self.lease / 3);
        let is_free = self.phase == Phase::Idle && self.may_stay(age);
        if !is_free || self.lease < options.lease || self.ends.remaining(now) <= least {
            return None;
        }
        self.begin_next(now, options.max_hold, options.is_sticky, true);
        Some(self.number)
    }

    /// Gives an idle grant up, so that the caller can release it. Returns whether it was idle.
    pub(super) fn end_idle(&mut self) -> bool {
        let was_idle = self.phase == Phase::Idle;
        if was_idle {
            // A vacant grant would be given to a task that joins the line.
            self.phase = Phase::GivenUp;
        }
        was_idle
    }

    /// Whether the grant is idle and is not to be renewed at this age: it had no hold since its last renewal, or may not stay
    /// any longer. The next renewal begins now.
    pub(super) fn take_unwanted(&mut self, age: Duration) -> bool {
        self.phase == Phase::Idle && (!std::mem::replace(&mut self.is_used, false) || !self.may_stay(age))
    }

    /// Begin of its last hold, if the grant is idle.
    pub(super) fn idle_since_hold_of(&self) -> Option<Moment> {
        (self.phase == Phase::Idle).then_some(self.since)
    }

    /// Notes a waiter of another line or client at `now`. Returns whether the grant is idle.
    pub(super) fn note_waiter(&mut self, ticket: NonZeroU64, now: Moment) -> bool {
        let known = self.elsewhere.get_or_insert(WaitersElsewhere {
            first: ticket,
            since: now,
        });
        known.first = known.first.min(ticket);
        self.phase == Phase::Idle
    }

    /// Whether a grant of this age stays with the client until it is recalled.
    pub(super) fn may_stay(&self, age: Duration) -> bool {
        self.is_sticky && !self.missed_recalls && age < self.lease * MOST_IDLE_LEASES
    }

    /// Whether the grant has another hold, or stays, since its last hold ended.
    pub(super) fn is_taken_again(&self) -> bool {
        matches!(self.phase, Phase::Held | Phase::Idle)
    }

    /// Takes a hold that was handed on, on behalf of its task, unless the guard has exited.
    pub(crate) fn take(&mut self, number: u64, renew: bool) -> bool {
        if self.number != number || self.guards.all == 0 {
            return false;
        }
        self.guards.set_renewing(renew);
        true
    }

    /// Ends the bound of a hold whose set did not have all of its locks. Returns whether there was one.
    pub(crate) fn lift_set_bound(&mut self) -> bool {
        self.set_completes_within.take().is_some()
    }

    /// Makes the names stay locked for `at_least` from `now`, also if the hold is given up before.
    pub(crate) fn keep_at_least(&mut self, number: u64, now: Moment, at_least: Duration) {
        if self.number == number {
            self.kept_for = self.kept_for.max(now.since(self.since).saturating_add(at_least));
        }
    }

    /// Whether no caller wanted the names to stay locked.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.kept_for.is_zero()
    }

    /// Time for which the names stay locked for everybody; zero if the validity has ended.
    pub(super) fn kept(&mut self, now: Moment) -> Duration {
        if self.left(now).is_zero() {
            return Duration::ZERO;
        }
        self.kept_for.saturating_sub(now.since(self.since))
    }

    /// Notes a request for an extension. If its lease is longer than the hold's own, some masters may have
    /// that lease.
    pub(super) fn note_lease_asked(&mut self, lease: Duration) {
        if lease > self.lease {
            self.longer = self.longer.max(Some(lease));
        }
    }

    /// Longest lease that some master may have.
    pub(super) fn longest_lease(&self) -> Duration {
        self.longer.unwrap_or(self.lease)
    }

    /// Keeps a guard in the hold for good. Returns whether only leaked guards are in.
    pub(crate) fn leak(&mut self, renew: bool) -> bool {
        self.guards.leak(renew);
        self.guards.are_leaked()
    }

    /// Token of the hold, and whether it was made now.
    pub(super) fn cancellation(&mut self, number: u64) -> (CancellationToken, bool) {
        if self.number != number {
            return (CancellationToken::new(), false);
        }
        // A token that was cancelled too early told that its runtime had ended.
        let made = self
            .cancellation
            .as_ref()
            .is_none_or(CancellationToken::is_cancelled);
        if made {
            self.cancellation = Some(CancellationToken::new());
        }
        (self.cancellation.get_or_insert_default().clone(), made)
    }

    /// Takes over the expiry of an extension for one hold, unless no validity is left at `now`. A longer
    /// lease belongs to that hold alone, and not to the holds after it.
    pub(super) fn prolong(&mut self, number: u64, ends: HoldExpiry, lease: Duration, now: Moment) -> bool {
        if self.left(now).is_zero() || number != self.number && lease > self.lease {
            return false;
        }
        self.ends.prolong(ends, now);
        self.lease = self.lease.max(lease);
        true
    }

    /// Lets a hold without validity at `now` lapse. Returns whether it had not lapsed before.
    pub(super) fn lapse(&mut self, now: Moment) -> bool {
        matches!(self.phase, Phase::Held | Phase::Idle)
            && self.ends.remaining(now) <= TIMER_TOLERANCE
            && self.lose(LossCause::Expired)
    }

    /// Ends the validity early. Returns whether it had not ended yet. A hold whose release has begun is missing on its masters
    /// by its own doing, and they may have granted its names to others.
    pub(super) fn lose(&mut self, cause: LossCause) -> bool {
        let is_missing = matches!(cause, LossCause::Forgotten | LossCause::TakenAway);
        let is_own_doing = self.finish != Finish::NotBegun && is_missing;
        let kept = !is_own_doing && matches!(self.phase, Phase::Held | Phase::Vacant | Phase::Idle);
        if kept {
            self.was_idle = self.phase == Phase::Idle;
            self.phase = Phase::Lost(cause);
        }
        kept
    }

    /// Whether the caller has to release the grant: true for the first caller. From here on the grant is not
    /// renewed.
    pub(super) fn begin_release(&mut self) -> bool {
        if self.is_taken_again() {
            return false;
        }
        if self.phase == Phase::Vacant {
            self.phase = Phase::GivenUp;
        }
        !std::mem::replace(&mut self.released, true)
    }

    /// Next task of the watchdog at `now`, for a grant of this age.
    pub(super) fn upkeep(&mut self, now: Moment, age: Duration) -> Upkeep {
        match self.phase {
            // The task that closes the client releases its holds.
            Phase::GivenUp | Phase::Lost(LossCause::Closed) => return Upkeep::Nothing,
            Phase::Lost(_) => return Upkeep::CleanUp,
            Phase::Held | Phase::Vacant | Phase::Idle => {}
        }
        if self.guards.are_leaked() {
            return Upkeep::Nothing;
        }
        let left = self.left(now);
        if self.finish == Finish::UnderWay {
            return Upkeep::Look(left);
        }
        if let Some(after) = self.widen_after {
            let wait = after.saturating_sub(age);
            return if wait.is_zero() {
                Upkeep::Widening
            } else {
                Upkeep::Look(wait.min(left))
            };
        }
        if self.phase == Phase::Idle || self.guards.is_renewing() && !self.is_past_bound(now) {
            Upkeep::Renewal {
                lease: self.lease,
                left,
            }
        } else {
            Upkeep::Look(left)
        }
    }

    /// Has a master asked again that did not grant. Returns `false` if that is planned already.
    pub(super) fn widen_later(&mut self, age: Duration) -> bool {
        let is_new = self.widen_after.is_none();
        if is_new {
            self.widen_after = Some(age.max(WIDEN_AFTER.min(self.lease / WIDENING_ENDS)));
        }
        is_new
    }

    /// Masters that are to be asked for the grant now, because they do not have it. Plans the next try.
    pub(super) fn widen(&mut self) -> NodeSet {
        let Some(after) = self.widen_after.take() else {
            return NodeSet::default();
        };
        let missing = self.votes.missing();
        let parts = if self.votes.has_refusal() { 4 } else { 1 };
        let again = after + after / parts;
        if !missing.is_empty() && again <= self.lease / WIDENING_ENDS {
            self.widen_after = Some(again);
        }
        missing
    }

    /// Exempts the hold from reports of its age.
    pub(crate) fn lasts_by_design(&mut self, number: u64) {
        if self.number == number {
            self.age_report.exempt();
        }
    }

    /// Age of the hold, if a guard is in and it is not exempt.
    pub(super) fn held_for(&self, now: Moment) -> Option<Duration> {
        let is_reported = self.phase == Phase::Held && !self.age_report.is_exempt();
        is_reported.then(|| now.since(self.since))
    }

    /// Age of the hold, if the log is to report it: after ten leases, and then each hour.
    pub(super) fn lasts_long(&mut self, now: Moment) -> Option<Duration> {
        let held_for = self.held_for(now)?;
        self.age_report.take_due(held_for, self.lease).then_some(held_for)
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
