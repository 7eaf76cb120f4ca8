//! Every metric, as `docs/operations.md` has it: its kind, labels, name, unit and help.

use metrics::{Counter, Gauge, Histogram, Label, Unit};

use super::super::kinds::{
    AcquireOutcome, HoldEnd, NamedPolicy, Op, PolicyKind, RenewalOutcome, RoundOutcome, UnlockOutcome,
    VoteKind, WokenBy,
};
use super::handle::{Family, Handle};
use crate::error::LossCause;

macro_rules! meters {
    ($(#[$about:meta])* $meters:ident { $($figure:ident: $handle:ty = $name:literal, $unit:ident, $help:literal;)* }) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $meters {
            $(pub(super) $figure: $handle,)*
        }

        impl $meters {
            pub(super) fn new(labels: &[Label], last: &[Label]) -> Self {
                Self { $($figure: Handle::new($name, labels, last),)* }
            }

            pub(super) fn describe() {
                $(<$handle>::describe($name, Unit::$unit, $help);)*
            }
        }
    };
}

meters! {
    /// Metrics of a client.
    ClientMeters {
        rounds: Family<Op, Family<RoundOutcome, Histogram>> = "multilock_round_duration_seconds", Seconds,
            "Time from a question to the masters until its outcome was certain, by operation and outcome";
        wakeups: Family<WokenBy, Counter> = "multilock_wakeups_total", Count, "Times that a waiter went on, by cause";
        ready: Family<NamedPolicy, Gauge> = "multilock_ready", Count, "1 while a lock could be granted, else 0, by policy";
        holds_without_slack: Gauge = "multilock_holds_without_slack", Count,
            "Holds that no master beyond the quorum has";
        idle_locks: Gauge = "multilock_idle_locks", Count, "Names that stay with this client while nobody holds them";
        permits: Gauge = "multilock_permits", Count, "Permits that this client holds, which are among its holds";
        oldest_hold: Gauge = "multilock_oldest_hold_seconds", Seconds,
            "Time for which the oldest hold of this client is held";
        margin: Histogram = "multilock_renew_margin_seconds", Seconds,
            "Validity that was left when a renewal was confirmed";
        renewals: Family<RenewalOutcome, Counter> = "multilock_renewals_total", Count,
            "Attempts of the watchdog to renew a hold, by outcome";
        unlocks: Family<UnlockOutcome, Counter> = "multilock_unlocks_total", Count, "Unlocks, by outcome";
        forced: Counter = "multilock_forced_total", Count, "Forced releases by this client";
    }
}

meters! {
    /// Metrics of the call sites that have a label.
    LabelMeters {
        acquired: Family<PolicyKind, Family<AcquireOutcome, Histogram>> = "multilock_acquire_duration_seconds", Seconds,
            "Time from the call for a lock to its end, by policy, outcome and label";
        rounds: Counter = "multilock_acquire_rounds_total", Count, "Rounds that asked masters for a new hold, by label";
        raises: Counter = "multilock_fence_raises_total", Count,
            "Second rounds because a master had seen a larger fencing token, by label";
        holds: Gauge = "multilock_holds", Count, "Holds of this client, by the label of the call site that took them";
        waiters: Gauge = "multilock_waiters", Count, "Calls that wait, by label";
        held: Family<HoldEnd, Histogram> = "multilock_hold_duration_seconds", Seconds,
            "Time for which names were held, by how it ended and label";
        lost: Family<LossCause, Counter> = "multilock_lost_total", Count, "Holds that were lost, by cause and label";
    }
}

meters! {
    /// Metrics of one master.
    NodeMeters {
        calls: Family<Op, Histogram> = "multilock_node_call_duration_seconds", Seconds,
            "Time that a master took to answer, late answers included, by master and operation";
        votes: Family<Op, Family<VoteKind, Counter>> = "multilock_votes_total", Count,
            "Votes of masters, by master, operation and vote";
        up: Gauge = "multilock_node_up", Count, "1 while a master is connected, else 0; kept by a client that is closed";
        quarantine: Gauge = "multilock_node_quarantine_seconds", Seconds,
            "Time for which a connected master has no vote yet";
        clock_offset: Gauge = "multilock_node_clock_offset_seconds", Seconds,
            "How far a master's clock is ahead of this host's";
        deferred: Gauge = "multilock_node_deferred_releases", Count, "Releases that are pending for a master";
        reconnects: Counter = "multilock_node_reconnects_total", Count, "Connections to a master after the first";
        clock_steps: Counter = "multilock_clock_steps_total", Count, "Steps of a master's clock against this host's";
        memory_wipes: Counter = "multilock_memory_wipes_total", Count,
            "Times that a master's memory was seen to have been wiped (with strict)";
    }
}
