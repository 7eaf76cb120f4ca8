//! Operations on one hold of a grant: entry and exit of its guards, its end, and requests for its names.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::grant::{Grant, Hold};
use super::state::{Entered, Exited, HoldState, HoldView, Phase, TIMER_TOLERANCE};
use crate::error::LossCause;
use crate::hold::expiry::HoldExpiry;
use crate::protocol::kind::HoldKind;
use crate::queue::Turn;
use crate::time::clock::Moment;
use crate::time::until::until;
use crate::values::token::FencingToken;

impl Hold {
    /// Makes the first hold of a grant, without a guard.
    pub(crate) fn first(grant: Grant) -> Self {
        Self {
            grant: Arc::new(grant),
            number: 0,
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.grant.tokens.of_hold(self.number)
    }

    /// Validity left; zero when the hold is lost or given up.
    pub(crate) fn remaining(&self) -> Duration {
        self.grant.state().remaining(self.number, self.grant.clock.now())
    }

    /// Validity, lease and kind of the hold at `now`, for a caller that wants to enter. A leaked hold has no
    /// validity for that.
    pub(crate) fn view(&self, now: Moment) -> HoldView {
        self.grant.state().view(self.number, now)
    }

    /// Whether the hold has lasted for as long as it may be renewed.
    pub(crate) fn is_past_bound(&self, now: Moment) -> bool {
        self.grant.state().is_past_bound(now)
    }

    /// Time for which the hold may still be renewed; `None` without a bound.
    pub(crate) fn left_to_renew(&self) -> Option<Duration> {
        self.grant.state().left_to_renew(self.grant.clock.now())
    }

    pub(crate) fn count(&self) -> u64 {
        self.grant.state().count(self.number)
    }

    /// Exempts the hold from reports of its age.
    pub(crate) fn lasts_by_design(&self) {
        self.grant.state().lasts_by_design(self.number);
    }

    /// Enters, if more than `min_validity` is left at `now`. With `renew`, the hold is renewed while the
    /// guard is in.
    pub(crate) fn enter(
        &self,
        now: Moment,
        min_validity: Duration,
        renew: bool,
        kind: HoldKind,
    ) -> Option<Entered> {
        self.grant
            .state()
            .enter(self.number, now, min_validity, renew, kind)
    }

    /// Removes a guard from the hold. The last guard to exit ends the validity before anything is sent or
    /// handed on.
    pub(crate) fn exit(&self, renew: bool, is_shared: bool) -> Exited {
        let exited = self.grant.state().exit(renew, is_shared);
        if exited == Exited::Last {
            self.grant.changed.notify_waiters();
        }
        exited
    }

    /// Makes one exclusive guard a shared one. Returns whether a downgrade has to be sent to the masters. No
    /// message that admits readers is sent before this.
    pub(crate) fn give_up_exclusive(&self) -> bool {
        self.grant.state().give_up_exclusive()
    }

    /// Notes that the masters are about to release the grant, while this guard is still in. Returns `false` if others are in
    /// the hold, or if the names are to stay locked.
    pub(crate) fn begin_finish(&self) -> bool {
        self.grant.state().begin_finish(self.number)
    }

    /// Notes that too few masters have confirmed that they released the grant.
    pub(crate) fn leave_finish_unconfirmed(&self) {
        self.grant.state().leave_finish_unconfirmed();
    }

    /// Takes the hold after it was handed on, unless it was taken back.
    pub(crate) fn take(&self, renew: bool) -> bool {
        self.grant.state().take(self.number, renew)
    }

    /// Ends the bound of a hold whose set did not have all of its locks. Returns whether there was one.
    pub(crate) fn lift_set_bound(&self) -> bool {
        self.grant.state().lift_set_bound()
    }

    /// Makes the names stay locked for `at_least` from `now`, also if the hold is given up before.
    pub(crate) fn keep_at_least(&self, now: Moment, at_least: Duration) {
        self.grant.state().keep_at_least(self.number, now, at_least);
    }

    /// Notes that an extension by this lease is about to be sent.
    pub(crate) fn note_lease_asked(&self, lease: Duration) {
        self.grant.state().note_lease_asked(lease);
    }

    /// Keeps a guard in the hold for good. With `renew`, the guard wanted the renewal that ends now. Returns
    /// whether only leaked guards are in.
    pub(crate) fn leak(&self, renew: bool) -> bool {
        self.grant.state().leak(renew)
    }

    /// Takes over the expiry of a confirmed extension, unless the validity had already ended: a lapsed hold
    /// never comes back.
    pub(crate) fn prolong(&self, ends: HoldExpiry, lease: Duration) -> bool {
        let now = self.grant.clock.now();
        self.grant.state().prolong(self.number, ends, lease, now)
    }

    /// Stores this process's turn until the grant ends.
    pub(crate) fn keep_turn(&self, turn: Turn<Hold>) {
        turn.line().held_by(Arc::<Grant>::downgrade(&self.grant));
        self.grant.keep_turn(turn);
    }

    /// Resolves when the hold has ended: with the cause of its loss, or with `None` when it was given up.
    ///
    /// The timer runs until the known end, and is set again only after it has fired: an extension wakes no
    /// task. A change that brings the end forward wakes the waiting tasks. So does the watchdog after a
    /// suspension.
    pub(crate) async fn ended(&self) -> Option<LossCause> {
        loop {
            let mut changed = pin!(self.grant.changed.notified());
            changed.as_mut().enable();
            let number = self.number;
            let look = |state: &mut HoldState, now| (state.phase_of(number), state.remaining(number, now));
            let left = match self.grant.look(look) {
                (Phase::Lost(cause), _) => return Some(cause),
                (Phase::GivenUp | Phase::Vacant | Phase::Idle, _) => return None,
                (Phase::Held, left) => left,
            };
            let timer = async {
                // Outside of a runtime, which has the timer, the watchdog tells of the end.
                match Handle::try_current() {
                    Ok(_) => sleep(left.saturating_sub(TIMER_TOLERANCE)).await,
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = timer => {}
                () = changed => {}
            }
        }
    }

    /// Whether somebody else is known to wait for one of the names.
    pub(crate) fn is_wanted(&self) -> bool {
        self.grant.is_wanted()
    }

    /// Resolves when somebody else is known to wait for one of the names.
    pub(crate) async fn wanted(&self) {
        until(&self.grant.changed, || self.is_wanted().then_some(())).await;
    }

    /// Token that is cancelled at the loss of the hold. A task on `runtime` watches for the loss.
    pub(crate) fn cancellation(&self, runtime: &Handle) -> CancellationToken {
        let phase = self.grant.look(|state, _| state.phase_of(self.number));
        let (token, made) = self.grant.state().cancellation(self.number);
        if matches!(phase, Phase::Lost(_)) {
            token.cancel();
        } else if made {
            let hold = self.clone();
            // If the runtime ends before the hold, nobody would tell of the loss: the token is cancelled then.
            let cancels = token.clone().drop_guard();
            runtime.spawn(async move {
                if hold.ended().await.is_none() {
                    cancels.disarm();
                }
            });
        }
        token
    }
}

impl PartialEq for Hold {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && Arc::ptr_eq(&self.grant, &other.grant)
    }
}
