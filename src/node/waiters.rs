//! The waiters of this process, by their numbers, and the calls that have come for them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep_until};

use crate::protocol::node_set::NodeSet;
use crate::protocol::waiter::{Waiter, WaiterCall};

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Arc<Calls>>>,
    woken: Arc<Woken>,
}

/// Waiters that were woken, by when their tasks have to be polled, in this order.
#[derive(Debug, Default)]
struct Woken {
    waiters: Mutex<VecDeque<(Instant, Weak<Calls>)>>,
    more: Notify,
}

/// What has come for one waiter.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) number: u64,
    /// Calls from each master.
    heard: SmallVec<[AtomicU32; 8]>,
    /// The names that have called and have not been asked about since.
    names: Mutex<Vec<Box<str>>>,
    /// When it is to ask, by what masters have told since it asked last.
    alarm: Mutex<Option<Instant>>,
    /// Times that listening was interrupted, so that calls may have been missed.
    interruptions: AtomicU32,
    notify: Notify,
    /// Masters where it may be found in a queue, as the bits of a [`NodeSet`].
    places: AtomicU64,
    /// Whether it has given up, or has got what it wanted.
    is_over: AtomicBool,
    absence: Mutex<Absence>,
    woken: Arc<Woken>,
}

/// What is done where a waiter is woken and its task is not polled in time.
#[derive(Default)]
struct Absence {
    /// How long the task may take; nothing is done without.
    allowed: Option<Duration>,
    /// By when it has to be polled, if it was woken and has not been polled since.
    until: Option<Instant>,
    handler: Option<Arc<AbsenceHandler>>,
}

type AbsenceHandler = dyn Fn(&Arc<Calls>) + Send + Sync;

/// A waiter that has ended its wait, and that a master may still keep in the queue of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaleWaiter {
    pub(crate) number: u64,
    pub(crate) reads: bool,
    pub(crate) name: Box<str>,
}

/// What had come at some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    calls: SmallVec<[u32; 8]>,
    interruptions: u32,
}

impl StaleWaiter {
    /// One that has ended its wait, and may be found in the queue of a name.
    pub(crate) fn of(waiter: &Waiter, name: &str) -> Self {
        Self {
            number: waiter.number,
            reads: waiter.reads,
            name: name.into(),
        }
    }
}

impl Waiters {
    /// A waiter with a number that was never used before.
    pub(crate) fn join(&self, nodes: usize) -> Arc<Calls> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let calls = Arc::new(Calls {
            number,
            heard: (0..nodes).map(|_| AtomicU32::new(0)).collect(),
            names: Mutex::default(),
            alarm: Mutex::default(),
            interruptions: AtomicU32::new(0),
            notify: Notify::new(),
            places: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            absence: Mutex::default(),
            woken: Arc::clone(&self.woken),
        });
        self.waiting().insert(number, Arc::clone(&calls));
        calls
    }

    pub(crate) fn leave(&self, number: u64) {
        self.waiting().remove(&number);
    }

    /// A call has come from a master: whoever it is for, if that one does not wait any more.
    pub(crate) fn call(&self, node: usize, call: WaiterCall<'_>) -> Option<StaleWaiter> {
        let Some(calls) = self.waiting().get(&call.number).cloned() else {
            return Some(StaleWaiter {
                number: call.number,
                reads: call.reads,
                name: call.name.into(),
            });
        };
        match call.later {
            None => {
                calls.called_for(call.name);
                calls.open(node);
                if calls.stands() {
                    calls.woken();
                }
            }
            Some(later) => calls.ask_in(later),
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Resolves with a waiter that was woken, and whose task was not polled in time.
    ///
    /// # Cancel safety
    ///
    /// No waiter is missed.
    pub(crate) async fn absent(&self) -> Arc<Calls> {
        loop {
            let next = lock(&self.woken.waiters).front().map(|(until, _)| *until);
            let Some(until) = next else {
                self.woken.more.notified().await;
                continue;
            };
            sleep_until(until).await;
            let woken = lock(&self.woken.waiters).pop_front();
            let calls = woken.and_then(|(until, calls)| Some((until, calls.upgrade()?)));
            if let Some((until, calls)) = calls
                && lock(&calls.absence).until == Some(until)
            {
                return calls;
            }
        }
    }

    /// Some calls may have been missed: everybody should ask.
    pub(crate) fn interrupt(&self) {
        self.waiting().values().for_each(|calls| calls.interrupt());
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Calls>>> {
        lock(&self.waiting)
    }
}

impl Calls {
    /// A master would let it in now, by a call or by what is known otherwise.
    pub(crate) fn open(&self, node: usize) {
        self.heard[node].fetch_add(1, Ordering::Relaxed);
        self.notify.notify_waiters();
    }

    /// Some calls may have been missed: it should ask.
    pub(crate) fn interrupt(&self) {
        self.interruptions.fetch_add(1, Ordering::Relaxed);
        self.notify.notify_waiters();
    }

    fn called_for(&self, name: &str) {
        let mut names = lock(&self.names);
        if !names.iter().any(|other| **other == *name) {
            names.push(name.into());
        }
    }

    fn ask_in(&self, later: Duration) {
        let at = Instant::now() + later;
        let mut alarm = lock(&self.alarm);
        *alarm = Some(alarm.map_or(at, |before| before.min(at)));
        drop(alarm);
        self.notify.notify_waiters();
    }

    /// When it is to ask, if it was told.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        *lock(&self.alarm)
    }

    /// What has come by now; it asks anew, so what it was told before does not matter.
    pub(crate) fn heard(&self) -> Heard {
        *lock(&self.alarm) = None;
        let calls = self.heard.iter();
        Heard {
            calls: calls.map(|count| count.load(Ordering::Relaxed)).collect(),
            interruptions: self.interruptions.load(Ordering::Relaxed),
        }
    }

    /// Whether a master has called since.
    pub(crate) fn called_since(&self, node: usize, since: &Heard) -> bool {
        self.heard[node].load(Ordering::Relaxed) != since.calls[node]
    }

    /// Whether calls may have been missed since.
    pub(crate) fn interrupted_since(&self, since: &Heard) -> bool {
        self.interruptions.load(Ordering::Relaxed) != since.interruptions
    }

    /// The names that have called since this was asked last.
    pub(crate) fn take_names(&self) -> Vec<Box<str>> {
        std::mem::take(&mut *lock(&self.names))
    }

    /// Notified of everything that comes from the moment when it is enabled.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.notify.notified()
    }

    /// From here on `handler` is called once it was woken, and its task was not polled within `allowed`. The time is the
    /// same for all waiters of a client.
    pub(crate) fn on_absence(&self, allowed: Duration, handler: impl Fn(&Arc<Self>) + Send + Sync + 'static) {
        let mut absence = lock(&self.absence);
        absence.allowed = Some(allowed);
        absence.handler = Some(Arc::new(handler));
    }

    /// Whether there is a handler for its absence.
    pub(crate) fn minds_absence(&self) -> bool {
        lock(&self.absence).handler.is_some()
    }

    /// Something has come for which its task has to be polled.
    pub(crate) fn woken(self: &Arc<Self>) {
        let mut absence = lock(&self.absence);
        let (Some(allowed), None) = (absence.allowed, absence.until) else {
            return;
        };
        let until = Instant::now() + allowed;
        absence.until = Some(until);
        drop(absence);
        let mut waiters = lock(&self.woken.waiters);
        waiters.push_back((until, Arc::downgrade(self)));
        if waiters.len() == 1 {
            self.woken.more.notify_one();
        }
    }

    /// Its task was polled.
    pub(crate) fn present(&self) {
        lock(&self.absence).until = None;
    }

    /// Gives up its turn, as its task was not polled in time.
    pub(crate) fn leave_for_absence(self: &Arc<Self>) {
        let mut absence = lock(&self.absence);
        absence.until = None;
        let handler = absence.handler.clone();
        // It takes locks of its own.
        drop(absence);
        if let Some(handler) = handler {
            handler(self);
        }
    }

    /// From here on it may be found in the queues there.
    pub(crate) fn stand(&self, places: NodeSet) {
        self.places.fetch_or(places.bits(), Ordering::SeqCst);
    }

    /// Whether it may be found in a queue.
    pub(crate) fn stands(&self) -> bool {
        self.places.load(Ordering::SeqCst) != 0
    }

    /// Ends the wait. Returns the masters where it may still be found in a queue.
    pub(crate) fn end(&self) -> NodeSet {
        // It holds what waiters hold.
        let absence = std::mem::take(&mut *lock(&self.absence));
        drop(absence);
        self.is_over.store(true, Ordering::SeqCst);
        self.left()
    }

    /// It is about to leave all queues. Returns the masters where it may be found in one.
    pub(crate) fn left(&self) -> NodeSet {
        NodeSet::from_bits(self.places.swap(0, Ordering::SeqCst))
    }

    /// A master was not told that the waiter leaves, or was told before something that puts it into a queue. Returns whether
    /// the caller has to tell it: the wait is over.
    pub(crate) fn still_stands(&self, node: usize) -> bool {
        let mut place = NodeSet::default();
        place.insert(node);
        // First the place, then the look: whoever ends the wait meanwhile sees to it.
        self.stand(place);
        let is_over = self.is_over();
        is_over && self.places.fetch_and(!place.bits(), Ordering::SeqCst) & place.bits() != 0
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absence")
            .field("allowed", &self.allowed)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_finds_its_waiter_or_is_a_stray() {
        let waiters = Waiters::default();
        let (one, two) = (waiters.join(3), waiters.join(3));
        let before = one.heard();
        let call = |number| WaiterCall {
            number,
            reads: false,
            later: None,
            name: "a",
        };
        assert_eq!(waiters.call(1, call(one.number)), None);
        assert!(one.called_since(1, &before) && !one.called_since(0, &before));
        assert!(!two.called_since(1, &before));
        assert_eq!((one.take_names(), one.take_names()), (vec!["a".into()], vec![]));
        waiters.interrupt();
        assert!(two.interrupted_since(&before));
        waiters.leave(one.number);
        let stale = StaleWaiter {
            number: one.number,
            reads: false,
            name: "a".into(),
        };
        assert_eq!(waiters.call(1, call(one.number)), Some(stale));
    }

    #[test]
    fn whoever_leaves_last_knows_whether_it_stands() {
        let calls = Waiters::default().join(2);
        let first = NodeSet::from_bits(1);
        assert!(!calls.still_stands(0), "whoever ends it sees to it");
        assert!(!calls.is_over() && calls.end() == first);
        assert!(calls.still_stands(0) && calls.left() == NodeSet::default());
        calls.stand(first);
        assert!(calls.is_over() && calls.end() == first);
        assert_eq!(calls.end(), NodeSet::default());
    }
}
