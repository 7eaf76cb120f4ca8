//! Something that lasts: its span, and the time that it takes.

use std::time::Duration;

use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use super::METERED;

/// Runs if figures are kept, or if its span is looked at.
#[derive(Debug, Default)]
pub(super) struct TimedSpan {
    /// For figures. Without the feature `metrics` it has no size.
    begun: [Option<Instant>; METERED as usize],
    seen: Option<Box<SeenSpan>>,
}

/// A span that is looked at.
#[derive(Debug)]
pub(super) struct SeenSpan {
    pub(super) begun: Instant,
    pub(super) span: Span,
}

impl TimedSpan {
    /// It begins now. Its span is made if somebody may look.
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

    /// It is over. The time that it took, for figures.
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

/// Whether somebody may look at spans of this level.
#[inline]
pub(super) fn may_be_seen(level: Level) -> bool {
    level <= LevelFilter::current()
}

/// For a field of a span.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
