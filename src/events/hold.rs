//! One hold, as it is seen from outside: from the grant to its end. Holds that have a grant one after the other are told
//! apart.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Level, Span};

use super::acquire::AcquireTrace;
use super::handles::Stopwatch;
use super::kinds::{Cause, HoldEnd};
use super::label::Label;
use super::{TARGET, whole_ms};
use crate::error::LossCause;
use crate::values::names::Names;
use crate::values::token::FencingToken;

/// The hold that a grant has now, if anybody looks at it.
#[derive(Debug, Default)]
pub(crate) struct HoldTrace {
    is_open: AtomicBool,
    hold: Mutex<Option<OpenHold>>,
}

/// A hold that is not over.
#[derive(Debug)]
pub(crate) struct OpenHold {
    label: Label,
    watch: Stopwatch,
    span: Option<Box<Span>>,
}

impl HoldTrace {
    /// A call for a lock has got a hold, from the masters or from another task of the process.
    #[inline]
    pub(crate) fn begin(
        &self,
        acquire: &AcquireTrace,
        is_passed_on: bool,
        names: &Names,
        token: FencingToken,
    ) {
        if acquire.is_open() {
            acquire.got(is_passed_on);
            self.open(acquire, names, token.into());
        }
    }

    #[cold]
    #[inline(never)]
    fn open(&self, acquire: &AcquireTrace, names: &Names, token: u64) {
        let label = acquire.label().clone();
        label.held();
        *self.hold() = Some(OpenHold {
            label,
            watch: Stopwatch::started(),
            span: acquire.span().and_then(|acquire| span(acquire, names, token)),
        });
        self.is_open.store(true, Ordering::Release);
    }

    /// A renewal was confirmed, and it has so much validity now.
    pub(crate) fn renewed(&self, validity: impl FnOnce() -> Duration) {
        if self.is_open.load(Ordering::Acquire)
            && let Some(span) = self.hold().as_ref().and_then(|hold| hold.span.as_ref())
        {
            let validity_ms = whole_ms(validity());
            tracing::debug!(target: TARGET, parent: &**span, validity_ms, "renewed");
        }
    }

    /// Takes it out, for who ends it.
    #[inline]
    pub(crate) fn take(&self) -> Option<OpenHold> {
        if self.is_open.load(Ordering::Acquire) {
            self.hold().take()
        } else {
            None
        }
    }

    fn hold(&self) -> MutexGuard<'_, Option<OpenHold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenHold {
    pub(crate) fn end(mut self, end: HoldEnd) {
        if let Some(span) = &self.span {
            span.record("end", end.word());
        }
        let held_for = self.watch.stop().unwrap_or_default();
        self.label.ended(end, held_for);
    }

    pub(crate) fn lost(self, cause: LossCause) {
        let cause = Cause::from(cause);
        if let Some(span) = &self.span {
            tracing::debug!(target: TARGET, parent: &**span, cause = cause.word(), "lost");
        }
        self.label.lost(cause);
        self.end(HoldEnd::Lost);
    }
}

/// It comes after the call, and goes on when that one has ended.
fn span(acquire: &Span, names: &Names, token: u64) -> Option<Box<Span>> {
    let span = tracing::span!(target: TARGET, parent: None, Level::DEBUG, "multilock.hold", %names, token, end = Empty);
    span.follows_from(acquire);
    (!span.is_disabled()).then(|| Box::new(span))
}
