//! Trace of one round.

use tracing::Level;
use tracing::field::Empty;

use super::kinds::{Op, VoteKind, Word};
use super::timed_span::{SeenSpan, TimedSpan, may_be_seen};
use super::{EventObserver, Events, TARGET};

/// Trace of a round under way. Its drop ends the round.
pub(crate) struct RoundTrace {
    pub(crate) op: Op,
    timed: TimedSpan,
    /// Number of masters that have to assent, and number of those that did, of 64 at the most.
    needed: u8,
    granted: u8,
    refused: u8,
    silent: u8,
    /// Observer of the round's duration.
    events: Events,
}

impl RoundTrace {
    /// Begins a round in the current span; `needed` is the number of masters that have to assent.
    #[inline]
    pub(crate) fn begin(events: &Events, op: Op, needed: usize) -> Self {
        let timed = TimedSpan::start(may_be_seen(Level::TRACE), || {
            tracing::trace_span!(target: TARGET, "multilock.round", op = op.word(), needed = Empty, granted = Empty,
                refused = Empty, silent = Empty)
        });
        Self {
            op,
            timed,
            needed: few(needed),
            granted: 0,
            refused: 0,
            silent: 0,
            events: events.clone(),
        }
    }

    /// Counts the round as one of another operation.
    pub(crate) fn counted_as(&mut self, op: Op) {
        self.op = op;
        if let Some(SeenSpan { span, .. }) = self.timed.seen() {
            span.record("op", op.word());
        }
    }

    /// Sets the number of masters that have to assent.
    pub(crate) fn needs(&mut self, needed: usize) {
        self.needed = few(needed);
    }

    #[inline]
    pub(crate) fn voted(&mut self, vote: Option<VoteKind>) {
        let Some(vote) = vote.filter(|_| self.is_open()) else {
            return;
        };
        match vote {
            VoteKind::Granted => self.granted += 1,
            VoteKind::NotSent | VoteKind::Late | VoteKind::Unknown => self.silent += 1,
            _ => self.refused += 1,
        }
    }

    /// Ends the round: no later answer matters to the caller.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.is_open() {
            self.close();
        }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.timed.is_running()
    }

    #[cold]
    #[inline(never)]
    fn close(&mut self) {
        if let Some(SeenSpan { span, .. }) = self.timed.seen() {
            span.record("needed", self.needed);
            span.record("granted", self.granted);
            span.record("refused", self.refused);
            span.record("silent", self.silent);
        }
        let is_won = self.granted >= self.needed;
        self.events.round_ended(self.op, is_won, self.timed.stop());
    }
}

impl Drop for RoundTrace {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

fn few(masters: usize) -> u8 {
    u8::try_from(masters).unwrap_or(u8::MAX)
}
