//! The graceful end.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::timeout;

use crate::cleanup::{Debris, Release};
use crate::error::LossCause;
use crate::hold::Hold;
use crate::masters::{Masters, Pool};

/// What becomes of the holds when a pool is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closing {
    /// They are released at once; to their guards they are lost.
    Release,
    /// They stay on the masters until their leases end. Their guards keep the validity they have.
    Leave,
}

impl Masters {
    /// Ends the pool, for this and every other clone: waiters are told
    /// [`LockError::Closed`](crate::LockError::Closed), holds are released or left as asked, and when
    /// this returns every connection is closed and no background task is left. Takes about the node
    /// deadline at the most.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, no new lock is given out any more, but connections may still be open. Call it
    /// again.
    pub async fn close(&self, holds: Closing) {
        let pool = &self.pool;
        pool.tracker.close();
        pool.closing.cancel();
        if holds == Closing::Release {
            join_all(pool.watchdog.all().iter().map(|hold| release(pool, hold))).await;
        }
        // What is on its way gets there before the connections end.
        let _ = timeout(pool.config.node_timeout, pool.tracker.wait()).await;
        pool.stop().await;
    }
}

async fn release(pool: &Arc<Pool>, hold: &Arc<Hold>) {
    hold.lose(LossCause::Closed);
    let debris = Debris {
        names: hold.names.clone(),
        field: hold.field,
        token: hold.token,
    };
    let mut release = Release::begin(pool, &debris, true, None, |place| hold.may_be_on(place));
    while release.next().await.is_some() {}
}
