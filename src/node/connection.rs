//! A live connection to a master, and the count of deadlines that the master missed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::trust::clock_check::ClockCheck;
use super::trust::master_clock::MasterClock;
use super::{Answer, BACKLOG, By, ChannelForm, Inbox, ReplyTo, Wire};
use crate::admin::capabilities::Capabilities;
use crate::events::{EventObserver, NodeEvents, Op};
use crate::masters::status::NodeConnection;
use crate::protocol::command::{Request, Script};
use crate::protocol::fault::{Fault, FaultClass};
use crate::protocol::reply::Stamp;
use crate::time::clock::{Clock, Moment};

/// Consecutive missed deadlines after which the connection is replaced. So the client notices a healed
/// partition by reconnecting, and not by TCP's growing retransmission timer.
const SILENT_ROUNDS: u32 = 3;
/// Round trips of a set-up, at most.
const SET_UP_TRIPS: u32 = 10;
/// Time for which a master counts as refusing after such an error. Without questions nobody notices that the cause has
/// passed.
const REFUSING: Duration = Duration::from_secs(10);

/// For each master its connection, or the reason why there is none.
pub(crate) type Links = Vec<Result<Arc<Link>, Fault>>;

/// A connection in use.
pub(crate) struct Link {
    wire: Box<dyn Wire>,
    /// Time at which the connection was set up.
    since: Instant,
    recollection: Recollection,
    /// Version and capabilities of the server.
    server: (Arc<str>, Capabilities),
    events: Arc<NodeEvents>,
    /// Round trip of the last answer that carried the master's clock, in nanoseconds.
    round_trip_ns: AtomicU64,
    /// Whether the backlog of releases is so large that calls for new holds are not sent.
    full: Arc<AtomicBool>,
    /// Duration of the set-up.
    set_up: Duration,
    closed: AtomicBool,
    silence: Mutex<Silence>,
    /// Milliseconds from the set-up to the last error that any name would meet, plus one; zero after a vote.
    refused_ms: AtomicU64,
    /// Notified when the answer to a release is overdue.
    pub(super) overdue: Notify,
    /// Round trip of the last answer that came late.
    took: Mutex<Option<Duration>>,
    /// Reason why another connection is to replace this one.
    hang_up: (OnceLock<Box<str>>, Notify),
}

/// Consecutive deadlines that the master missed, without a message in between.
#[derive(Debug, Default)]
struct Silence {
    deadlines: u32,
    /// Time at which the first of these calls was sent. The master had nothing to answer before.
    since: Option<Instant>,
    /// Time of the last missed deadline.
    last: Option<Instant>,
}

/// A master's memory, as the master reported it at the introduction.
pub(super) struct Memory {
    /// Time for which the memory counted then.
    pub(super) age: Duration,
    /// Master's clock then, in microseconds since 1970.
    pub(super) clock_us: u64,
    /// Text of the master's record.
    pub(super) record: Arc<str>,
}

/// A connection's knowledge of its master's memory.
pub(super) struct Recollection {
    /// Time for which the memory counted when the connection was set up.
    pub(super) memory: Duration,
    /// Master's clock then, in microseconds since 1970.
    pub(super) clock_us: u64,
    pub(super) clock: MasterClock,
    /// Text of the master's record, if votes are checked against it.
    pub(super) record: Option<Arc<str>>,
    /// Time for which the memory must count for the master to have a vote.
    pub(super) quarantine: Duration,
    pub(super) clock_check: Arc<ClockCheck>,
}

impl Link {
    /// Wraps a connection; `set_up` is the duration of its set-up.
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
            set_up,
            closed: AtomicBool::new(false),
            silence: Mutex::default(),
            refused_ms: AtomicU64::new(0),
            overdue: Notify::new(),
            took: Mutex::new(None),
            hang_up: Default::default(),
        }
    }

    /// Sends one script call.
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

    /// Whether a large backlog of calls waits for answers, so that releases are better sent in batches.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.wire.waiting() > BACKLOG
    }

    /// Whether any call has no answer yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.wire.waiting() > 0
    }

    /// Moment before the last question that the master has answered with its clock. The grants of the answer count from then.
    pub(super) fn last_asked(&self) -> Moment {
        self.recollection.clock.last_asked()
    }

    /// Time of the last message from the master.
    pub(super) fn last_received(&self) -> Instant {
        self.wire.last_received().unwrap_or(self.since)
    }

    /// Loads a script again.
    pub(crate) fn load(&self, script: &'static Script) -> Inbox {
        self.answered_by(|reply| self.wire.load(script, reply))
    }

    /// Subscribes to a channel if `on`, or unsubscribes from it; answered when the master has confirmed.
    pub(crate) fn listen(&self, on: bool, form: ChannelForm, channel: &str) -> Inbox {
        self.answered_by(|reply| self.wire.listen(on, form, channel, reply))
    }

    fn answered_by(&self, ask: impl FnOnce(ReplyTo)) -> Inbox {
        let (inbox, reply) = Inbox::single();
        match self.closed() {
            Some(fault) => reply.give(Err(fault)),
            None => ask(reply),
        }
        inbox
    }

    /// Time from `now` for which the master has no vote, because it may have forgotten leases; zero if it has
    /// a vote.
    pub(crate) fn quarantine(&self, now: Instant) -> Duration {
        self.memory_quarantine(now).max(self.clock_quarantine(now))
    }

    /// Time for which the master has no vote because its clock stepped.
    pub(crate) fn clock_quarantine(&self, now: Instant) -> Duration {
        self.recollection.clock_check.clock_quarantine(now)
    }

    /// Time for which the master has no vote because its memory does not count for long enough, or was wiped.
    pub(crate) fn memory_quarantine(&self, now: Instant) -> Duration {
        let known = &self.recollection;
        let forgotten = known.clock_check.memory_quarantine(now);
        let missing = known.quarantine.saturating_sub(known.memory);
        if missing.is_zero() {
            return forgotten;
        }
        let remaining = missing.saturating_sub(now.saturating_duration_since(self.since));
        remaining.max(forgotten)
    }

    /// Notes a round trip, in nanoseconds.
    pub(crate) fn took_ns(&self, ns: u64) {
        self.round_trip_ns.store(ns, Ordering::Relaxed);
    }

    /// Notes a round trip from `sent` to the last message, for an answer that may be looked at long after it came.
    pub(crate) fn took_until_received(&self, sent: Instant) {
        let took = self.last_received().saturating_duration_since(sent);
        self.took_ns(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes in the stamp of an answer that came at `now`, to a request that was not sent before `begun`.
    pub(crate) fn observe(&self, stamp: Stamp<'_>, begun: Moment, now: Moment) {
        let known = &self.recollection;
        known.clock.observe(stamp.clock_us, now);
        known.clock.answered(begun);
        self.check_stamp(stamp, begun, now);
    }

    /// Looks in a stamp for a step of the master's clock, and for a wiped memory. A late answer tells of both, too, although
    /// its clock is too old to be taken in.
    pub(crate) fn check_stamp(&self, stamp: Stamp<'_>, begun: Moment, now: Moment) {
        let known = &self.recollection;
        known.clock_check.observe(stamp.clock_us, begun, now);
        let is_wiped = |(known, seen): (&Arc<str>, &str)| **known != *seen;
        if known.record.as_ref().zip(stamp.record).is_some_and(is_wiped) {
            known.clock_check.wiped();
            // The next connection has the master record that its memory counts from now on.
            self.replace("its memory was wiped");
        }
    }

    /// Takes in the master's clock from an answer that is no vote.
    pub(crate) fn observe_clock(&self, clock_us: u64, now: Moment) {
        self.recollection.clock.observe(clock_us, now);
    }

    /// Master's clock at `now`, in microseconds since 1970.
    pub(crate) fn clock_us(&self, now: Moment) -> u64 {
        self.recollection.clock.shows_us(now)
    }

    /// Time for which the master still has no vote, if a step of its clock was noticed at `sent` or later.
    pub(crate) fn suspected_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.clock_check.suspected_since(sent)
    }

    /// Time for which the master still has no vote, if a wipe of its memory was noticed at `sent` or later.
    pub(crate) fn wiped_since(&self, sent: Instant) -> Option<Duration> {
        self.recollection.clock_check.wiped_since(sent)
    }

    /// Number that a fencing token must exceed. The master may have forgotten tokens from before its memory
    /// counts. All of them are below this number, if the clocks of clients are at most half a quarantine
    /// ahead.
    pub(crate) fn floor(&self) -> u64 {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let known = &self.recollection;
        let since = known.clock_us.saturating_sub(us(known.memory));
        since.saturating_add(us(known.quarantine))
    }

    /// Notes that a call sent at `sent` had no answer by its deadline.
    /// - The deadline does not count if another message came after `sent`: the master is slow, and not gone.
    /// - Calls that were under way together count once: a short delay under load is not a dead connection.
    pub(crate) fn note_missed_deadline(&self, sent: Instant) {
        let mut silence = self.silence.lock();
        let came_since = |time| self.wire.last_received().is_some_and(|received| received >= time);
        let is_slow = came_since(sent);
        if is_slow || silence.last.is_some_and(came_since) {
            *silence = Silence::default();
        }
        if is_slow || silence.last.is_some_and(|last| sent < last) {
            return;
        }
        let now = Instant::now();
        silence.deadlines += 1;
        silence.last = Some(now);
        let begun = self.last_received().max(*silence.since.get_or_insert(sent));
        self.events.has_changed();
        if silence.deadlines >= SILENT_ROUNDS && now.duration_since(begun) >= self.patience() {
            self.replace("no answer");
        }
    }

    /// Silence after which the master counts as dead. It grows with the set-up time: a distant master takes several times as
    /// long, and is not dead. A master that was only slow for a moment, such as that of its start, answers faster by now.
    pub(super) fn patience(&self) -> Duration {
        2 * self.set_up.min(self.round_trip() * SET_UP_TRIPS)
    }

    fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip_ns.load(Ordering::Relaxed))
    }

    /// Whether the master has missed a deadline, and sent nothing since.
    pub(crate) fn is_silent(&self) -> bool {
        let silence = self.silence.lock();
        silence.last.is_some_and(|last| self.last_received() < last)
    }

    /// Last round trip of a master that is well: it has a vote, does not refuse, and is neither silent nor behind with
    /// pending releases.
    pub(crate) fn round_trip_if_well(&self, now: Instant) -> Option<Duration> {
        let is_well = self.quarantine(now).is_zero()
            && !self.is_silent()
            && !self.is_refusing(now)
            && !self.full.load(Ordering::Relaxed)
            && !self.is_closed();
        is_well.then(|| self.round_trip())
    }

    /// Notes that a release has no answer. The master may not be sent any other call for long, so its silence
    /// has to be checked.
    pub(crate) fn note_unanswered_release(&self) {
        self.overdue.notify_one();
    }

    /// Notes a late answer to a call that was sent at `sent`.
    pub(crate) fn took(&self, op: Op, sent: Instant) {
        self.events.meters.answered(op, sent);
        *self.took.lock() = Some(sent.elapsed());
    }

    /// Round trip of the last answer that came late.
    pub(crate) fn last_took(&self) -> Option<Duration> {
        *self.took.lock()
    }

    /// Status of the master.
    pub(super) fn status(&self, clock: Clock) -> NodeConnection {
        let now = Instant::now();
        let (version, capabilities) = self.server.clone();
        let ahead = i128::from(self.clock_us(clock.now())) - i128::from(clock.wall_us());
        NodeConnection {
            version,
            capabilities,
            round_trip: self.round_trip(),
            is_silent: self.is_silent(),
            is_refusing: self.is_refusing(now),
            quarantine: self.quarantine(now),
            clock_offset_us: i64::try_from(ahead).unwrap_or(i64::MAX),
        }
    }

    /// Reacts to an answer that reports a change of the server itself. `is_vote` tells whether the question was for a grant.
    pub(crate) fn react_to(&self, answer: &Answer, is_vote: bool) {
        match answer {
            Ok(_) if is_vote && self.refused_ms.load(Ordering::Relaxed) != 0 => {
                self.refused_ms.store(0, Ordering::Relaxed);
                self.events.has_changed();
            }
            // The role has changed, or the server no longer knows the user: the next connection checks the role and logs in.
            Err(Fault::Server(FaultClass::NotMaster | FaultClass::LoggedOut, error)) => self.replace(error),
            Err(fault) if fault.meets_any_name(is_vote) => {
                let ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
                if self.refused_ms.swap(ms.saturating_add(1), Ordering::Relaxed) == 0 {
                    self.events.has_changed();
                }
            }
            _ => {}
        }
    }

    /// Whether the master has answered the last question for a grant with an error that any name would meet, not long ago.
    pub(crate) fn is_refusing(&self, now: Instant) -> bool {
        let refused = self.refused_ms.load(Ordering::Relaxed).checked_sub(1);
        refused.is_some_and(|ms| {
            now.saturating_duration_since(self.since + Duration::from_millis(ms)) < REFUSING
        })
    }

    /// Asks the keeper to replace this connection.
    pub(super) fn replace(&self, reason: &str) {
        // The first reason counts.
        let _ = self.hang_up.0.set(reason.into());
        self.hang_up.1.notify_one();
    }

    /// Resolves with the reason, once the connection is to be replaced.
    pub(super) async fn replacement_wanted(&self) -> &str {
        self.hang_up.1.notified().await;
        self.hang_up.0.get().map_or("", |reason| reason)
    }

    /// Makes all further calls answer *not sent*.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn closed(&self) -> Option<Fault> {
        self.is_closed()
            .then(|| Fault::NotSent("connection closed".into()))
    }

    /// Whether the connection is no longer in use. An answer that is looked at after that grants nothing: another server may
    /// be trusted at this address by now, with a memory from before the answer. The order with the note of the question
    /// (`observe`) is total, so either that decision takes the question into account, or the answer is void.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;
    use crate::masters::config::Config;
    use crate::protocol::lease_timing::LeaseTiming;
    use crate::time::steps::Steps;

    pub(in crate::node) const NODE_TIMEOUT: Duration = Duration::from_millis(50);

    /// Calls to a master that answers none of them.
    pub(in crate::node) type Calls = Arc<Mutex<Vec<ReplyTo>>>;

    struct SilentWire(Calls);

    impl Wire for SilentWire {
        fn call(&self, _: &Request, _: By, reply: ReplyTo) {
            self.0.lock().push(reply);
        }

        fn load(&self, _: &'static Script, _: ReplyTo) {}

        fn listen(&self, _: bool, _: ChannelForm, _: &str, _: ReplyTo) {}

        fn waiting(&self) -> usize {
            self.0.lock().len()
        }

        fn last_received(&self) -> Option<Instant> {
            None
        }
    }

    pub(in crate::node) fn link_to(calls: &Calls, set_up: Duration) -> Arc<Link> {
        let events = Arc::new(NodeEvents::new("one".into(), Arc::default()));
        let timing = LeaseTiming::new(&Config::default());
        let clock_check = ClockCheck::new(Arc::clone(&events), timing, Arc::new(Steps::new(1)));
        let recollection = Recollection {
            memory: timing.quarantine,
            clock_us: 0,
            clock: MasterClock::new(0, Clock::tokio(0).now()),
            record: None,
            quarantine: timing.quarantine,
            clock_check: Arc::new(clock_check),
        };
        let wire = Box::new(SilentWire(Arc::clone(calls)));
        let server = ("7.0.0".into(), Capabilities::ALL);
        let link = Link::new(wire, recollection, server, set_up, &events, &Arc::default());
        Arc::new(link)
    }

    fn is_given_up(link: &Link) -> bool {
        link.replacement_wanted().now_or_never() == Some("no answer")
    }

    /// A short delay under load is not a dead connection.
    #[tokio::test(start_paused = true)]
    async fn calls_that_were_under_way_together_miss_one_deadline() {
        let link = link_to(&Calls::default(), Duration::ZERO);
        let sent = Instant::now();
        advance(NODE_TIMEOUT).await;
        (0..SILENT_ROUNDS).for_each(|_| link.note_missed_deadline(sent));
        assert!(link.is_silent() && !is_given_up(&link));
        for _ in 1..SILENT_ROUNDS {
            let sent = Instant::now();
            advance(NODE_TIMEOUT).await;
            link.note_missed_deadline(sent);
        }
        assert!(is_given_up(&link));
    }

    #[tokio::test(start_paused = true)]
    async fn a_distant_master_has_more_time() {
        let link = link_to(&Calls::default(), Duration::from_secs(1));
        let missed = async |times: u32| {
            for _ in 0..times {
                let sent = Instant::now();
                advance(NODE_TIMEOUT).await;
                link.note_missed_deadline(sent);
            }
        };
        missed(39).await;
        assert!(!is_given_up(&link), "less than twice its set-up has passed");
        missed(1).await;
        assert!(is_given_up(&link));
    }
}
