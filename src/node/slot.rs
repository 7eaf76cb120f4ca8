//! One master of the pool: the connection in use, if there is one, and the pending releases. A caller never
//! waits for the connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::Link;
use super::deferred::{Deferrals, PendingRelease};
use super::stale_waiters::StaleWaiters;
use crate::error::NodeError;
use crate::events::NodeEvents;
use crate::masters::status::NodeStatus;
use crate::protocol::fault::Fault;
use crate::time::clock::Clock;

/// Interval at which a closing pool checks whether a connection still waits for answers.
const LOOK: Duration = Duration::from_millis(5);

/// State of a master's connection, as [`Slot::watch`] shows it.
#[derive(Clone, Debug)]
pub(crate) enum Reached {
    /// The first attempt is in progress.
    Connecting,
    Up,
    Down(NodeError),
}

pub(crate) struct Slot {
    pub(super) node: usize,
    pub(crate) events: Arc<NodeEvents>,
    link: Mutex<Result<Arc<Link>, Fault>>,
    status: watch::Sender<Reached>,
    pub(super) deferrals: Arc<Deferrals>,
    pub(crate) stale_waiters: Arc<StaleWaiters>,
}

impl Slot {
    /// Makes a slot. `recovered` is notified when it is connected, or its backlog has become small enough.
    pub(crate) fn new(node: usize, events: NodeEvents, recovered: &Arc<Notify>) -> Self {
        let events = Arc::new(events);
        Self {
            node,
            link: Mutex::new(Err(Fault::NotSent(NodeError::Connecting.to_string().into()))),
            status: watch::Sender::new(Reached::Connecting),
            deferrals: Arc::new(Deferrals::new(Arc::clone(recovered), Arc::clone(&events))),
            stale_waiters: Arc::default(),
            events,
        }
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.events.label
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Reached> {
        self.status.subscribe()
    }

    /// Connection in use, or the fault that prevents it.
    pub(crate) fn link(&self) -> Result<Arc<Link>, Fault> {
        self.link.lock().clone()
    }

    /// Stops all sending; called once the keeper has been stopped.
    pub(crate) fn close(&self) {
        self.gone(&NodeError::Unavailable("closed".into()));
        self.events.closed();
        self.deferrals.close();
    }

    /// Leaves a release with the keeper, which sends it with others when the master can be reached.
    pub(crate) fn defer(&self, release: PendingRelease) {
        self.deferrals.add(release);
    }

    /// Whether the backlog is so large that the master is sent no call for a new hold.
    pub(crate) fn is_full(&self) -> bool {
        self.deferrals.full.load(Ordering::Relaxed)
    }

    /// Whether releases are better left with the keeper, because a call that is sent now would wait for long.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.link().is_ok_and(|link| link.is_backed_up())
    }

    /// Waits until all calls have answers and no release is pending. Gives up once the master has been silent or
    /// has refused releases for `quiet`, or for the longer time that a distant master needs.
    pub(crate) async fn drain(&self, quiet: Duration) {
        let mut before = None;
        loop {
            let (pending, settled) = self.deferrals.pending();
            let link = self.link().ok();
            if pending == 0 && link.as_ref().is_none_or(|link| !link.is_waiting()) {
                return;
            }
            // An answer that refuses releases is no progress, nor is the end of a connection.
            let answering = link.as_ref().filter(|_| !self.deferrals.is_refused());
            let progress = Some((settled, answering.map(|link| link.last_received())));
            if progress <= before {
                return;
            }
            before = progress;
            let quiet = link.map_or(quiet, |link| link.patience().max(quiet));
            let end = Instant::now() + quiet;
            // A call that was not deferred sends no notification when it is answered, so the loop checks at
            // intervals.
            while Instant::now() < end && self.deferrals.pending().1 == settled {
                let _ = timeout(LOOK.min(quiet), self.deferrals.settled.notified()).await;
                if self.is_drained() {
                    return;
                }
            }
        }
    }

    /// Number of releases that the master has not done, also after the slot was closed.
    pub(crate) fn releases_left(&self) -> usize {
        self.deferrals.left()
    }

    fn is_drained(&self) -> bool {
        self.deferrals.pending().0 == 0 && self.link().ok().is_none_or(|link| !link.is_waiting())
    }

    pub(super) fn up(&self, link: Arc<Link>) {
        *self.link.lock() = Ok(link);
        self.status.send_replace(Reached::Up);
        self.deferrals.recovered.notify_waiters();
        self.events.connected();
    }

    pub(super) fn down(&self, error: &NodeError) {
        let is_new = self.gone(error);
        self.events.disconnected(error, is_new);
    }

    /// Ends the connection. Returns whether the reason is another one than before.
    fn gone(&self, error: &NodeError) -> bool {
        let reason: Arc<str> = error.to_string().into();
        let fault = if error.is_transient() {
            Fault::NotSent(reason)
        } else {
            Fault::Unfit(reason)
        };
        *self.link.lock() = Err(fault);
        let is_new = match &*self.status.borrow() {
            Reached::Down(before) => before != error,
            _ => true,
        };
        self.status.send_replace(Reached::Down(error.clone()));
        is_new
    }

    /// Status of the master.
    pub(crate) fn status(&self, clock: Clock) -> NodeStatus {
        let connection = match self.link() {
            Ok(link) => Ok(link.status(clock)),
            Err(_) => Err(match &*self.status.borrow() {
                Reached::Down(error) => error.clone(),
                Reached::Connecting | Reached::Up => NodeError::Connecting,
            }),
        };
        NodeStatus {
            node: Arc::clone(self.label()),
            connection,
            pending_releases: self.deferrals.pending().0,
            is_overloaded: self.is_full(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::deferred::tests::release;

    /// A release that becomes pending meanwhile is no sign that the master is silent.
    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_added_does_not_end_the_wait_for_answers() {
        let events = NodeEvents::new("one".into(), Arc::default());
        let slot = Slot::new(0, events, &Arc::default());
        let (begun, quiet) = (Instant::now(), Duration::from_millis(100));
        slot.defer(release(1));
        let another = async {
            tokio::time::sleep(quiet / 2).await;
            slot.defer(release(2));
        };
        tokio::join!(slot.drain(quiet), another);
        assert_eq!(slot.releases_left(), 2);
        assert!(begun.elapsed() >= quiet, "{:?}", begun.elapsed());
    }
}
