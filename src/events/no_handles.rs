//! Figures that nobody keeps: without the feature `metrics` all of it is compiled to nothing.

use std::ops::Deref;
use std::time::Duration;

/// What is shared where figures are kept: here it has no size.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedMeters<T>(T);

#[derive(Clone, Copy, Debug)]
pub(super) struct Counter;

#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge;

#[derive(Clone, Copy, Debug)]
pub(super) struct Histogram;

#[derive(Debug, Default)]
pub(super) struct Stopwatch(());

pub(super) fn describe() {}

pub(super) fn counter(_: &'static str, _: &[(&'static str, &str)]) -> Counter {
    Counter
}

pub(super) fn gauge(_: &'static str, _: &[(&'static str, &str)]) -> Gauge {
    Gauge
}

pub(super) fn histogram(_: &'static str, _: &[(&'static str, &str)]) -> Histogram {
    Histogram
}

impl<T> SharedMeters<T> {
    pub(super) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for SharedMeters<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[allow(clippy::unused_self, reason = "as where they are kept")]
impl Counter {
    #[inline]
    pub(super) fn increment(self, _: u64) {}
}

#[allow(clippy::unused_self, reason = "as where they are kept")]
impl Gauge {
    #[inline]
    pub(super) fn set(self, _: f64) {}

    #[inline]
    pub(super) fn increment(self) {}

    #[inline]
    pub(super) fn decrement(self) {}
}

#[allow(clippy::unused_self, reason = "as where they are kept")]
impl Histogram {
    #[inline]
    pub(super) fn record(self, _: Duration) {}
}

#[allow(clippy::unused_self, reason = "as where they are kept")]
impl Stopwatch {
    #[inline]
    pub(super) fn started() -> Self {
        Self(())
    }

    #[inline]
    pub(super) fn is_running(&self) -> bool {
        false
    }

    #[inline]
    pub(super) fn stop(&mut self) -> Option<Duration> {
        None
    }
}
