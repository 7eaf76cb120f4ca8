//! Metrics for the recorder of the crate `metrics`.

mod buckets;
mod catalogue;
mod handle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

pub use self::buckets::metrics_buckets;
pub(crate) use self::catalogue::NodeMeters;
use self::catalogue::{ClientMeters, LabelMeters};
use super::kinds::{
    AcquireOutcome, HoldEnd, NamedPolicy, Op, PolicyKind, RenewalOutcome, RoundOutcome, UnlockOutcome,
    VoteKind, WokenBy,
};
use super::observer::{EventObserver, Survey};
use crate::error::LossCause;
use crate::values::policy::Policy;

/// Label of call sites that name none.
const UNLABELLED: &str = "default";

/// Metrics of a client.
#[derive(Clone)]
pub(crate) struct Events(Arc<ClientFigures>);

struct ClientFigures {
    meters: ClientMeters,
    unlabelled: Label,
    /// Labels that call sites have named so far. There are as many as the program's text has.
    labels: RwLock<BTreeMap<&'static str, Label>>,
}

/// Metrics of one label.
#[derive(Clone, Debug)]
pub(crate) struct Label(Arc<LabelMeters>);

impl Events {
    pub(crate) fn new() -> Self {
        ClientMeters::describe();
        LabelMeters::describe();
        NodeMeters::describe();
        let unlabelled = Label::new(UNLABELLED);
        Self(Arc::new(ClientFigures {
            meters: ClientMeters::new(&[], &[]),
            labels: RwLock::new(BTreeMap::from([(UNLABELLED, unlabelled.clone())])),
            unlabelled,
        }))
    }

    /// Label of call sites that name none.
    pub(crate) fn unlabelled(&self) -> Label {
        self.0.unlabelled.clone()
    }

    /// Returns a label, which is made when it is first named.
    pub(crate) fn label(&self, label: &'static str) -> Label {
        let labels = &self.0.labels;
        if let Some(known) = labels.read().get(label) {
            return known.clone();
        }
        let mut labels = labels.write();
        labels.entry(label).or_insert_with(|| Label::new(label)).clone()
    }
}

impl EventObserver for Events {
    fn woken(&self, by: WokenBy) {
        self.0.meters.wakeups[by].increment(1);
    }

    fn renewed(&self, margin: Option<Duration>) {
        let meters = &self.0.meters;
        if let Some(margin) = margin {
            meters.renewals[RenewalOutcome::Confirmed].increment(1);
            meters.margin.record(margin);
        } else {
            meters.renewals[RenewalOutcome::Unconfirmed].increment(1);
        }
    }

    fn unlocked(&self, outcome: UnlockOutcome) {
        self.0.meters.unlocks[outcome].increment(1);
    }

    fn forced(&self) {
        self.0.meters.forced.increment(1);
    }

    fn ready(&self, is_ready: impl Fn(Policy) -> bool) {
        let ready = |of, policy| self.0.meters.ready[of].set(u8::from(is_ready(policy)));
        ready(NamedPolicy::RedLock, Policy::RedLock);
        ready(NamedPolicy::MultiLock, Policy::MultiLock);
    }

    fn surveyed(&self, survey: &Survey) {
        let meters = &self.0.meters;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        meters.oldest_hold.set(survey.oldest);
        meters.holds_without_slack.set(number(survey.without_slack));
        meters.idle_locks.set(number(survey.idle));
        meters.permits.set(number(survey.permits));
    }

    fn round_ended(&self, op: Op, is_won: bool, took: Duration) {
        let outcome = if is_won {
            RoundOutcome::Won
        } else {
            RoundOutcome::Lost
        };
        self.0.meters.rounds[op][outcome].record(took);
    }
}

impl Label {
    fn new(label: &'static str) -> Self {
        let label = metrics::Label::new("label", label);
        Self(Arc::new(LabelMeters::new(&[], &[label])))
    }
}

impl EventObserver for Label {
    fn acquired(&self, policy: PolicyKind, outcome: AcquireOutcome, took: Duration) {
        self.0.acquired[policy][outcome].record(took);
    }

    fn asked(&self) {
        self.0.rounds.increment(1);
    }

    fn raised(&self) {
        self.0.raises.increment(1);
    }

    fn waits(&self) {
        self.0.waiters.increment(1);
    }

    fn waited(&self) {
        self.0.waiters.decrement(1);
    }

    fn held(&self) {
        self.0.holds.increment(1);
    }

    fn ended(&self, end: HoldEnd, held_for: Duration) {
        self.0.holds.decrement(1);
        self.0.held[end].record(held_for);
    }

    fn lost(&self, cause: LossCause) {
        self.0.lost[cause].increment(1);
    }
}

impl NodeMeters {
    pub(super) fn of_node(label: &Arc<str>) -> Self {
        let meters = Self::new(&[metrics::Label::new("node", Arc::clone(label))], &[]);
        meters.up.set(0);
        meters
    }
}

impl EventObserver for NodeMeters {
    fn connected(&self) {
        self.up.set(1);
    }

    fn reconnected(&self) {
        self.reconnects.increment(1);
    }

    fn disconnected(&self) {
        self.up.set(0);
        self.quarantine.set(0);
    }

    fn closed(&self) {
        // Whether the master is up stays as it was: to close a client is no outage.
        self.quarantine.set(0);
    }

    fn clock_stepped(&self) {
        self.clock_steps.increment(1);
    }

    fn memory_wiped(&self) {
        self.memory_wipes.increment(1);
    }

    fn answered(&self, op: Op, sent: Instant) {
        self.calls[op].record(sent.elapsed());
    }

    fn voted(&self, op: Op, vote: Option<VoteKind>) {
        if let Some(vote) = vote {
            self.votes[op][vote].increment(1);
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "no client has 2^52 pending releases")]
    fn pending(&self, releases: usize) {
        self.deferred.set(releases as f64);
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "far below 2^52 microseconds, or wrong anyway"
    )]
    fn sampled(&self, quarantine: Duration, clock_offset_us: i64) {
        self.quarantine.set(quarantine);
        self.clock_offset.set(clock_offset_us as f64 / 1e6);
    }
}
