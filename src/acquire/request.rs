//! Checked options of an acquisition.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::LockError;
use crate::events::{AcquireTrace, log};
use crate::hold::client::ClientCore;
use crate::hold::grant::Hold;
use crate::hold::handoff::enough;
use crate::hold::{Entered, IdleHoldOptions};
use crate::lock::hold_guard::HoldGuard;
use crate::lock::owner::{Owner, OwnerRelation};
use crate::protocol::field::{Letter, Letters};
use crate::protocol::job_mark::JobMark;
use crate::protocol::kind;
use crate::queue::LineOptions;
use crate::time::clock::Moment;
use crate::values::names::Names;
use crate::values::policy::Policy;

/// Purpose of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Job,
    /// To lead. The wait for it may last long.
    Lead,
}

/// A job that is to be done once.
#[derive(Clone, Debug)]
pub(crate) struct OnceRequest {
    /// Time for which the job is not to be begun again.
    pub(crate) keep: Duration,
    /// Mark that a master has of the job.
    pub(crate) found: Arc<OnceLock<JobMark>>,
}

/// The checked options of an acquisition.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct AcquireRequest {
    pub(crate) client: Arc<ClientCore>,
    /// Options that all tasks of one line have in common.
    pub(crate) options: LineOptions,
    pub(crate) policy: Policy,
    /// Whether the hold is renewed while its guard lives: the call site set no lease.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// Time for which the names stay locked, even if the hold is given up before.
    pub(crate) at_least: Duration,
    /// Owner; `None` stands for an owner that is never used again.
    pub(crate) owner: Option<Owner>,
    /// Whether the grant stays with the client while nobody holds it.
    pub(crate) sticky: bool,
    /// Job to be done once: set if the names are locked only while the job is not done.
    pub(crate) once: Option<OnceRequest>,
    /// For a permit, the number of permits of its name.
    pub(crate) permits: Option<u8>,
    /// Whether the lock is one of a set of several.
    pub(crate) is_member: bool,
    /// For one of several, the longest time for which its hold is renewed before the set has all of them. The task of the set
    /// may not be polled any more, so that the set is never complete.
    pub(crate) set_completes_within: Option<Duration>,
    pub(crate) purpose: Purpose,
    /// Trace of the call.
    pub(crate) trace: AcquireTrace,
}

impl Deref for AcquireRequest {
    type Target = LineOptions;

    fn deref(&self) -> &LineOptions {
        &self.options
    }
}

impl AcquireRequest {
    /// Begins the trace of the call.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.trace.begin(&self.options.names);
    }

    /// Ends the trace of the call.
    pub(crate) fn ended(&mut self, acquired: Result<&HoldGuard, &LockError>) {
        if !self.trace.is_open() {
            return;
        }
        match acquired.map(HoldGuard::hold) {
            Ok(hold) => self.trace.granted(hold.token(), || hold.remaining()),
            Err(error) => self.trace.refused(error),
        }
    }

    /// Number of refusals that decides against the request.
    pub(super) fn blocking(&self) -> usize {
        self.client.pool.slots.len() + 1 - self.needed
    }

    /// Letters of the request's owner fields.
    pub(super) fn letters(&self) -> Letters {
        let caption = self.caption.as_deref();
        Letters::default()
            .with(Letter::Captioned, caption.is_some())
            .with(
                Letter::Published,
                caption.is_some_and(|caption| caption.is_published),
            )
            .with(Letter::Permit, self.permits.is_some())
            .with(Letter::Sticky, self.sticky)
    }

    /// Names of one attempt: those of the request, or the seat that is asked for.
    pub(super) fn names_of(&self, seat: Option<u8>) -> Names {
        match (seat, self.names.iter().next()) {
            (Some(number), Some(name)) => kind::seat(name, number).into(),
            _ => self.names.clone(),
        }
    }

    /// Names that masters store locks under: those of the request, or all seats.
    pub(crate) fn locked_names(&self) -> Names {
        match (self.permits, self.names.iter().next()) {
            (Some(permits), Some(name)) => (1..=permits).map(|number| kind::seat(name, number)).collect(),
            _ => self.names.clone(),
        }
    }

    /// Relation of the owner's holds to the names.
    pub(crate) fn relation(&self) -> OwnerRelation {
        self.owner.as_ref().map_or(OwnerRelation::Outside, |owner| {
            owner.relation(self.client.pool.id, &self.names, self.client.pool.clock.now())
        })
    }

    /// Whether the owner holds some of the names, or all of them.
    pub(super) fn is_inside(&self) -> bool {
        !matches!(self.relation(), OwnerRelation::Outside)
    }

    /// Takes over a hold that was handed on. If too little of the hold is left, as when its task was not polled for a while,
    /// the hold goes on to the next, and the result is `None`.
    pub(crate) fn accept(&self, hold: Hold) -> Option<HoldGuard> {
        let guard = HoldGuard::handed_on(&self.client, hold, self.renew, self.owner.as_ref())?;
        let hold = guard.hold();
        let left = hold.remaining();
        if left <= self.min_validity || left < enough(self.lease, self.renew).max(self.at_least) {
            return None;
        }
        log::taken_over(&self.names);
        self.begin_hold(hold, true);
        self.keep(hold, self.client.pool.clock.now());
        Some(guard)
    }

    /// Takes the grant that stays with the client, if that suits, for an owner that holds nothing. If it does not suit, it is
    /// released, so that the masters can grant its names otherwise.
    pub(super) fn take_idle(&self) -> Option<HoldGuard> {
        if self.permits.is_some() {
            return None;
        }
        let idle = &self.client.idle;
        if idle.is_empty() {
            return None;
        }
        let is_fair = self.fair && !self.kind.is_read_write();
        let may_take =
            self.renew && !self.is_member && !is_fair && self.at_least.is_zero() && self.once.is_none();
        if !may_take {
            idle.release_all_of(&self.names);
            return None;
        }
        let options = IdleHoldOptions {
            lease: self.lease,
            min_validity: self.min_validity,
            max_hold: self.max_hold,
            is_sticky: self.sticky,
        };
        let hold = idle.take(&self.options, &options)?;
        let guard = HoldGuard::entered(
            &self.client,
            hold,
            true,
            self.kind.is_shared(),
            self.owner.as_ref(),
        );
        self.begin_hold(guard.hold(), true);
        Some(guard)
    }

    /// Lets the owner know of its hold, and begins the trace of the hold.
    pub(super) fn begin_hold(&self, hold: &Hold, is_handed_on: bool) {
        if let Some(owner) = &self.owner {
            owner.remember(hold);
        }
        hold.grant
            .trace
            .begin(&self.trace, is_handed_on, &self.names, hold.token());
    }

    /// Enters a hold, if at `now` it has more validity left than is wanted. Otherwise gives it back.
    pub(crate) fn enter(&self, hold: Hold, now: Moment) -> Result<HoldGuard, Hold> {
        let entered = hold
            .with_state(|state, number| state.enter(number, now, self.min_validity, self.renew, self.kind));
        let Some(Entered { first_to_renew }) = entered else {
            return Err(hold);
        };
        let guard = HoldGuard::entered(
            &self.client,
            hold,
            self.renew,
            self.kind.is_shared(),
            self.owner.as_ref(),
        );
        if first_to_renew {
            self.client.schedule.watch(&guard.hold().grant);
        }
        Ok(guard)
    }

    /// Makes the names stay locked for the wanted time from `now`, when the hold is given out.
    pub(crate) fn keep(&self, hold: &Hold, now: Moment) {
        if !self.at_least.is_zero() {
            hold.with_state(|state, number| state.keep_at_least(number, now, self.at_least));
        }
    }

    /// Waits for something that may take long, unless the client is closed meanwhile. An attempt does not
    /// need this: it checks for itself, and ends by the node timeout.
    pub(super) async fn unless_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, LockError> {
        tokio::select! {
            biased;
            () = self.client.pool.closing.cancelled() => Err(LockError::Closed),
            done = waiting => Ok(done),
        }
    }
}
