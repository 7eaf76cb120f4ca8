//! A live connection to a master, and the count of how often it kept silent.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::witness::Witness;
use super::{By, Fault, Inbox, Marker, ReplyTo, Wire};
use crate::clock::Moment;
use crate::reply::Stamp;
use crate::request::{Request, Script};

/// Deadlines missed in a row, one after the other, after which the connection is replaced. A healed
/// partition is then noticed by reconnecting instead of by TCP's growing retransmission timer.
const SILENT_ROUNDS: u32 = 3;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Link {
    wire: Box<dyn Wire>,
    /// From when on the master's votes count.
    counts_from: Instant,
    /// Below this it may have forgotten fencing tokens, in microseconds since 1970.
    floor: u64,
    marker: Option<Marker>,
    witness: Arc<Witness>,
    closed: AtomicBool,
    silent: AtomicU32,
    /// When the deadline that was counted last passed.
    last_silence: Mutex<Option<Instant>>,
    hang_up: Notify,
}

/// What a connection knows of its master's memory.
#[derive(Debug)]
pub(super) struct Recollection {
    /// For how much longer the master's votes do not count.
    pub(super) quarantine: Duration,
    /// Below this it may have forgotten fencing tokens, in microseconds since 1970.
    pub(super) floor: u64,
    pub(super) marker: Option<Marker>,
    pub(super) witness: Arc<Witness>,
}

impl Link {
    pub(super) fn new(wire: Box<dyn Wire>, recollection: Recollection) -> Self {
        let Recollection {
            quarantine,
            floor,
            marker,
            witness,
        } = recollection;
        Self {
            wire,
            counts_from: Instant::now() + quarantine,
            floor,
            marker,
            witness,
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

    /// For how much longer than `now` the master has no vote; zero when it has one.
    pub(crate) fn quarantine(&self, now: Instant) -> Duration {
        let remaining = self.counts_from.saturating_duration_since(now);
        remaining.max(self.witness.quarantine(now))
    }

    /// Takes in the stamp of an answer to a request that was sent between `begun` and `sent`. Doubt in
    /// the master's memory that has come up since then is returned as the time for which it stands.
    pub(crate) fn testify(
        &self,
        stamp: Stamp<'_>,
        begun: Moment,
        sent: Instant,
        now: Moment,
    ) -> Option<Duration> {
        self.witness.hear(stamp.clock_us, begun, now);
        if self
            .marker
            .as_ref()
            .is_some_and(|marker| marker.as_str() != stamp.marker)
        {
            self.witness.wiped();
            // The next connection marks the memory anew.
            self.replace();
        }
        self.witness.doubted_since(sent)
    }

    /// What a fencing token must be above, for all that the master may have forgotten.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
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
