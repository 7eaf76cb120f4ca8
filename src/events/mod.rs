//! Everything observable passes here: what happens becomes tracing's events and spans, and, with the feature `metrics`,
//! the figures of the crate `metrics`.
//!
//! Whoever sees something happen says so by one call, and knows of neither. Handles of metrics are made when a client is
//! connected and when a label is first used, so that nothing is looked up where locks are taken. Without the feature they are
//! types without a size, and without a subscriber a span is one look at a level.
//!
//! Neither names of locks nor owner fields are ever labels, and an owner field is in no span or event.

mod acquire;
mod bounded;
#[cfg(feature = "metrics")]
mod buckets;
#[cfg(feature = "metrics")]
mod catalogue;
mod hold;
mod kinds;
mod label;
pub(crate) mod log;
mod node;
mod reach;
mod round;

#[cfg(feature = "metrics")]
mod handles;
#[cfg(not(feature = "metrics"))]
mod no_handles;
#[cfg(not(feature = "metrics"))]
use no_handles as handles;

pub(crate) use self::acquire::AcquireTrace;
pub(crate) use self::bounded::LogThrottle;
#[cfg(feature = "metrics")]
pub use self::buckets::metrics_buckets;
pub(crate) use self::hold::HoldTrace;
pub(crate) use self::kinds::{HoldEnd, UnlockOutcome, VoteKind, WokenBy};
pub(crate) use self::label::Label;
use self::label::Labels;
pub(crate) use self::node::NodeEvents;
pub(crate) use self::round::RoundTrace;

use std::time::Duration;

use tracing::Level;
use tracing::level_filters::LevelFilter;

use self::handles::{Counter, Gauge, Histogram, SharedMeters, counter, describe, gauge, histogram};
pub(crate) use self::kinds::Op;
use self::kinds::{PolicyKind, RenewalOutcome, RoundOutcome};
use crate::values::policy::Policy;

/// Of all events and spans, wherever they are told from.
const TARGET: &str = "multilock";

/// Whether figures are kept.
pub(crate) const METERED: bool = cfg!(feature = "metrics");

/// What happens to a client that is neither one master's nor one label's.
#[derive(Clone, Debug)]
pub(crate) struct Events(SharedMeters<ClientMeters>);

#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), derive(Clone))]
struct ClientMeters {
    labels: Labels,
    rounds: [[Histogram; RoundOutcome::COUNT]; Op::COUNT],
    wakeups: [Counter; WokenBy::COUNT],
    renewals: [Counter; RenewalOutcome::COUNT],
    margin: Histogram,
    unlocks: [Counter; UnlockOutcome::COUNT],
    forced: Counter,
    /// Of each policy that needs no number.
    ready: [(Policy, Gauge); 2],
    oldest_hold: Gauge,
}

impl Events {
    pub(crate) fn new() -> Self {
        describe();
        let rounds = |op: Op| {
            RoundOutcome::each(|outcome| {
                let labels = [("op", op.word()), ("outcome", outcome.word())];
                histogram("multilock_round_duration_seconds", &labels)
            })
        };
        let of_outcome = |name, word| counter(name, &[("outcome", word)]);
        Self(SharedMeters::new(ClientMeters {
            labels: Labels::new(),
            rounds: Op::each(rounds),
            wakeups: WokenBy::each(|by| counter("multilock_wakeups_total", &[("by", by.word())])),
            renewals: RenewalOutcome::each(|outcome| of_outcome("multilock_renewals_total", outcome.word())),
            margin: histogram("multilock_renew_margin_seconds", &[]),
            unlocks: UnlockOutcome::each(|outcome| of_outcome("multilock_unlocks_total", outcome.word())),
            forced: counter("multilock_forced_total", &[]),
            ready: [Policy::RedLock, Policy::MultiLock].map(|policy| {
                let labels = [("policy", PolicyKind::from(policy).word())];
                (policy, gauge("multilock_ready", &labels))
            }),
            oldest_hold: gauge("multilock_oldest_hold_seconds", &[]),
        }))
    }

    /// The label of call sites that name none.
    pub(crate) fn unlabelled(&self) -> Label {
        self.0.labels.unlabelled()
    }

    pub(crate) fn label(&self, label: &'static str) -> Label {
        self.0.labels.get(label)
    }

    /// A waiter goes on, because of this.
    pub(crate) fn woken(&self, by: WokenBy) {
        self.0.wakeups[by as usize].increment(1);
    }

    /// The watchdog has tried to renew a hold, which had so much validity left when a quorum confirmed, if one did.
    pub(crate) fn renewed(&self, margin: Option<Duration>) {
        let outcome = if margin.is_some() {
            RenewalOutcome::Confirmed
        } else {
            RenewalOutcome::Unconfirmed
        };
        self.0.renewals[outcome as usize].increment(1);
        if let Some(margin) = margin {
            self.0.margin.record(margin);
        }
    }

    /// Somebody has waited for what became of a guard that was given up.
    pub(crate) fn unlocked(&self, outcome: UnlockOutcome) {
        self.0.unlocks[outcome as usize].increment(1);
    }

    /// For how long the oldest hold of this client is held; zero where there is none.
    pub(crate) fn oldest_hold(&self, held_for: Duration) {
        self.0.oldest_hold.set(held_for.as_secs_f64());
    }

    /// An operator has taken names away.
    pub(crate) fn forced(&self) {
        self.0.forced.increment(1);
    }

    /// Tells for each policy whether a lock could be granted now.
    pub(crate) fn ready(&self, is_ready: impl Fn(Policy) -> bool) {
        if METERED {
            for (policy, gauge) in &self.0.ready {
                gauge.set(f64::from(u8::from(is_ready(*policy))));
            }
        }
    }
}

/// Whether anybody may look at spans and events of this level.
#[inline]
fn is_looked_at(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// For a field of a span.
fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
