//! What an acquisition is to do.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LockError;
use crate::events::{AcquireTrace, log};
use crate::hold::Entered;
use crate::hold::client::ClientCore;
use crate::hold::grant::Hold;
use crate::lock::hold_guard::HoldGuard;
use crate::lock::owner::{Owner, OwnerStanding};
use crate::protocol::kind::HoldKind;
use crate::queue::Wanted;
use crate::time::clock::Moment;
use crate::values::names::Names;
use crate::values::policy::Policy;

/// What a lock is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Job,
    /// To lead, which others may do for long.
    Lead,
}

/// The checked options of an acquisition.
#[derive(Debug)]
pub(crate) struct AcquireRequest {
    pub(crate) client: Arc<ClientCore>,
    pub(crate) names: Names,
    pub(crate) kind: HoldKind,
    pub(crate) policy: Policy,
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    /// Whether the hold is renewed while its guard lives: the call site set no lease.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// For so long the names are kept, also where the hold is given up before.
    pub(crate) at_least: Duration,
    pub(crate) fenced: bool,
    pub(crate) min_validity: Duration,
    /// `None` for one that nobody else can be.
    pub(crate) owner: Option<Owner>,
    /// Strictly by ticket.
    pub(crate) fair: bool,
    pub(crate) purpose: Purpose,
    /// The call that they are for.
    pub(crate) trace: AcquireTrace,
}

impl AcquireRequest {
    /// The call begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.trace.begin(&self.names);
    }

    /// The end of the call, for whoever looks at it from outside.
    pub(crate) fn ended(&mut self, acquired: Result<&HoldGuard, &LockError>) {
        if !self.trace.is_open() {
            return;
        }
        match acquired.map(HoldGuard::hold) {
            Ok(hold) => self.trace.granted(hold.token(), || hold.remaining()),
            Err(error) => self.trace.refused(error),
        }
    }

    /// So many masters together can refuse.
    pub(super) fn blocking(&self) -> usize {
        self.client.pool.slots.len() + 1 - self.needed
    }

    /// The line of this process in which it waits.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            names: self.names.clone(),
            kind: self.kind,
            needed: self.needed,
            lease: self.lease,
            min_validity: self.min_validity,
            fenced: self.fenced,
            fair: self.fair,
        }
    }

    /// Where its owner stands now with the names.
    pub(crate) fn standing(&self) -> OwnerStanding {
        self.owner.as_ref().map_or(OwnerStanding::Outside, |owner| {
            owner.standing(self.client.id, &self.names, self.client.pool.clock.now())
        })
    }

    /// Takes over a hold that was handed on; `None`, and it goes on, if too little of it is left by now.
    pub(crate) fn take_over(&self, hold: Hold) -> Option<HoldGuard> {
        let guard = HoldGuard::passed(&self.client, hold, self.renew, self.owner.as_ref())?;
        let hold = guard.hold();
        if hold.remaining() <= self.min_validity {
            return None;
        }
        if let Some(owner) = &self.owner {
            owner.remember(hold);
        }
        log::taken_over(&self.names);
        hold.grant
            .trace
            .begin(&self.trace, true, &self.names, hold.token());
        self.keep(hold, self.client.pool.clock.now());
        Some(guard)
    }

    /// Enters a hold, if at `now` it has more validity left than is wanted; else gives it back.
    pub(crate) fn enter(&self, hold: Hold, now: Moment) -> Result<HoldGuard, Hold> {
        let entered = hold.enter(now, self.min_validity, self.renew, self.kind);
        let Some(Entered { first_to_renew }) = entered else {
            return Err(hold);
        };
        let guard = HoldGuard::entered(&self.client, hold, self.renew, self.kind, self.owner.as_ref());
        if first_to_renew {
            self.client.schedule.watch(&guard.hold().grant);
        }
        Ok(guard)
    }

    /// Makes the names stay taken for as long as is wanted after `now`, when the hold is given out.
    pub(crate) fn keep(&self, hold: &Hold, now: Moment) {
        if !self.at_least.is_zero() {
            hold.keep_at_least(now, self.at_least);
        }
    }

    /// Waits for something that may take long, unless the client is closed meanwhile. An attempt needs no such care: it
    /// looks for itself, and is over by the node deadline.
    pub(super) async fn unless_closed<T>(&self, waiting: impl Future<Output = T>) -> Result<T, LockError> {
        tokio::select! {
            biased;
            () = self.client.pool.closing.cancelled() => Err(LockError::Closed),
            done = waiting => Ok(done),
        }
    }
}
