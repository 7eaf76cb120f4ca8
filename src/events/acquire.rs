//! Trace of one call for a lock: from the call to the guard, or to the error.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tracing::Level;
use tracing::field::Empty;

use super::kinds::{AcquireOutcome, PolicyKind, Word};
use super::timed_span::{SeenSpan, TimedSpan, may_be_seen, whole_ms};
use super::{EventObserver, Label, TARGET};
use crate::error::LockError;
use crate::values::names::Names;
use crate::values::policy::Policy;
use crate::values::token::FencingToken;

/// Trace of a call for a lock. A call that was never begun is not recorded; dropped before its end, it was cancelled.
pub(crate) struct AcquireTrace {
    pub(crate) label: Label,
    policy: PolicyKind,
    pub(super) timed: TimedSpan,
    rounds: AtomicU32,
    /// Index of the outcome, if the call gets a hold.
    got: AtomicUsize,
}

impl AcquireTrace {
    /// Makes the trace of a call that has not begun yet.
    #[inline]
    pub(crate) fn new(label: Label, policy: Policy) -> Self {
        Self {
            label,
            policy: policy.into(),
            timed: TimedSpan::default(),
            rounds: AtomicU32::new(0),
            got: AtomicUsize::new(AcquireOutcome::Reentered.index()),
        }
    }

    #[inline]
    pub(crate) fn begin(&mut self, names: &Names) {
        let policy = self.policy;
        self.timed = TimedSpan::start(may_be_seen(Level::DEBUG), || {
            tracing::debug_span!(target: TARGET, "multilock.acquire", %names, policy = policy.word(), wait_ms = Empty,
                rounds = Empty, outcome = Empty, validity_ms = Empty, token = Empty)
        });
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.timed.is_running()
    }

    /// Runs a request to the masters for a new hold, in the span of the call.
    #[inline]
    pub(crate) fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.label.asked();
        self.round(ask)
    }

    /// Runs a second round, which asks for a larger fencing token, in the span of the call.
    #[inline]
    pub(crate) fn raising<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.label.raised();
        self.round(ask)
    }

    #[inline]
    fn round<T>(&self, ask: impl FnOnce() -> T) -> T {
        let Some(SeenSpan { span, .. }) = self.timed.seen() else {
            return ask();
        };
        self.rounds.fetch_add(1, Ordering::Relaxed);
        span.in_scope(ask)
    }

    /// Notes that a hold has begun for the call.
    pub(super) fn got(&self, is_handed_on: bool) {
        let outcome = if is_handed_on {
            AcquireOutcome::HandedOn
        } else {
            AcquireOutcome::Granted
        };
        self.got.store(outcome.index(), Ordering::Relaxed);
    }

    /// Ends the call, which has got a hold with this token and this validity.
    pub(crate) fn granted(&mut self, token: FencingToken, validity: impl FnOnce() -> Duration) {
        let outcome = AcquireOutcome::ALL[*self.got.get_mut()];
        let hold = self.timed.seen().map(|_| (validity(), token.into()));
        self.end(outcome, hold);
    }

    pub(crate) fn refused(&mut self, error: &LockError) {
        self.end(AcquireOutcome::of_error(error), None);
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self, outcome: AcquireOutcome, hold: Option<(Duration, u64)>) {
        if let Some(SeenSpan { begun, span }) = self.timed.seen() {
            span.record("wait_ms", whole_ms(begun.elapsed()));
            span.record("rounds", self.rounds.load(Ordering::Relaxed));
            span.record("outcome", outcome.word());
            if let Some((validity, token)) = hold {
                span.record("validity_ms", whole_ms(validity));
                span.record("token", token);
            }
        }
        self.label.acquired(self.policy, outcome, self.timed.stop());
    }
}

impl Drop for AcquireTrace {
    #[inline]
    fn drop(&mut self) {
        if self.is_open() {
            self.end(AcquireOutcome::Cancelled, None);
        }
    }
}
