//! One round, as it is seen from outside.

use std::time::Duration;

use tracing::field::Empty;
use tracing::{Level, Span};

use super::handles::Stopwatch;
use super::kinds::{Op, RoundOutcome, VoteKind};
use super::{Events, TARGET, is_looked_at};

/// A round under way. Dropped, it is over.
#[derive(Debug)]
pub(crate) struct RoundTrace {
    op: Op,
    watch: Stopwatch,
    span: Option<Box<Span>>,
    counts: Counts,
    /// Where its duration is counted.
    events: Events,
}

/// So many masters said so, of 64 at the most.
#[derive(Debug, Default)]
struct Counts {
    needed: u8,
    granted: u8,
    refused: u8,
    silent: u8,
}

impl RoundTrace {
    /// In the span that is current, where so many masters have to assent.
    #[inline]
    pub(crate) fn begin(events: &Events, op: Op, needed: usize) -> Self {
        Self {
            op,
            watch: Stopwatch::started(),
            span: if is_looked_at(Level::TRACE) {
                open(op.word())
            } else {
                None
            },
            counts: Counts {
                needed: few(needed),
                ..Counts::default()
            },
            events: events.clone(),
        }
    }

    pub(crate) fn op(&self) -> Op {
        self.op
    }

    /// So many masters have to assent.
    pub(crate) fn needs(&mut self, needed: usize) {
        self.counts.needed = few(needed);
    }

    #[inline]
    pub(crate) fn voted(&mut self, vote: Option<VoteKind>) {
        if self.is_open() {
            self.count(vote);
        }
    }

    fn count(&mut self, vote: Option<VoteKind>) {
        let Some(vote) = vote else { return };
        let count = match vote {
            VoteKind::Granted => &mut self.counts.granted,
            VoteKind::NotSent | VoteKind::Late | VoteKind::Unknown => &mut self.counts.silent,
            _ => &mut self.counts.refused,
        };
        *count = count.saturating_add(1);
    }

    /// Nothing that is still to come matters to whoever asked.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.is_open() {
            self.close();
        }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.watch.is_running() || self.span.is_some()
    }

    #[cold]
    #[inline(never)]
    fn close(&mut self) {
        let Counts {
            needed,
            granted,
            refused,
            silent,
        } = self.counts;
        if let Some(span) = self.span.take() {
            span.record("needed", needed);
            span.record("granted", granted);
            span.record("refused", refused);
            span.record("silent", silent);
        }
        if let Some(took) = self.watch.stop() {
            let outcome = if granted >= needed {
                RoundOutcome::Won
            } else {
                RoundOutcome::Lost
            };
            self.events.round_ended(self.op, outcome, took);
        }
    }
}

impl Drop for RoundTrace {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl Events {
    fn round_ended(&self, op: Op, outcome: RoundOutcome, took: Duration) {
        self.0.rounds[op as usize][outcome as usize].record(took);
    }
}

fn few(masters: usize) -> u8 {
    u8::try_from(masters).unwrap_or(u8::MAX)
}

#[cold]
#[inline(never)]
fn open(op: &'static str) -> Option<Box<Span>> {
    let span = tracing::trace_span!(
        target: TARGET,
        "multilock.round",
        op,
        needed = Empty,
        granted = Empty,
        refused = Empty,
        silent = Empty
    );
    (!span.is_disabled()).then(|| Box::new(span))
}
