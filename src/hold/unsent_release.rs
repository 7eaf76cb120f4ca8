//! A release that has to be sent, and the turn in the line of its names.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::hold::grant::{Grant, Hold};
use crate::hold::release::Release;
use crate::queue::entry::Next;
use crate::queue::{QueueEntry, Turn};
use crate::round::pool::Pool;

/// A release that is to be sent, with the waiter that joins the queues with it. While the names stay locked,
/// it is the request for that. When it is dropped, it is sent in the background.
pub(crate) struct UnsentRelease {
    pool: Arc<Pool>,
    grant: Arc<Grant>,
    turn: Option<Turn<Hold>>,
    /// Time for which the names stay locked first.
    pub(crate) kept: Duration,
    is_sent: bool,
    /// Makes closing wait until the release is sent.
    _under_way: TaskTrackerToken,
}

impl UnsentRelease {
    /// Takes the release of a grant that nobody holds any more, and its turn. With `kept`, the names stay locked for that
    /// time first. Returns `None` if another caller releases the grant, or the grant has another hold.
    pub(super) fn of(pool: &Arc<Pool>, grant: &Arc<Grant>, kept: Duration) -> Option<Self> {
        // From the next line on, closing leaves the grant to this release.
        let under_way = pool.tracker.token();
        let is_mine = grant.begin_release();
        if !is_mine && grant.state().is_taken_again() {
            return None;
        }
        let turn = grant.take_turn();
        is_mine.then(|| Self {
            pool: Arc::clone(pool),
            grant: Arc::clone(grant),
            turn,
            kept,
            is_sent: false,
            _under_way: under_way,
        })
    }

    /// Sends the release for a caller that waits for the answers of the masters.
    pub(crate) fn begin(mut self) -> Release {
        self.is_sent = true;
        if !self.kept.is_zero() {
            return self.keep();
        }
        // The next task in line asks right after the release, when the turn is dropped.
        let grant = &self.grant;
        Release::begin(&self.pool, grant.claim(), self.next(), grant.touched())
    }

    /// Sends the release in the background, and puts a waiter into the queues with it. If an earlier entry wanted the
    /// names to stay locked, sends the request for that instead.
    pub(crate) fn give_back(mut self, waiter: Option<QueueEntry>) {
        if !self.kept.is_zero() {
            return;
        }
        self.is_sent = true;
        let (grant, next) = (&self.grant, waiter.map(Next::resting));
        drop(Release::begin(&self.pool, grant.claim(), next, grant.touched()));
    }

    /// Notes that the masters have released the grant by another call.
    pub(crate) fn mark_as_sent(mut self) {
        self.is_sent = true;
    }

    fn keep(&self) -> Release {
        let grant = &self.grant;
        Release::keep(&self.pool, grant.claim(), self.kept, grant.touched())
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
            let grant = &self.grant;
            Release::in_background(&self.pool, grant.claim(), self.next(), grant.touched());
        } else {
            drop(self.keep());
        }
    }
}
