//! Events of one master, in the log and in metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::kinds::{Op, VoteKind};
use super::reach::Reach;
use super::{EventObserver, NodeMeters, TARGET};
use crate::error::NodeError;
use crate::time::rounded::Rounded;

/// Observer of one master, by its label.
#[derive(Debug)]
pub(crate) struct NodeEvents {
    label: Arc<str>,
    was_up: AtomicBool,
    reach: Mutex<Reach>,
    /// Notified when the status of the master may have changed, for the task that watches the masters.
    changed: Arc<Notify>,
    meters: NodeMeters,
}

impl NodeEvents {
    pub(crate) fn new(label: Arc<str>, changed: Arc<Notify>) -> Self {
        Self {
            meters: NodeMeters::of_node(&label),
            label,
            was_up: AtomicBool::new(false),
            reach: Mutex::default(),
            changed,
        }
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }
}

impl EventObserver for NodeEvents {
    fn connected(&self) {
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

    fn disconnected(&self, reason: &NodeError, is_new: bool) {
        let reported = self.reach.lock().lost(reason, is_new);
        if let Some(left_out) = reported {
            let left_out = (left_out > 0).then_some(left_out);
            if let NodeError::Unfit(reason) = reason {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master is unfit and has no vote");
            } else {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master out of reach");
            }
        }
        self.meters.disconnected(reason, is_new);
        self.changed.notify_one();
    }

    fn closed(&self) {
        tracing::debug!(target: TARGET, node = %self.label, "connection closed by this client");
        self.meters.closed();
        self.changed.notify_one();
    }

    fn kept_silent(&self) {
        self.changed.notify_one();
    }

    fn in_quarantine(&self, remaining: Duration) {
        let remaining = Rounded(remaining);
        tracing::warn!(target: TARGET, node = %self.label, %remaining, "master is new to its set or was started not long ago, may have lost locks and has no vote yet");
        self.changed.notify_one();
    }

    fn clock_stepped(&self, by: Duration, no_vote_for: Duration) {
        self.meters.clock_stepped(by, no_vote_for);
        let (by, no_vote_for) = (Rounded(by), Rounded(no_vote_for));
        tracing::warn!(target: TARGET, node = %self.label, %by, %no_vote_for, "master's clock stepped against this host's");
        self.changed.notify_one();
    }

    fn memory_wiped(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "master's memory was wiped; it has no vote for now");
        self.meters.memory_wiped();
        self.changed.notify_one();
    }

    fn subscribed_again(&self, is_confirmed: bool) {
        tracing::debug!(target: TARGET, node = %self.label, is_confirmed, "subscribed again");
    }

    fn lacks(&self, missing: &str) {
        tracing::warn!(target: TARGET, node = %self.label, %missing, "master lacks a capability that others have, or does not report it; see Capabilities for its costs");
    }

    fn denies_subscription(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "the user may not subscribe to multilock:*, so waiters ask by timers, and lose their places in the queues when called");
    }

    #[inline]
    fn answered(&self, op: Op, sent: Instant) {
        self.meters.answered(op, sent);
    }

    #[inline]
    fn voted(&self, op: Op, vote: Option<VoteKind>) {
        self.meters.voted(op, vote);
    }

    fn pending(&self, releases: usize) {
        self.meters.pending(releases);
    }

    fn sampled(&self, quarantine: Duration, clock_offset_us: i64) {
        self.meters.sampled(quarantine, clock_offset_us);
    }
}
