//! End of a hold with its last guard. The grant is handed on to the next task of the process, or it is
//! released, or the names stay locked for a while. Or the hold was lost before.
//!
//! [`dispose`] decides. [`UnsentRelease`] sends: at once for a caller that waits for the answers, else when it is
//! dropped.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LossCause;
use crate::events::{HoldEnd, log};
use crate::hold::client::ClientCore;
use crate::hold::downgrade::Downgrade;
use crate::hold::grant::{Grant, Hold};
use crate::hold::release::Release;
use crate::hold::retake;
use crate::queue::entry::Next;
use crate::queue::{QueueEntry, Turn};
use crate::round::pool::Pool;

/// Effect of a guard's end on its hold.
pub(crate) enum GuardEnd {
    /// This number of other guards is still in.
    StillHeld(u64),
    /// Other guards are still in, and only read. The downgrade is being sent.
    Downgraded(Box<Downgrade>),
    /// The next task of this process has the hold.
    HandedOn,
    /// The grant is to be released.
    Release(UnsentRelease),
    /// The hold was lost, and another task releases it.
    Lost,
    /// The guard had ended before, or was leaked.
    NotInside,
}

/// A release that is to be sent, with the waiter that joins the queues with it. While the names stay locked,
/// it is the request for that. When it is dropped, it is sent in the background.
pub(crate) struct UnsentRelease {
    pool: Arc<Pool>,
    grant: Arc<Grant>,
    turn: Option<Turn<Hold>>,
    /// Time for which the names stay locked first.
    pub(crate) kept: Duration,
    is_sent: bool,
}

/// Hands a vacant grant on if that is allowed, or ends it.
pub(crate) fn dispose(client: &Arc<ClientCore>, grant: &Arc<Grant>, is_valid: bool) -> GuardEnd {
    // The trace is taken before the next hold begins.
    let trace = grant.trace.take();
    let loss = if is_valid && trace.is_none() {
        None
    } else {
        grant.loss()
    };
    let end = give_up(client, grant);
    if let Some(cause) = loss
        && cause != LossCause::Closed
        && matches!(end, GuardEnd::Release(_))
    {
        // The watchdog had no time to notice the loss, and will not notice it any more.
        log::hold_lost(&grant.names, &client.pool.evidence(&grant.votes()));
    }
    let Some(trace) = trace else {
        return end;
    };
    match (loss, &end) {
        (Some(cause), _) => trace.lost(cause),
        (None, GuardEnd::HandedOn) => trace.end(HoldEnd::HandedOn),
        (None, GuardEnd::Release(release)) if !release.kept.is_zero() => trace.end(HoldEnd::Kept),
        (None, _) => trace.end(HoldEnd::Released),
    }
    end
}

fn give_up(client: &Arc<ClientCore>, grant: &Arc<Grant>) -> GuardEnd {
    let (pool, kept) = (&client.pool, grant.kept());
    // No task is let in while the names stay locked, after closing, or when it is the turn of other
    // libraries.
    let may_hand_off = kept.is_zero() && !pool.is_closed() && !pool.topics.yielding.is_due(&grant.names);
    if may_hand_off && grant.pass() {
        return GuardEnd::HandedOn;
    }
    if !kept.is_zero() {
        // The names stay locked for longer than the watchdog looks after the grant.
        retake::widen(pool, grant, grant.lease());
    }
    let is_mine = grant.is_to_release();
    client.schedule.forget(grant);
    let turn = grant.take_turn();
    if !is_mine {
        return GuardEnd::Lost;
    }
    GuardEnd::Release(UnsentRelease {
        pool: Arc::clone(pool),
        grant: Arc::clone(grant),
        turn,
        kept,
        is_sent: false,
    })
}

impl UnsentRelease {
    /// Sends the release for a caller that waits for the answers of the masters.
    pub(crate) fn begin(mut self) -> Release {
        self.is_sent = true;
        let (grant, touched) = (&self.grant, self.grant.touched());
        if !self.kept.is_zero() {
            return self.keep();
        }
        // The next task in line asks right after the release, when the turn is dropped.
        Release::begin(&self.pool, grant.claim(), self.next(), |node| {
            touched.contains(node)
        })
    }

    /// Sends the release in the background, and puts a waiter into the queues with it. If the names stay
    /// locked, because an earlier entry wanted that, it sends the request for that instead.
    pub(crate) fn give_back(mut self, waiter: Option<QueueEntry>) {
        if !self.kept.is_zero() {
            return;
        }
        self.is_sent = true;
        let touched = self.grant.touched();
        let next = waiter.map(Next::resting);
        drop(Release::begin(&self.pool, self.grant.claim(), next, |node| {
            touched.contains(node)
        }));
    }

    fn keep(&self) -> Release {
        let touched = self.grant.touched();
        Release::keep(&self.pool, self.grant.claim(), self.kept, |node| {
            touched.contains(node)
        })
    }

    /// Waiter that joins the queues with the release. `None` when it is the turn of clients of other
    /// libraries.
    fn next(&self) -> Option<Next> {
        let (yielding, names) = (&self.pool.topics.yielding, &self.grant.names);
        let turn = self.turn.as_ref().filter(|_| !yielding.is_due(names))?;
        turn.line().next(names).map(Next::asking)
    }
}

impl Drop for UnsentRelease {
    fn drop(&mut self) {
        if self.is_sent {
            return;
        }
        if self.kept.is_zero() {
            let (grant, touched) = (&self.grant, self.grant.touched());
            Release::in_background(&self.pool, grant.claim(), self.next(), |node| {
                touched.contains(node)
            });
        } else {
            drop(self.keep());
        }
    }
}
