//! Trace of one hold, from the grant to its end. Holds that have a grant one after the other are distinguished.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Span;
use tracing::field::Empty;

use super::acquire::AcquireTrace;
use super::kinds::{HoldEnd, Word};
use super::timed_span::{SeenSpan, TimedSpan, whole_ms};
use super::{EventObserver, Label, TARGET};
use crate::error::LossCause;
use crate::values::names::Names;
use crate::values::token::FencingToken;

/// The hold that a grant has now, if its trace is observed.
#[derive(Default)]
pub(crate) struct HoldTrace {
    is_open: AtomicBool,
    hold: Mutex<Option<OpenHold>>,
}

/// A hold that is not over.
pub(crate) struct OpenHold {
    label: Label,
    timed: TimedSpan,
}

impl HoldTrace {
    /// Begins the trace of a hold that a call has got, from the masters or from another task of the process.
    #[inline]
    pub(crate) fn begin(&self, call: &AcquireTrace, is_handed_on: bool, names: &Names, token: FencingToken) {
        if call.is_open() {
            call.got(is_handed_on);
            self.open(call, names, token.into());
        }
    }

    #[cold]
    #[inline(never)]
    fn open(&self, call: &AcquireTrace, names: &Names, token: u64) {
        let label = call.label.clone();
        label.held();
        // The span of the hold comes after that of the call, and goes on when the call's span has ended.
        let before = call.timed.seen().map(|call| &call.span);
        let timed = TimedSpan::start(before.is_some(), || {
            let span = tracing::debug_span!(target: TARGET, parent: None, "multilock.hold", %names, token, end = Empty);
            span.follows_from(before.and_then(Span::id));
            span
        });
        *self.hold.lock() = Some(OpenHold { label, timed });
        self.is_open.store(true, Ordering::Release);
    }

    /// Notes that a renewal was confirmed, with the validity after it.
    pub(crate) fn renewed(&self, validity: impl FnOnce() -> Duration) {
        if self.is_open.load(Ordering::Acquire)
            && let Some(SeenSpan { span, .. }) = self.hold.lock().as_ref().and_then(|hold| hold.timed.seen())
        {
            let validity_ms = whole_ms(validity());
            tracing::debug!(target: TARGET, parent: span, validity_ms, "renewed");
        }
    }

    /// Takes the open hold out, for the caller to end it.
    #[inline]
    pub(crate) fn take(&self) -> Option<OpenHold> {
        self.is_open
            .load(Ordering::Acquire)
            .then(|| self.hold.lock().take())?
    }
}

impl OpenHold {
    pub(crate) fn end(mut self, end: HoldEnd) {
        if let Some(SeenSpan { span, .. }) = self.timed.seen() {
            span.record("end", end.word());
        }
        self.label.ended(end, self.timed.stop());
    }

    pub(crate) fn lost(self, cause: LossCause) {
        if let Some(SeenSpan { span, .. }) = self.timed.seen() {
            tracing::debug!(target: TARGET, parent: span, cause = cause.word(), "lost");
        }
        self.label.lost(cause);
        self.end(HoldEnd::Lost);
    }
}
