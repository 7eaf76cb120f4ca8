//! Operations on one hold of a grant: entry and exit of its guards, its end, and requests for its names.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::grant::{Grant, Hold};
use super::state::{Exited, HoldState, Phase, TIMER_TOLERANCE};
use crate::error::LossCause;
use crate::hold::expiry::HoldExpiry;
use crate::queue::Turn;
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

    /// Reads or changes the state of the grant. Gives the number of this hold along, which may not have the grant any more.
    /// The state is locked meanwhile, so `use_state` takes no other lock.
    pub(crate) fn with_state<T>(&self, use_state: impl FnOnce(&mut HoldState, u64) -> T) -> T {
        use_state(&mut self.grant.state(), self.number)
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.grant.tokens.of_hold(self.number)
    }

    /// Validity left; zero when the hold is lost or given up.
    pub(crate) fn remaining(&self) -> Duration {
        self.grant.state().remaining(self.number, self.grant.clock.now())
    }

    /// Time for which the hold may still be renewed; `None` without a bound.
    pub(crate) fn left_to_renew(&self) -> Option<Duration> {
        self.grant.state().left_to_renew(self.grant.clock.now())
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
            // Made before the look, so that no change falls between the look and the wait.
            let changed = self.grant.changed.notified();
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
