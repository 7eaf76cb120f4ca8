//! Every figure that there is, as `docs/operations.md` has them: its kind, name, unit, and what it tells.

use metrics::Unit::{self, Count, Seconds};

use MetricKind::{Counter, Gauge, Histogram};

/// What a figure is.
#[derive(Clone, Copy, Debug)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

pub(super) const CATALOGUE: &[(MetricKind, &str, Unit, &str)] = &[
    (
        Histogram,
        "multilock_acquire_duration_seconds",
        Seconds,
        "Time from the call for a lock to its end, by policy, outcome and label",
    ),
    (
        Histogram,
        "multilock_round_duration_seconds",
        Seconds,
        "Time from a question to all masters until its outcome was certain, by operation and outcome",
    ),
    (
        Histogram,
        "multilock_node_call_duration_seconds",
        Seconds,
        "Time that a master took to answer, late answers included, by master and operation",
    ),
    (
        Counter,
        "multilock_acquire_rounds_total",
        Count,
        "Rounds that asked masters for a new hold, by label",
    ),
    (
        Counter,
        "multilock_fence_raises_total",
        Count,
        "Second rounds because a master had seen a larger fencing token, by label",
    ),
    (
        Counter,
        "multilock_wakeups_total",
        Count,
        "Times that a waiter went on, by cause",
    ),
    (
        Counter,
        "multilock_votes_total",
        Count,
        "Votes of masters, by master, operation and vote",
    ),
    (
        Gauge,
        "multilock_node_up",
        Count,
        "1 while a master is connected, else 0",
    ),
    (
        Gauge,
        "multilock_node_quarantine_seconds",
        Seconds,
        "Time for which a connected master has no vote yet",
    ),
    (
        Gauge,
        "multilock_node_clock_offset_seconds",
        Seconds,
        "How far a master's clock is ahead of this host's",
    ),
    (
        Gauge,
        "multilock_node_deferred_releases",
        Count,
        "Releases that a master is still owed",
    ),
    (
        Counter,
        "multilock_node_reconnects_total",
        Count,
        "Connections to a master after the first",
    ),
    (
        Counter,
        "multilock_clock_steps_total",
        Count,
        "Steps of a master's clock against this host's",
    ),
    (
        Counter,
        "multilock_memory_wipes_total",
        Count,
        "Times that a master's memory was seen to have been wiped (with strict)",
    ),
    (
        Gauge,
        "multilock_ready",
        Count,
        "1 while a lock could be granted, else 0, by policy",
    ),
    (
        Gauge,
        "multilock_holds",
        Count,
        "Holds of this client, by the label of the call site that took them",
    ),
    (
        Gauge,
        "multilock_oldest_hold_seconds",
        Seconds,
        "Time for which the oldest hold of this client is held",
    ),
    (Gauge, "multilock_waiters", Count, "Calls that wait, by label"),
    (
        Histogram,
        "multilock_hold_duration_seconds",
        Seconds,
        "Time for which names were held, by how it ended and label",
    ),
    (
        Histogram,
        "multilock_renew_margin_seconds",
        Seconds,
        "Validity that was left when a renewal was confirmed",
    ),
    (
        Counter,
        "multilock_renewals_total",
        Count,
        "Attempts of the watchdog to renew a hold, by outcome",
    ),
    (Counter, "multilock_unlocks_total", Count, "Unlocks, by outcome"),
    (
        Counter,
        "multilock_lost_total",
        Count,
        "Holds that were lost, by cause and label",
    ),
    (
        Counter,
        "multilock_forced_total",
        Count,
        "Forced releases by this client",
    ),
];
