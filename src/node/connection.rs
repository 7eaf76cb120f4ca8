//! A live connection to a master, and the count of how often it kept silent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::trust::clock_check::ClockCheck;
use super::trust::master_clock::MasterClock;
use super::{Answer, BACKLOG, By, Inbox, ReplyTo, Wire};
use crate::admin::capabilities::Capabilities;
use crate::events::{EventObserver, NodeEvents, Op};
use crate::masters::status::NodeConnection;
use crate::protocol::command::{Request, Script};
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::reply::Stamp;
use crate::time::clock::{Clock, Moment};

/// Deadlines missed in a row, one after the other, after which the connection is replaced. A healed
/// partition is then noticed by reconnecting instead of by TCP's growing retransmission timer.
const SILENT_ROUNDS: u32 = 3;

/// One a master: its connection, or why there is none.
pub(crate) type Links = Vec<Result<Arc<Link>, Fault>>;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Link {
    wire: Box<dyn Wire>,
    /// When it was set up.
    since: Instant,
    recollection: Recollection,
    /// The server's version, and what it can do.
    server: (Arc<str>, Capabilities),
    events: Arc<NodeEvents>,
    /// What the last answer took that told the master's clock, in nanoseconds.
    round_trip_ns: AtomicU64,
    /// So much is owed to the master that nothing may be added to it.
    full: Arc<AtomicBool>,
    /// A master that is far takes several times as long to set up, and is not dead for being silent so long.
    patience: Duration,
    closed: AtomicBool,
    silence: Mutex<Silence>,
    /// Rings when the answer to a release is overdue.
    overdue: Notify,
    /// How long the last answer took that came late.
    took: Mutex<Option<Duration>>,
    /// Why another connection is to take its place.
    hang_up: (OnceLock<Box<str>>, Notify),
}

/// Deadlines that the master missed in a row, without a sign of life.
#[derive(Debug, Default)]
struct Silence {
    deadlines: u32,
    /// When the last one passed.
    last: Option<Instant>,
}

/// What a master remembers, as it told when the client introduced itself.
pub(super) struct Memory {
    /// For how long it counted then.
    pub(super) age: Duration,
    /// What the master's clock showed then, in microseconds since 1970.
    pub(super) clock_us: u64,
    /// Text of its record.
    pub(super) record: Arc<str>,
}

/// What a connection knows of its master's memory.
#[derive(Debug)]
pub(super) struct Recollection {
    /// How far it reached back when the connection was set up.
    pub(super) memory: Duration,
    /// What the master's clock showed then, in microseconds since 1970.
    pub(super) clock_us: u64,
    pub(super) clock: MasterClock,
    /// What the master's record said, where that is looked at with each vote.
    pub(super) record: Option<Arc<str>>,
    /// How far it must reach back for the master's votes to count.
    pub(super) quarantine: Duration,
    pub(super) clock_check: Arc<ClockCheck>,
}

impl Link {
    /// Over a connection whose set-up took so long.
    pub(super) fn new(
        wire: Box<dyn Wire>,
        recollection: Recollection,
        server: (Arc<str>, Capabilities),
        set_up: Duration,
        events: &Arc<NodeEvents>,
        full: &Arc<AtomicBool>,
    ) -> Self {
        Self {
            wire,
            since: Instant::now(),
            recollection,
            server,
            events: Arc::clone(events),
            round_trip_ns: AtomicU64::new(u64::try_from(set_up.as_nanos()).unwrap_or(u64::MAX)),
            full: Arc::clone(full),
            patience: set_up * 2,
            closed: AtomicBool::new(false),
            silence: Mutex::default(),
            overdue: Notify::new(),
            took: Mutex::new(None),
            hang_up: Default::default(),
        }
    }

    /// One script call.
    pub(crate) fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        match self.closed() {
            Some(fault) => reply.give(Err(fault)),
            None if self.full.load(Ordering::Relaxed) && request.script.leaves_something() => {
                reply.give(Err(Fault::NotSent(
                    "too many releases wait to be sent there".into(),
                )));
            }
            None => self.wire.call(request, by, reply),
        }
    }

    /// Whether so much waits for answers that releases had better go together.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.wire.waiting() > BACKLOG
    }

    /// Whether any call has no answer yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.wire.waiting() > 0
    }

    /// When the master gave a sign of life last.
    pub(super) fn heard(&self) -> Instant {
        self.wire.heard().unwrap_or(self.since)
    }

    /// For how long a master that is well may be silent.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Makes the master know a script again.
    pub(crate) fn load(&self, script: &'static Script) -> Inbox {
        self.answered_by(|reply| self.wire.load(script, reply))
    }

    /// Asks for the messages of some channels; answered when the master has confirmed.
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
        self.memory_quarantine(now).max(self.clock_quarantine(now))
    }

    /// For how much longer it has no vote because its clock was seen to step.
    pub(crate) fn clock_quarantine(&self, now: Instant) -> Duration {
        self.recollection.clock_check.clock_quarantine(now)
    }

    /// For how much longer it has no vote because its memory does not count for long enough, or was wiped.
    pub(crate) fn memory_quarantine(&self, now: Instant) -> Duration {
        let Recollection {
            memory,
            quarantine,
            clock_check,
            ..
        } = &self.recollection;
        let forgotten = clock_check.memory_quarantine(now);
        let missing = quarantine.saturating_sub(*memory);
        if missing.is_zero() {
            return forgotten;
        }
        let remaining = missing.saturating_sub(now.saturating_duration_since(self.since));
        remaining.max(forgotten)
    }

    /// Takes in the stamp of an answer that was heard at `now`, to a request that was not sent before
    /// `begun`.
    pub(crate) fn observe(&self, stamp: Stamp<'_>, begun: Moment, now: Moment) {
        let Recollection {
            record,
            clock_check,
            clock,
            ..
        } = &self.recollection;
        self.round_trip_ns.store(now.ns_since(begun), Ordering::Relaxed);
        clock.hear(stamp.clock_us, now);
        clock_check.hear(stamp.clock_us, begun, now);
        if record.as_ref().is_some_and(|record| **record != *stamp.record) {
            clock_check.wiped();
            // The next connection has the master record anew since when its memory counts.
            self.replace("its memory was wiped");
        }
    }

    /// Takes in what the master's clock shows, beside a vote.
    pub(crate) fn hear_clock(&self, clock_us: u64, now: Moment) {
        self.recollection.clock.hear(clock_us, now);
    }

    /// What the master's clock shows at `now`, in microseconds since 1970.
    pub(crate) fn clock_us(&self, now: Moment) -> u64 {
        self.recollection.clock.shows_us(now)
    }

    /// For how much longer the master has no vote, if its clock was seen at `sent` or later to have
    /// stepped.
    pub(crate) fn suspected_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.clock_check.suspected_since(sent)
    }

    /// The same, if its memory was seen to have been wiped.
    pub(crate) fn wiped_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.clock_check.wiped_since(sent)
    }

    /// What a fencing token must be above: every one that was stored before the master's memory counts, which it
    /// may have forgotten, if the clocks of clients are at most half a quarantine ahead.
    pub(crate) fn floor(&self) -> u64 {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let Recollection {
            memory,
            clock_us,
            quarantine,
            ..
        } = &self.recollection;
        let since = clock_us.saturating_sub(us(*memory));
        since.saturating_add(us(*quarantine))
    }

    /// Notes that a call sent at `sent` got no answer by its deadline. That counts when nothing else was
    /// heard either since it was sent: a master that answers late is there. Calls that were under way
    /// together count once: one hiccup under load is not a dead connection.
    pub(crate) fn kept_silent(&self, sent: Instant) {
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        if self.wire.heard().is_some_and(|heard| heard >= sent) {
            *silence = Silence::default();
            return;
        }
        if silence.last.is_some_and(|last| sent < last) {
            return;
        }
        let now = Instant::now();
        silence.deadlines += 1;
        silence.last = Some(now);
        self.events.kept_silent();
        if silence.deadlines >= SILENT_ROUNDS && now.duration_since(self.heard()) >= self.patience {
            self.replace("no answer");
        }
    }

    /// Whether the master has missed a deadline, and given no sign of life since.
    pub(crate) fn is_silent(&self) -> bool {
        let silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        silence.last.is_some_and(|last| self.heard() < last)
    }

    /// Notes that a release has no answer: nobody may ask this master for anything else for long, and it
    /// is to be known whether it is there.
    pub(crate) fn owes_an_answer(&self) {
        self.overdue.notify_one();
    }

    pub(super) async fn overdue(&self) {
        self.overdue.notified().await;
    }

    /// Notes that an answer came late, to what was asked at `sent`.
    pub(crate) fn took(&self, op: Op, sent: Instant) {
        self.events.answered(op, sent);
        *self.took.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent.elapsed());
    }

    /// How long the last answer took that came late.
    pub(crate) fn last_took(&self) -> Option<Duration> {
        *self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the master now.
    pub(super) fn status(&self, clock: Clock) -> NodeConnection {
        let (version, capabilities) = self.server.clone();
        let ahead = i128::from(self.clock_us(clock.now())) - i128::from(clock.wall_us());
        NodeConnection {
            version,
            capabilities,
            round_trip: Duration::from_nanos(self.round_trip_ns.load(Ordering::Relaxed)),
            is_silent: self.is_silent(),
            quarantine: self.quarantine(Instant::now()),
            clock_offset_us: i64::try_from(ahead).unwrap_or(i64::MAX),
        }
    }

    /// Acts on what an answer says about the server, beside what it says about the request.
    pub(crate) fn react_to(&self, answer: &Answer) {
        // Its role has changed, or it does not know the user any more: the next connection shows its role, and logs in.
        if let Err(Fault::Server { class, error }) = answer
            && matches!(class, FaultClass::NotMaster | FaultClass::LoggedOut)
        {
            self.replace(error);
        }
    }

    /// Asks for another connection in place of this one.
    pub(super) fn replace(&self, reason: &str) {
        // The first reason counts.
        let _ = self.hang_up.0.set(reason.into());
        self.hang_up.1.notify_one();
    }

    /// Resolves with the reason, once another connection is to take the place of this one.
    pub(super) async fn replacement_wanted(&self) -> &str {
        self.hang_up.1.notified().await;
        self.hang_up.0.get().map_or("", |reason| reason)
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
