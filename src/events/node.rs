//! What happens to one master.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::handles::{Counter, Gauge, Histogram, SharedMeters, counter, gauge, histogram};
use super::kinds::{Op, VoteKind};
use super::reach::Reach;
use super::{METERED, TARGET};
use crate::error::NodeError;
use crate::time::rounded::Rounded;

/// One master, by its label.
#[derive(Debug)]
pub(crate) struct NodeEvents {
    label: Arc<str>,
    was_up: AtomicBool,
    reach: Reach,
    /// Rings when what its status tells may have changed, for whoever watches the masters.
    changed: Arc<Notify>,
    meters: SharedMeters<NodeMeters>,
}

#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), derive(Clone))]
struct NodeMeters {
    up: Gauge,
    quarantine: Gauge,
    clock_offset: Gauge,
    deferred: Gauge,
    reconnects: Counter,
    clock_steps: Counter,
    memory_wipes: Counter,
    calls: [Histogram; Op::COUNT],
    votes: [[Counter; VoteKind::COUNT]; Op::COUNT],
}

impl NodeEvents {
    pub(crate) fn new(label: Arc<str>, changed: Arc<Notify>) -> Self {
        let only = [("node", &*label)];
        let calls = |op: Op| {
            let labels = [("node", &*label), ("op", op.word())];
            histogram("multilock_node_call_duration_seconds", &labels)
        };
        let votes = |op: Op| {
            VoteKind::each(|vote| {
                let labels = [("node", &*label), ("op", op.word()), ("vote", vote.word())];
                counter("multilock_votes_total", &labels)
            })
        };
        let meters = SharedMeters::new(NodeMeters {
            up: gauge("multilock_node_up", &only),
            quarantine: gauge("multilock_node_quarantine_seconds", &only),
            clock_offset: gauge("multilock_node_clock_offset_seconds", &only),
            deferred: gauge("multilock_node_deferred_releases", &only),
            reconnects: counter("multilock_node_reconnects_total", &only),
            clock_steps: counter("multilock_clock_steps_total", &only),
            memory_wipes: counter("multilock_memory_wipes_total", &only),
            calls: Op::each(calls),
            votes: Op::each(votes),
        });
        meters.up.set(0.0);
        Self {
            label,
            was_up: AtomicBool::new(false),
            reach: Reach::default(),
            changed,
            meters,
        }
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn connected(&self) {
        if self.reach.found() {
            tracing::info!(target: TARGET, node = %self.label, "master connected");
        }
        self.meters.up.set(1.0);
        if self.was_up.swap(true, Ordering::Relaxed) {
            self.meters.reconnects.increment(1);
        }
        self.changed.notify_one();
    }

    /// There is no connection; `is_new` says whether for another reason than before.
    pub(crate) fn disconnected(&self, reason: &NodeError, is_new: bool) {
        if let Some(left_out) = self.reach.lost(reason, is_new) {
            let left_out = (left_out > 0).then_some(left_out);
            if let NodeError::Unfit(reason) = reason {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master is unfit and has no vote");
            } else {
                tracing::warn!(target: TARGET, node = %self.label, %reason, left_out, "master out of reach");
            }
        }
        self.gone();
    }

    /// The client was closed, and with it the connection.
    pub(crate) fn closed(&self) {
        tracing::debug!(target: TARGET, node = %self.label, "connection closed by this client");
        self.gone();
    }

    fn gone(&self) {
        self.meters.up.set(0.0);
        self.meters.quarantine.set(0.0);
        self.changed.notify_one();
    }

    /// It has missed a deadline.
    pub(crate) fn kept_silent(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn in_quarantine(&self, remaining: Duration) {
        let remaining = Rounded(remaining);
        tracing::warn!(target: TARGET, node = %self.label, %remaining, "master is new to its set or was started not long ago, may have lost locks and has no vote yet");
        self.changed.notify_one();
    }

    pub(crate) fn clock_stepped(&self, by: Duration, no_vote_for: Duration) {
        let (by, no_vote_for) = (Rounded(by), Rounded(no_vote_for));
        tracing::warn!(target: TARGET, node = %self.label, %by, %no_vote_for, "master's clock stepped against this host's");
        self.meters.clock_steps.increment(1);
        self.changed.notify_one();
    }

    pub(crate) fn memory_wiped(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "master's memory was wiped; it has no vote for now");
        self.meters.memory_wipes.increment(1);
        self.changed.notify_one();
    }

    pub(crate) fn subscribed_again(&self, is_confirmed: bool) {
        tracing::debug!(target: TARGET, node = %self.label, is_confirmed, "subscribed again");
    }

    pub(crate) fn lacks(&self, missing: &str) {
        tracing::warn!(target: TARGET, node = %self.label, %missing, "master cannot do or does not tell all that others do; see Capabilities for what that costs");
    }

    pub(crate) fn denies_subscription(&self) {
        tracing::warn!(target: TARGET, node = %self.label, "the user may not subscribe to multilock:*, so whoever waits goes by timers, and loses its place in the queues whenever it is called");
    }

    /// It has answered a call that was sent at `sent`.
    #[inline]
    pub(crate) fn answered(&self, op: Op, sent: Instant) {
        if METERED {
            self.meters.calls[op as usize].record(sent.elapsed());
        }
    }

    #[inline]
    pub(crate) fn voted(&self, op: Op, vote: Option<VoteKind>) {
        if METERED && let Some(vote) = vote {
            self.meters.votes[op as usize][vote as usize].increment(1);
        }
    }

    /// So many releases are owed to it.
    pub(crate) fn owed(&self, releases: usize) {
        if METERED {
            self.meters.deferred.set(as_f64(releases));
        }
    }

    /// What changes by itself, while it is connected.
    pub(crate) fn sampled(&self, quarantine: Duration, clock_offset_us: i64) {
        if METERED {
            self.meters.quarantine.set(quarantine.as_secs_f64());
            #[allow(
                clippy::cast_precision_loss,
                reason = "far below 2^52 microseconds, or wrong anyway"
            )]
            self.meters.clock_offset.set(clock_offset_us as f64 / 1e6);
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody owes 2^52 releases")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
