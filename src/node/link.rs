//! A live connection to a master, and the count of how often it kept silent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::witness::Witness;
use super::{By, Fault, Inbox, Marker, ReplyTo, Wire};
use crate::clock::Moment;
use crate::reckoning::Reckoning;
use crate::reply::Stamp;
use crate::request::{Request, Script};

/// Deadlines missed in a row, one after the other, after which the connection is replaced. A healed
/// partition is then noticed by reconnecting instead of by TCP's growing retransmission timer.
const SILENT_ROUNDS: u32 = 3;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Link {
    wire: Box<dyn Wire>,
    /// When it was set up.
    since: Instant,
    recollection: Recollection,
    closed: AtomicBool,
    silent: AtomicU32,
    /// When the deadline that was counted last passed.
    last_silence: Mutex<Option<Instant>>,
    hang_up: Notify,
}

/// What a connection knows of its master's memory.
#[derive(Debug)]
pub(super) struct Recollection {
    /// How far it reached back when the connection was set up.
    pub(super) memory: Duration,
    /// What the master's clock showed then, in microseconds since 1970.
    pub(super) clock_us: u64,
    pub(super) marker: Option<Marker>,
    /// How far it must reach back for the master's votes to count.
    pub(super) reckoning: Arc<Reckoning>,
    pub(super) witness: Arc<Witness>,
}

impl Link {
    pub(super) fn new(wire: Box<dyn Wire>, recollection: Recollection) -> Self {
        Self {
            wire,
            since: Instant::now(),
            recollection,
            closed: AtomicBool::new(false),
            silent: AtomicU32::new(0),
            last_silence: Mutex::new(None),
            hang_up: Notify::new(),
        }
    }

    /// One script call.
    pub(crate) fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        match self.closed() {
            Some(fault) => reply.give(Err(fault)),
            None => self.wire.call(request, by, reply),
        }
    }

    /// Makes the master know a script again.
    pub(crate) fn load(&self, script: &'static Script) -> Inbox {
        self.answered_by(|reply| self.wire.load(script, reply))
    }

    /// Asks for the release notices of some channels; answered when the master has confirmed.
    pub(crate) fn subscribe(&self, channels: &[String]) -> Inbox {
        self.answered_by(|reply| self.wire.subscribe(channels, reply))
    }

    /// Asks for them no longer.
    pub(crate) fn unsubscribe(&self, channels: &[String]) -> Inbox {
        self.answered_by(|reply| self.wire.unsubscribe(channels, reply))
    }

    fn answered_by(&self, ask: impl FnOnce(ReplyTo)) -> Inbox {
        let (inbox, reply) = Inbox::single();
        match self.closed() {
            Some(fault) => reply.give(Err(fault)),
            None => ask(reply),
        }
        inbox
    }

    /// For how much longer than `now` the master has no vote, by what is known now of the leases that it
    /// may have forgotten; zero when it has one.
    pub(crate) fn quarantine(&self, now: Instant) -> Duration {
        self.amnesia(now).max(self.doubt(now))
    }

    /// The same, as far as its clock's steps are concerned.
    pub(crate) fn doubt(&self, now: Instant) -> Duration {
        self.recollection.witness.doubt(now)
    }

    /// The same, as far as a restart or a wiped memory is.
    pub(crate) fn amnesia(&self, now: Instant) -> Duration {
        let Recollection {
            memory,
            reckoning,
            witness,
            ..
        } = &self.recollection;
        let missing = reckoning.quarantine().saturating_sub(*memory);
        let remaining = missing.saturating_sub(now.saturating_duration_since(self.since));
        remaining.max(witness.amnesia(now))
    }

    /// Takes in the stamp of an answer that was heard at `now`, to a request that was not sent before
    /// `begun`.
    pub(crate) fn testify(&self, stamp: Stamp<'_>, begun: Moment, now: Moment) {
        let Recollection { marker, witness, .. } = &self.recollection;
        witness.hear(stamp.clock_us, begun, now);
        if marker
            .as_ref()
            .is_some_and(|marker| marker.as_str() != stamp.marker)
        {
            witness.wiped();
            // The next connection marks the memory anew.
            self.replace();
        }
    }

    /// For how much longer the master has no vote, if its clock was seen at `sent` or later to have
    /// stepped.
    pub(crate) fn doubted_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.witness.doubted_since(sent)
    }

    /// The same, if its memory was seen to have been wiped.
    pub(crate) fn wiped_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.witness.wiped_since(sent)
    }

    /// What a fencing token must be above, for all that the master may have forgotten: that was stored
    /// before its start, by clients whose clocks are at most half a quarantine ahead.
    pub(crate) fn floor(&self) -> u64 {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let Recollection {
            memory,
            clock_us,
            reckoning,
            ..
        } = &self.recollection;
        let started = clock_us.saturating_sub(us(*memory));
        started.saturating_add(us(reckoning.quarantine()))
    }

    /// Notes that the master is there.
    pub(crate) fn answered(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    /// Notes that a call sent at `sent` got no answer by its deadline. Calls that were under way
    /// together count once: one hiccup under load is not a dead connection.
    pub(crate) fn kept_silent(&self, sent: Instant) {
        let mut last = self.last_silence.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| sent < last) {
            return;
        }
        *last = Some(Instant::now());
        if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT_ROUNDS {
            self.replace();
        }
    }

    /// Asks for another connection in place of this one.
    pub(crate) fn replace(&self) {
        self.hang_up.notify_one();
    }

    pub(super) async fn replacement_wanted(&self) {
        self.hang_up.notified().await;
    }

    /// From here on calls answer *not sent*.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    fn closed(&self) -> Option<Fault> {
        let closed = self.closed.load(Ordering::Acquire);
        closed.then(|| Fault::NotSent("connection closed".into()))
    }
}
