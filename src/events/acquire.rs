//! One call for a lock, as it is seen from outside: from the call to the guard, or to the error.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Level, Span};

use super::handles::Stopwatch;
use super::kinds::{AcquireOutcome, PolicyKind};
use super::label::Label;
use super::{TARGET, is_looked_at, whole_ms};
use crate::error::LockError;
use crate::values::names::Names;
use crate::values::policy::Policy;
use crate::values::token::FencingToken;

/// A call for a lock. Nothing is told of one that was never begun; dropped before its end, it was cancelled.
#[derive(Debug)]
pub(crate) struct AcquireTrace {
    label: Label,
    policy: PolicyKind,
    watch: Stopwatch,
    span: Option<Box<Open>>,
    /// Whether it has got a hold that is new to its owner, and whether that was passed on to it.
    is_new: AtomicBool,
    is_passed_on: AtomicBool,
}

#[derive(Debug)]
struct Open {
    span: Span,
    begun: Instant,
    rounds: AtomicU32,
}

impl AcquireTrace {
    /// Of a call that is not begun yet.
    #[inline]
    pub(crate) fn new(label: Label, policy: Policy) -> Self {
        Self {
            label,
            policy: policy.into(),
            watch: Stopwatch::default(),
            span: None,
            is_new: AtomicBool::new(false),
            is_passed_on: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn begin(&mut self, names: &Names) {
        self.watch = Stopwatch::started();
        if is_looked_at(Level::DEBUG) {
            self.span = Open::new(names, self.policy);
        }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.watch.is_running() || self.span.is_some()
    }

    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// Its span, if anybody looks.
    pub(super) fn span(&self) -> Option<&Span> {
        self.span.as_deref().map(|open| &open.span)
    }

    /// Does what asks the masters for a new hold, in its span.
    #[inline]
    pub(crate) fn asking<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.label.asked();
        self.round(ask)
    }

    /// The same for a second round that asks for a larger fencing token.
    #[inline]
    pub(crate) fn raising<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.label.raised();
        self.round(ask)
    }

    #[inline]
    fn round<T>(&self, ask: impl FnOnce() -> T) -> T {
        match &self.span {
            Some(open) => {
                open.rounds.fetch_add(1, Ordering::Relaxed);
                open.span.in_scope(ask)
            }
            None => ask(),
        }
    }

    /// A hold begins for it.
    pub(super) fn got(&self, is_passed_on: bool) {
        self.is_new.store(true, Ordering::Relaxed);
        self.is_passed_on.store(is_passed_on, Ordering::Relaxed);
    }

    /// It has got a hold with this token, and so much validity.
    pub(crate) fn granted(&mut self, token: FencingToken, validity: impl FnOnce() -> Duration) {
        let outcome = match (*self.is_new.get_mut(), *self.is_passed_on.get_mut()) {
            (false, _) => AcquireOutcome::Reentered,
            (true, false) => AcquireOutcome::Granted,
            (true, true) => AcquireOutcome::HandedOn,
        };
        let hold = self.span.is_some().then(|| (validity(), token.into()));
        self.end(outcome, hold);
    }

    pub(crate) fn refused(&mut self, error: &LockError) {
        self.end(AcquireOutcome::of_error(error), None);
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self, outcome: AcquireOutcome, hold: Option<(Duration, u64)>) {
        if let Some(open) = self.span.take() {
            open.span.record("wait_ms", whole_ms(open.begun.elapsed()));
            open.span.record("rounds", open.rounds.load(Ordering::Relaxed));
            open.span.record("outcome", outcome.word());
            if let Some((validity, token)) = hold {
                open.span.record("validity_ms", whole_ms(validity));
                open.span.record("token", token);
            }
        }
        if let Some(took) = self.watch.stop() {
            self.label.acquired(self.policy, outcome, took);
        }
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

impl Open {
    #[cold]
    #[inline(never)]
    fn new(names: &Names, policy: PolicyKind) -> Option<Box<Self>> {
        let span = tracing::debug_span!(
            target: TARGET,
            "multilock.acquire",
            %names,
            policy = policy.word(),
            wait_ms = Empty,
            rounds = Empty,
            outcome = Empty,
            validity_ms = Empty,
            token = Empty
        );
        (!span.is_disabled()).then(|| {
            Box::new(Self {
                span,
                begun: Instant::now(),
                rounds: AtomicU32::new(0),
            })
        })
    }
}
