//! State of one waiter in this process: the calls for it, its places in queues, and whether its task is polled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::messages::{MessageCounts, Messages};
use crate::protocol::node_set::NodeSet;
use crate::protocol::waiter::WaiterCall;
use crate::time::until::until;

/// Waiters with tasks that have to be polled in time, by the time of the next check of each, and by number. A waiter has one
/// entry at most. Its check is due when its task has to be polled, or earlier, as a later deadline does not move the entry.
#[derive(Debug, Default)]
pub(super) struct PollDeadlines {
    waiters: Mutex<BTreeMap<(Instant, u64), Weak<WaiterState>>>,
    /// Notified when the first entry changes.
    changed: Notify,
}

/// State of one waiter in this process: the calls for it, its places in queues, whether its task is polled, and whether its
/// wait is over.
pub(crate) struct WaiterState {
    pub(crate) number: u64,
    /// Calls from the masters.
    pub(crate) messages: Messages,
    /// For a permit, the seat that each master has named last; 0 for none.
    seats: Mutex<SmallVec<[u8; 8]>>,
    /// Names of calls since the waiter asked for the name last.
    names: Mutex<Vec<Box<str>>>,
    /// Time at which the waiter is to ask, by the masters' messages since it asked last.
    alarm: Mutex<Option<Instant>>,
    /// Masters on which the waiter may be in a queue, as the bits of a [`NodeSet`].
    places: AtomicU64,
    /// Whether the wait is over, with or without a hold.
    is_over: AtomicBool,
    absence: Mutex<Absence>,
    deadlines: Arc<PollDeadlines>,
}

/// Reaction to a waiter with a task that is not polled in time.
#[derive(Default)]
struct Absence {
    /// Time that the task may take after it is woken; without it there is no reaction.
    allowed: Option<Duration>,
    /// Time by which the task has to be polled, if it has a turn or a hold, or may be called.
    until: Option<Instant>,
    /// Time at which its question is answered at the latest, while it asks, or at which it wakes, while it sleeps through calls.
    /// A call does not wake it earlier.
    ignores_calls_until: Option<Instant>,
    /// Time of the waiter's entry in [`PollDeadlines`].
    next_check: Option<Instant>,
    handler: Option<Arc<AbsenceHandler>>,
}

type AbsenceHandler = dyn Fn(&Arc<WaiterState>) + Send + Sync;

impl PollDeadlines {
    /// Resolves with a waiter whose task was not polled in time.
    pub(super) async fn missed(&self) -> Arc<WaiterState> {
        loop {
            let next = self.waiters.lock().first_key_value().map(|(entry, _)| *entry);
            let Some(entry) = next else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = sleep_until(entry.0) => {}
                () = self.changed.notified() => continue,
            }
            let state = self.waiters.lock().remove(&entry);
            if let Some(state) = state.and_then(|state| state.upgrade())
                && state.is_absent()
            {
                return state;
            }
        }
    }
}

impl WaiterState {
    pub(super) fn new(number: u64, nodes: usize, deadlines: &Arc<PollDeadlines>) -> Self {
        Self {
            number,
            messages: Messages::new(nodes),
            seats: Mutex::default(),
            names: Mutex::default(),
            alarm: Mutex::default(),
            places: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            absence: Mutex::default(),
            deadlines: Arc::clone(deadlines),
        }
    }

    /// Takes in a call from a master.
    pub(super) fn called(self: &Arc<Self>, node: usize, call: WaiterCall<'_>) {
        let now = Instant::now();
        match call.later {
            None => {
                match call.seat {
                    Some(seat) => self.note_seat(node, seat),
                    None => self.called_for(call.name),
                }
                self.messages.count(node);
            }
            Some(later) => self.ask_at(now + later),
        }
        // A poll on another thread resets the deadline. The call is stored first, so that such a poll sees it. The task is notified
        // last, as it may rest again at once, with a deadline of its own.
        if self.may_be_queued() {
            self.wakes_by(now + call.later.unwrap_or_default());
        }
        self.messages.news.notify_waiters();
    }

    /// Notes that a master would let the waiter in now, as an answer tells.
    pub(crate) fn open(&self, node: usize) {
        self.messages.came(node);
    }

    fn called_for(&self, name: &str) {
        let mut names = self.names.lock();
        if !names.iter().any(|other| **other == *name) {
            names.push(name.into());
        }
    }

    fn note_seat(&self, node: usize, seat: u8) {
        let mut seats = self.seats.lock();
        seats.resize(self.messages.nodes(), 0);
        seats[node] = seat;
    }

    /// Takes the seat that most masters have named since the last time. Of several, that of the first master: no other
    /// waiter has the same from it.
    pub(crate) fn take_seat(&self) -> Option<u8> {
        let seats = std::mem::take(&mut *self.seats.lock());
        most_frequent(&seats).map(|(seat, _)| seat)
    }

    /// Whether masters have named different seats, without a quorum for one of them, and others may still name one. Masters
    /// that see two releases in different orders name different seats to a waiter, and two waiters that ask for the same seat
    /// lose a round.
    pub(crate) fn seats_differ(&self, needed: usize) -> bool {
        let seats = self.seats.lock();
        let named = seats.iter().filter(|seat| **seat > 0).count();
        named < seats.len() && most_frequent(&seats).is_some_and(|(_, times)| times < named.min(needed))
    }

    /// Waits while [`seats_differ`](Self::seats_differ).
    pub(crate) async fn seats_agree(&self, needed: usize) {
        until(&self.messages.news, || (!self.seats_differ(needed)).then_some(())).await;
    }

    fn ask_at(&self, at: Instant) {
        let mut alarm = self.alarm.lock();
        *alarm = Some(alarm.map_or(at, |before| before.min(at)));
    }

    /// Time at which the waiter is to ask, if a master set one.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        *self.alarm.lock()
    }

    /// Calls by now. The waiter is about to ask, so the time of an earlier message no longer matters.
    pub(crate) fn snapshot(&self) -> MessageCounts {
        *self.alarm.lock() = None;
        self.messages.by_now()
    }

    /// Takes the names of the calls since the last time.
    pub(crate) fn take_names(&self) -> Vec<Box<str>> {
        std::mem::take(&mut *self.names.lock())
    }

    /// Sets the `handler` that runs if the waiter's task is not polled within `allowed` of the time at which it wakes. With
    /// `wakes_by` the task may be asking, and wakes by then. The first handler stays.
    pub(crate) fn on_absence(
        self: &Arc<Self>,
        allowed: Duration,
        wakes_by: Option<Instant>,
        handler: impl Fn(&Arc<Self>) + Send + Sync + 'static,
    ) {
        let mut absence = self.absence.lock();
        if absence.handler.is_none() && !self.is_over() {
            absence.allowed = Some(allowed);
            absence.handler = Some(Arc::new(handler));
            if let Some(at) = wakes_by {
                self.set_deadline(&mut absence, at);
            }
        }
    }

    /// Whether there is a handler for the waiter's absence.
    pub(crate) fn watches_absence(&self) -> bool {
        self.absence.lock().handler.is_some()
    }

    /// Notes that the waiter's task is woken.
    pub(crate) fn woken(self: &Arc<Self>) {
        self.wakes_by(Instant::now());
    }

    /// Notes that the waiter's task is polled, and wakes at a time, or earlier if masters call it.
    pub(crate) fn rests_until(self: &Arc<Self>, at: Instant) {
        let mut absence = self.absence.lock();
        absence.polled();
        let at = self.alarm().map_or(at, |alarm| alarm.min(at));
        self.set_deadline(&mut absence, at);
    }

    /// Notes that the waiter's task is polled, and that a call does not wake it before a time at the latest: it asks, or sleeps
    /// for another reason. So a waiter that some master still has in its queue is not taken for one whose task is not polled.
    pub(crate) fn ignores_calls_until(self: &Arc<Self>, at: Instant) {
        let mut absence = self.absence.lock();
        absence.polled();
        absence.ignores_calls_until = Some(at);
        self.set_deadline(&mut absence, at);
    }

    /// Notes that the waiter's task is woken at a time, or earlier if that is known already.
    pub(crate) fn wakes_by(self: &Arc<Self>, at: Instant) {
        let mut absence = self.absence.lock();
        let at = absence.ignores_calls_until.map_or(at, |until| until.max(at));
        self.set_deadline(&mut absence, at);
    }

    fn set_deadline(self: &Arc<Self>, absence: &mut Absence, at: Instant) {
        let Some(allowed) = absence.allowed else { return };
        let until = absence
            .until
            .map_or(at + allowed, |before| before.min(at + allowed));
        absence.until = Some(until);
        self.check_at(absence, until);
    }

    /// Enters the next check of the waiter, unless an earlier one is due.
    fn check_at(self: &Arc<Self>, absence: &mut Absence, at: Instant) {
        if absence.next_check.is_some_and(|before| before <= at) {
            return;
        }
        let mut waiters = self.deadlines.waiters.lock();
        if let Some(before) = absence.next_check.replace(at) {
            waiters.remove(&(before, self.number));
        }
        waiters.insert((at, self.number), Arc::downgrade(self));
        if waiters
            .first_key_value()
            .is_some_and(|((first, _), _)| *first == at)
        {
            self.deadlines.changed.notify_one();
        }
    }

    /// Whether the waiter's task was not polled in time. If it still has time, it is checked again.
    fn is_absent(self: &Arc<Self>) -> bool {
        let mut absence = self.absence.lock();
        absence.next_check = None;
        match absence.until {
            Some(until) if until > Instant::now() => {
                self.check_at(&mut absence, until);
                false
            }
            until => until.is_some(),
        }
    }

    /// Notes that the waiter's task was polled, and that nothing depends on it.
    pub(crate) fn present(&self) {
        self.absence.lock().polled();
    }

    /// Runs the handler that gives up the waiter's turn, because its task was not polled in time.
    pub(crate) fn handle_absence(self: &Arc<Self>) {
        let mut absence = self.absence.lock();
        absence.polled();
        let handler = absence.handler.clone();
        // The handler takes locks of its own.
        drop(absence);
        if let Some(handler) = handler {
            handler(self);
        }
    }

    /// Notes masters on which the waiter may be in a queue from now on.
    pub(crate) fn note_queued(&self, places: NodeSet) {
        self.places.fetch_or(places.bits(), Ordering::SeqCst);
    }

    /// Whether the waiter may be in a queue.
    pub(crate) fn may_be_queued(&self) -> bool {
        self.places.load(Ordering::SeqCst) != 0
    }

    /// Ends the wait. Returns the masters on which the waiter may still be in a queue.
    pub(crate) fn end(&self) -> NodeSet {
        self.is_over.store(true, Ordering::SeqCst);
        // The handler owns data of waiters, so it is dropped without the lock.
        let absence = std::mem::take(&mut *self.absence.lock());
        if let Some(at) = absence.next_check {
            self.deadlines.waiters.lock().remove(&(at, self.number));
        }
        drop(absence);
        self.take_places()
    }

    /// Takes the masters on which the waiter may be in a queue, before it withdraws from all of them.
    pub(crate) fn take_places(&self) -> NodeSet {
        NodeSet::from_bits(self.places.swap(0, Ordering::SeqCst))
    }

    /// Notes that a master was not asked to take the waiter out, or was asked before a call that puts it into
    /// a queue. Returns whether the caller has to report the waiter, because the wait is over.
    pub(crate) fn note_still_queued(&self, node: usize) -> bool {
        let place = NodeSet::one(node);
        // The place is stored before the check: a task that ends the wait meanwhile sees it, and reports the
        // waiter.
        self.note_queued(place);
        let is_over = self.is_over();
        is_over && self.places.fetch_and(!place.bits(), Ordering::SeqCst) & place.bits() != 0
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

impl Absence {
    /// Forgets what the task was to be polled for.
    fn polled(&mut self) {
        (self.until, self.ignores_calls_until) = (None, None);
    }
}

/// The seat that most masters name, and the number of these. Of several seats, that of the first master. 0 is no seat.
fn most_frequent(seats: &[u8]) -> Option<(u8, usize)> {
    let times = |seat: u8| {
        seats
            .iter()
            .map(|other| usize::from(*other == seat))
            .sum::<usize>()
    };
    let named = seats.iter().rev().filter(|seat| **seat > 0);
    named
        .map(|seat| (*seat, times(*seat)))
        .max_by_key(|(_, times)| *times)
}
