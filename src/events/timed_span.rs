//! Span of a thing that lasts, and its duration.

use std::time::Duration;

use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use super::METERED;

/// Runs if metrics are recorded, or if its span is observed.
#[derive(Default)]
pub(super) struct TimedSpan {
    /// Begin, for metrics. Without the feature `metrics` it has no size.
    begun: [Option<Instant>; METERED as usize],
    seen: Option<Box<SeenSpan>>,
}

/// A span that is observed.
pub(super) struct SeenSpan {
    pub(super) begun: Instant,
    pub(super) span: Span,
}

impl TimedSpan {
    /// Begins. Makes the span if a subscriber may observe it.
    #[inline]
    pub(super) fn start(may_be_seen: bool, span: impl FnOnce() -> Span) -> Self {
        Self {
            begun: [METERED.then(Instant::now); METERED as usize],
            seen: if may_be_seen { seen(span) } else { None },
        }
    }

    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.seen.is_some() || self.begun.iter().any(Option::is_some)
    }

    #[inline]
    pub(super) fn seen(&self) -> Option<&SeenSpan> {
        self.seen.as_deref()
    }

    /// Ends. Returns the duration, for metrics.
    pub(super) fn stop(&mut self) -> Duration {
        let begun = std::mem::take(self).begun;
        begun.into_iter().flatten().map(|begun| begun.elapsed()).sum()
    }
}

#[cold]
#[inline(never)]
fn seen(span: impl FnOnce() -> Span) -> Option<Box<SeenSpan>> {
    let (span, begun) = (span(), Instant::now());
    (!span.is_disabled()).then(|| Box::new(SeenSpan { begun, span }))
}

/// Whether a subscriber may observe spans of this level.
#[inline]
pub(super) fn may_be_seen(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// Whole milliseconds, for a field of a span.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
