//! What is counted by the label of a call site.

use std::time::Duration;

use super::handles::{Counter, Gauge, Histogram, SharedMeters, counter, gauge, histogram};
use super::kinds::{AcquireOutcome, Cause, HoldEnd, PolicyKind};

/// The label of call sites that name none.
const UNLABELLED: &str = "default";

/// The handles of one label.
#[derive(Clone, Debug)]
pub(crate) struct Label(SharedMeters<LabelMeters>);

#[derive(Debug)]
#[cfg_attr(not(feature = "metrics"), derive(Clone))]
struct LabelMeters {
    #[cfg(feature = "metrics")]
    label: &'static str,
    acquired: [[Histogram; AcquireOutcome::COUNT]; PolicyKind::COUNT],
    rounds: Counter,
    raises: Counter,
    holds: Gauge,
    waiters: Gauge,
    held: [Histogram; HoldEnd::COUNT],
    lost: [Counter; Cause::COUNT],
}

impl Label {
    fn new(label: &'static str) -> Self {
        let only = [("label", label)];
        let acquired = |policy: PolicyKind| {
            AcquireOutcome::each(|outcome| {
                let labels = [
                    ("policy", policy.word()),
                    ("outcome", outcome.word()),
                    ("label", label),
                ];
                histogram("multilock_acquire_duration_seconds", &labels)
            })
        };
        Self(SharedMeters::new(LabelMeters {
            #[cfg(feature = "metrics")]
            label,
            acquired: PolicyKind::each(acquired),
            rounds: counter("multilock_acquire_rounds_total", &only),
            raises: counter("multilock_fence_raises_total", &only),
            holds: gauge("multilock_holds", &only),
            waiters: gauge("multilock_waiters", &only),
            held: HoldEnd::each(|end| {
                histogram(
                    "multilock_hold_duration_seconds",
                    &[("end", end.word()), ("label", label)],
                )
            }),
            lost: Cause::each(|cause| {
                counter(
                    "multilock_lost_total",
                    &[("cause", cause.word()), ("label", label)],
                )
            }),
        }))
    }

    pub(super) fn acquired(&self, policy: PolicyKind, outcome: AcquireOutcome, took: Duration) {
        self.0.acquired[policy as usize][outcome as usize].record(took);
    }

    /// Masters are asked for a new hold.
    pub(super) fn asked(&self) {
        self.0.rounds.increment(1);
    }

    pub(super) fn raised(&self) {
        self.0.raises.increment(1);
    }

    /// One more waits.
    pub(crate) fn waits(&self) {
        self.0.waiters.increment();
    }

    /// One waits no longer.
    pub(crate) fn waited(&self) {
        self.0.waiters.decrement();
    }

    /// One more is held.
    pub(super) fn held(&self) {
        self.0.holds.increment();
    }

    /// One is held no longer.
    pub(super) fn ended(&self, end: HoldEnd, held_for: Duration) {
        self.0.holds.decrement();
        self.0.held[end as usize].record(held_for);
    }

    pub(super) fn lost(&self, cause: Cause) {
        self.0.lost[cause as usize].increment(1);
    }
}

/// The labels that call sites have named so far. There are as many as the program's text has.
#[cfg(feature = "metrics")]
#[derive(Debug)]
pub(crate) struct Labels {
    unlabelled: Label,
    others: std::sync::RwLock<Vec<Label>>,
}

#[cfg(feature = "metrics")]
impl Labels {
    pub(super) fn new() -> Self {
        Self {
            unlabelled: Label::new(UNLABELLED),
            others: std::sync::RwLock::default(),
        }
    }

    pub(super) fn unlabelled(&self) -> Label {
        self.unlabelled.clone()
    }

    /// Made when it is first named.
    pub(super) fn get(&self, label: &'static str) -> Label {
        use std::sync::PoisonError;
        let find = |labels: &[Label]| labels.iter().find(|other| other.0.label == label).cloned();
        if label == UNLABELLED {
            return self.unlabelled();
        }
        if let Some(known) = find(&self.others.read().unwrap_or_else(PoisonError::into_inner)) {
            return known;
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        find(&others).unwrap_or_else(|| {
            let new = Label::new(label);
            others.push(new.clone());
            new
        })
    }
}

#[cfg(not(feature = "metrics"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels;

#[cfg(not(feature = "metrics"))]
#[allow(clippy::unused_self, reason = "as where figures are kept")]
impl Labels {
    pub(super) fn new() -> Self {
        Self
    }

    #[inline]
    pub(super) fn unlabelled(self) -> Label {
        Label::new(UNLABELLED)
    }

    #[inline]
    pub(super) fn get(self, _: &'static str) -> Label {
        Label::new(UNLABELLED)
    }
}
