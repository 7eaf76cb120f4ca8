//! Status of the masters, and the task that publishes it to watchers.
//!
//! The task looks after each event that may matter, and when a quarantine ends. It is started for the first
//! watcher. With metrics it is started with the client, for values that change by themselves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::events::{EventObserver, METERED};
use crate::hold::client::ClientCore;
use crate::masters::status::{NodeConnection, Status};
use crate::time::until::sleep_until_if;

/// Interval of the looks at values that change by themselves, with metrics, and while a master is silent or refuses.
const PERIOD: Duration = Duration::from_secs(1);
/// Time after the calculated end of a quarantine at which it is surely over.
const QUARANTINE_MARGIN: Duration = Duration::from_millis(1);

impl ClientCore {
    pub(crate) fn watch_status(self: &Arc<Self>) -> watch::Receiver<Status> {
        self.keep_published();
        self.publish();
        let mut watched = self.published.subscribe();
        // The first look counts as a change. So nothing is missed between a status that is read and a watch
        // that begins after it.
        watched.mark_changed();
        watched
    }

    /// Starts the task, once.
    pub(crate) fn keep_published(self: &Arc<Self>) {
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            self.pool.spawn(run(Publisher(Arc::downgrade(self))));
        }
    }

    /// Publishes the status, if it has changed.
    pub(crate) fn publish(&self) {
        let (status, survey) = self.survey();
        if METERED {
            // A client that was closed on purpose is no outage.
            if !status.closed {
                self.pool.events.ready(|policy| status.is_ready(policy));
            }
            self.pool.events.surveyed(&survey);
            for (slot, node) in self.pool.slots.iter().zip(&status.nodes) {
                if let Ok(connection) = &node.connection {
                    slot.events
                        .meters
                        .sampled(connection.quarantine, connection.clock_offset_us);
                }
            }
        }
        self.published.send_if_modified(|published| {
            let differs = status.differs(published);
            *published = status;
            differs
        });
    }
}

/// Publishes the status for as long as the client lives. It is dropped early when the runtime of the connections ends: then
/// the client is closed, and nobody else publishes that.
struct Publisher(Weak<ClientCore>);

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(client) = self.0.upgrade() {
            client.pool.end();
            client.publish();
        }
    }
}

async fn run(publisher: Publisher) {
    let client = &publisher.0;
    let shared = |client: Arc<ClientCore>| {
        let pool = &client.pool;
        (Arc::clone(&pool.changed), pool.closing.clone())
    };
    let Some((changed, closing)) = client.upgrade().map(shared) else {
        return;
    };
    loop {
        let next = {
            let Some(client) = client.upgrade() else {
                return;
            };
            client.publish();
            if closing.is_cancelled() {
                return;
            }
            client.next_look()
        };
        tokio::select! {
            () = changed.notified() => {}
            () = closing.cancelled() => {}
            () = sleep_until_if(next) => {}
        }
    }
}

impl ClientCore {
    /// Time of the next change without a notification.
    fn next_look(&self) -> Option<Instant> {
        let published = self.published.borrow();
        let connected = || {
            published
                .nodes
                .iter()
                .filter_map(|node| node.connection.as_ref().ok())
        };
        let changes = |node: &NodeConnection| node.is_silent || node.is_refusing;
        let is_counted = METERED || connected().any(changes);
        let quarantines = connected().map(|NodeConnection { quarantine, .. }| *quarantine);
        let over = quarantines
            .filter(|quarantine| !quarantine.is_zero())
            .map(|quarantine| quarantine + QUARANTINE_MARGIN);
        let after = over.chain(is_counted.then_some(PERIOD)).min();
        after.map(|after| Instant::now() + after)
    }
}
