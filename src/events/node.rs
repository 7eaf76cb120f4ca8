//! Events of one master, in the log and in metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::reach::Reach;
use super::{EventObserver, NodeMeters, TARGET};
use crate::error::NodeError;
use crate::time::rounded::Rounded;

/// Observer of one master, by its label.
pub(crate) struct NodeEvents {
    pub(crate) label: Arc<str>,
    was_up: AtomicBool,
    reach: Mutex<Reach>,
    /// Whether the log says that the master denies `PUBLISH`.
    publish_denied: AtomicBool,
    /// Notified when the status of the master may have changed, for the task that watches the masters.
    changed: Arc<Notify>,
    pub(crate) meters: NodeMeters,
}

impl NodeEvents {
    pub(crate) fn new(label: Arc<str>, changed: Arc<Notify>) -> Self {
        Self {
            meters: NodeMeters::of_node(&label),
            label,
            was_up: AtomicBool::new(false),
            reach: Mutex::default(),
            publish_denied: AtomicBool::new(false),
            changed,
        }
    }

    /// Notes a connection to the master.
    pub(crate) fn connected(&self) {
        let is_first = !self.was_up.swap(true, Ordering::Relaxed);
        if self.reach.lock().found() || is_first {
            tracing::info!(target: TARGET, node = %self.label, "master connected");
        }
        self.meters.connected();
        if !is_first {
            self.meters.reconnected();
        }
        self.changed.notify_one();
    }

    /// Notes that there is no connection; `is_new` if the reason is another one than before.
    pub(crate) fn disconnected(&self, reason: &NodeError, is_new: bool) {
        let reported = self.reach.lock().lost(reason, is_new);
        if let Some(left_out) = reported {
            let left_out = (left_out > 0).then_some(left_out);
            if let NodeError::Unfit(reason) = reason {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master is unfit and has no vote");
            } else {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master out of reach");
            }
        }
        self.meters.disconnected();
        self.changed.notify_one();
    }

    /// Notes that the client was closed, and with it the connection.
    pub(crate) fn closed(&self) {
        tracing::debug!(target: TARGET, node = %self.label, "connection closed by this client");
        self.meters.closed();
        self.changed.notify_one();
    }

    /// Notes that the status of the master has changed.
    pub(crate) fn has_changed(&self) {
        self.changed.notify_one();
    }

    /// Notes the time for which the master has no vote.
    pub(crate) fn in_quarantine(&self, remaining: Duration) {
        let remaining = Rounded(remaining);
        tracing::warn!(target: TARGET, node = %self.label, %remaining, "master is new to its set or was started not long ago, may have lost locks and has no vote yet");
        self.changed.notify_one();
    }

    /// Notes that the master's clock stepped against this host's.
    pub(crate) fn clock_stepped(&self, by: Duration, no_vote_for: Duration) {
        self.meters.clock_stepped();
        let (by, no_vote_for) = (Rounded(by), Rounded(no_vote_for));
        tracing::warn!(target: TARGET, node = %self.label, %by, %no_vote_for, "master's clock stepped against this host's");
        self.changed.notify_one();
    }

    /// Notes that the master's memory was wiped.
    pub(crate) fn memory_wiped(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "master's memory was wiped; it has no vote for now");
        self.meters.memory_wiped();
        self.changed.notify_one();
    }

    /// Notes that messages come from the master again.
    pub(crate) fn subscribed_again(&self, is_confirmed: bool) {
        tracing::debug!(target: TARGET, node = %self.label, is_confirmed, "subscribed again");
    }

    /// Notes that the master lacks a capability that others have, or does not report it.
    pub(crate) fn lacks(&self, missing: &str) {
        tracing::warn!(target: TARGET, node = %self.label, %missing, "master lacks a capability that others have, or does not report it; see Capabilities for its costs");
    }

    /// Notes that the master lets the client listen to no channel.
    pub(crate) fn denies_subscription(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "SUBSCRIBE to multilock:* is refused, so waiters ask by timers, and lose their places in the queues when called");
    }

    /// Notes that the master lets the client listen, after it had refused that.
    pub(crate) fn allows_subscription(&self) {
        tracing::info!(target: TARGET, node = %self.label, "SUBSCRIBE to multilock:* is no longer refused");
    }

    /// Notes whether the master lets scripts call waiters: its error, if it denies that.
    pub(crate) fn publishes(&self, denied: Option<&str>) {
        let was_denied = self.publish_denied.swap(denied.is_some(), Ordering::Relaxed);
        match denied {
            Some(reason) if !was_denied => {
                tracing::warn!(target: TARGET, node = %self.label, reason, "PUBLISH is refused inside scripts, so waiters ask by timers, in no order; allow +publish and &multilock:* there");
            }
            None if was_denied => {
                tracing::info!(target: TARGET, node = %self.label, "PUBLISH is no longer refused inside scripts");
            }
            _ => {}
        }
    }
}
