//! Figures as the crate `metrics` keeps them. A handle belongs to the recorder that is installed when it is made, so an
//! application installs its recorder before it connects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Label, describe_counter, describe_gauge, describe_histogram};
use tokio::time::Instant;

use super::catalogue::{CATALOGUE, MetricKind};

pub(super) type SharedMeters<T> = Arc<T>;

#[derive(Clone)]
pub(super) struct Counter(metrics::Counter);

#[derive(Clone)]
pub(super) struct Gauge(metrics::Gauge);

/// Of durations, in seconds.
#[derive(Clone)]
pub(super) struct Histogram(metrics::Histogram);

/// How long something takes; stands still until it is started.
#[derive(Debug, Default)]
pub(super) struct Stopwatch(Option<Instant>);

/// Tells the recorder what each figure is.
pub(super) fn describe() {
    for (kind, name, unit, help) in CATALOGUE {
        match kind {
            MetricKind::Counter => describe_counter!(*name, *unit, *help),
            MetricKind::Gauge => describe_gauge!(*name, *unit, *help),
            MetricKind::Histogram => describe_histogram!(*name, *unit, *help),
        }
    }
}

pub(super) fn counter(name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
    Counter(metrics::counter!(name, owned(labels)))
}

pub(super) fn gauge(name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
    Gauge(metrics::gauge!(name, owned(labels)))
}

pub(super) fn histogram(name: &'static str, labels: &[(&'static str, &str)]) -> Histogram {
    Histogram(metrics::histogram!(name, owned(labels)))
}

fn owned(labels: &[(&'static str, &str)]) -> Vec<Label> {
    let label = |(key, value): &(&'static str, &str)| Label::new(*key, (*value).to_owned());
    labels.iter().map(label).collect()
}

impl Counter {
    pub(super) fn increment(&self, by: u64) {
        self.0.increment(by);
    }
}

impl Gauge {
    pub(super) fn set(&self, value: f64) {
        self.0.set(value);
    }

    pub(super) fn increment(&self) {
        self.0.increment(1.0);
    }

    pub(super) fn decrement(&self) {
        self.0.decrement(1.0);
    }
}

impl Histogram {
    pub(super) fn record(&self, time: Duration) {
        self.0.record(time.as_secs_f64());
    }
}

impl Stopwatch {
    pub(super) fn started() -> Self {
        Self(Some(Instant::now()))
    }

    pub(super) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// The time since it was started, if it was.
    pub(super) fn stop(&mut self) -> Option<Duration> {
        self.0.take().map(|begun| begun.elapsed())
    }
}

macro_rules! opaque {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    )*};
}

opaque!(Counter, Gauge, Histogram);
