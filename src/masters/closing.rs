//! Closes a client: releases its holds, and sends the pending releases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::error::LossCause;
use crate::events::log;
use crate::hold::Upkeep;
use crate::hold::client::ClientCore;
use crate::hold::grant::Grant;
use crate::hold::release::Release;
use crate::hold::retake;
use crate::hold::watchdog;
use crate::masters::Masters;
use crate::node::{PendingRelease, label};

/// Fate of the holds when a client is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closing {
    /// Holds are released at once, or once their least time is over
    /// ([`MultiLock::at_least`](crate::MultiLock::at_least)). For their guards they are lost.
    Release,
    /// Holds stay on the masters until their leases end. Their guards keep the validity that they have.
    Leave,
}

/// Result of [`Masters::close`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Holds that enough masters have released for their names to be free. With [`Closing::Release`] the grants
    /// of [sticky](crate::MultiLock::sticky) locks that stay count as well.
    pub released: u64,
    /// Holds without a confirmed release: too few masters have answered, and their leases free the names at
    /// the latest. A call for a lock counts, too, if its question was under way and its future is not polled: the masters may
    /// have granted it.
    pub unconfirmed: u64,
    /// Holds with names that stay locked for a while longer, as
    /// [`MultiLock::at_least`](crate::MultiLock::at_least) asks.
    pub kept: u64,
    /// Masters with pending releases, and the number of these.
    pub left: Vec<(Arc<str>, u64)>,
}

/// Node deadlines after which a silent master is no longer waited for.
const SILENT: u32 = 4;

impl Masters {
    /// Ends the client, for this and every other clone. Waiters get
    /// [`LockError::Closed`](crate::LockError::Closed), and holds are released or left as asked. When this
    /// returns, every connection is closed and no background task is left.
    ///
    /// Releases go in batches and take the time that they need, for as long as the masters answer. A master
    /// that has been silent for four node timeouts, or has only refused releases, is left as it is, and the leases free its
    /// names. The result counts the released holds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Closing;
    ///
    /// let guard = masters.red_lock("report").lock().await?;
    /// let closed = masters.close(Closing::Release).await;
    /// assert_eq!((closed.released, closed.unconfirmed), (1, 0));
    /// assert!(closed.left.is_empty(), "every master was told");
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    ///
    /// Of two calls at the same time, the first one that is done ends the connections. If it leaves the holds, releases by the
    /// other one may stay unconfirmed.
    ///
    /// Outside of a tokio runtime the work is done on the runtime of [`connect`](crate::MastersBuilder::connect), if that is
    /// one of several threads. Otherwise nobody can wait for the masters: connections end at once, and no release is
    /// confirmed.
    ///
    /// # Panics
    ///
    /// If the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, no new lock is granted, and the releases that it has begun go on in the
    /// background. But connections may still be open. Call it again: it goes on, and its result is that of both calls.
    /// Holds that the first call has released stay released, also if the second call is to leave them.
    pub async fn close(&self, holds: Closing) -> Closed {
        let runtime = &self.client.pool.runtime;
        if Handle::try_current().is_err() && runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            let masters = self.clone();
            let closing = runtime.spawn(async move { masters.close_here(holds).await });
            // It is cancelled if that runtime has ended.
            if let Ok(closed) = AbortOnDropHandle::new(closing).await {
                return closed;
            }
        }
        self.close_here(holds).await
    }

    async fn close_here(&self, holds: Closing) -> Closed {
        let client = &self.client;
        let pool = &client.pool;
        pool.end();
        for grant in client.schedule.all() {
            if grant.loss().is_some() {
                // The watchdog, which cleans up after a loss, ends with the client.
                watchdog::clean_up(pool, &grant);
                continue;
            }
            if grant.upkeep() == Upkeep::Nothing {
                // It was leaked or given up during a renewal.
                continue;
            }
            match holds {
                Closing::Release => release(client, &grant),
                // Nobody has the grant, so it is released in any case.
                Closing::Leave if client.idle.release(&grant) => {}
                // No watchdog looks after the grant any more.
                Closing::Leave => retake::widen(pool, &grant),
            }
        }
        let kept = client.kept.load(Ordering::Relaxed);
        let can_wait = Handle::try_current().is_ok();
        if can_wait {
            // Requests in progress arrive before the connections end.
            let _ = timeout(pool.config.node_timeout, pool.tracker.wait()).await;
        }
        if !can_wait || pool.has_ended() {
            // Nothing sends or receives any more.
            pool.stop().await;
        } else {
            let quiet = pool.config.node_timeout * SILENT;
            join_all(pool.slots.iter().map(|slot| slot.drain(quiet))).await;
        }
        if can_wait && holds == Closing::Release && !client.leaves_locked.load(Ordering::Relaxed) {
            let slots = pool.slots.iter();
            let withdrawn = slots.map(|slot| label::withdraw(slot, pool.id, pool.config.node_timeout));
            join_all(withdrawn).await;
        }
        pool.stop().await;
        client.publish();
        let (released, of) = client.released.count();
        // Attempts that have neither become a hold nor been rolled back.
        let unsettled = pool.attempts.load(Ordering::Relaxed);
        let (released, unconfirmed) = (released as u64, (of - released + unsettled) as u64);
        // Another call may have ended the connections, so the slots know what is left.
        let slots = pool.slots.iter();
        let left = slots.map(|slot| (Arc::clone(slot.label()), slot.releases_left() as u64));
        let left: Vec<_> = left.filter(|(_, releases)| *releases > 0).collect();
        log::closed(released, unconfirmed, kept, left.len());
        Closed {
            released,
            unconfirmed,
            kept,
            left,
        }
    }
}

/// Releases one grant at every master, in batches with others.
fn release(client: &ClientCore, grant: &Arc<Grant>) {
    let kept = grant.kept();
    if !kept.is_zero() {
        client.leaves_locked.store(true, Ordering::Relaxed);
        retake::widen(&client.pool, grant);
    }
    if !grant.lose(LossCause::Closed) || !grant.begin_release() {
        return;
    }
    if let Some(trace) = grant.trace.take() {
        trace.lost(LossCause::Closed);
    }
    let touched = grant.touched();
    if !kept.is_zero() {
        client.kept.fetch_add(1, Ordering::Relaxed);
        drop(Release::keep(&client.pool, grant.claim(), kept, touched));
        return;
    }
    let untouched = client.pool.slots.len() - touched.len();
    let confirmed = client.released.add(untouched, grant.needed);
    for node in touched.iter() {
        let release = PendingRelease::new(grant.claim()).counted_by(Arc::clone(&confirmed));
        client.pool.slots[node].defer(release);
    }
}
