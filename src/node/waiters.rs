//! The waiters of this process, by their numbers, and the calls that have come for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::protocol::waiter::Call;

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Arc<Calls>>>,
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
    bell: Notify,
    /// Whether it may stand in a queue on some master.
    stands: AtomicBool,
    /// Whether it has given up, or has got what it wanted.
    is_over: AtomicBool,
}

/// Somebody was called who does not wait here any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub(crate) number: u64,
    pub(crate) reads: bool,
    pub(crate) name: Box<str>,
}

/// What had come at some moment.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    calls: SmallVec<[u32; 8]>,
    interruptions: u32,
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
            bell: Notify::new(),
            stands: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        self.waiting().insert(number, Arc::clone(&calls));
        calls
    }

    pub(crate) fn leave(&self, number: u64) {
        self.waiting().remove(&number);
    }

    /// A call has come from a master: whoever it is for, if that one does not wait any more.
    pub(crate) fn call(&self, node: usize, call: Call<'_>) -> Option<Stray> {
        let Some(calls) = self.waiting().get(&call.number).cloned() else {
            return Some(Stray {
                number: call.number,
                reads: call.reads,
                name: call.name.into(),
            });
        };
        match call.later {
            None => {
                calls.called_for(call.name);
                calls.open(node);
            }
            Some(later) => calls.ask_in(later),
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
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
        self.bell.notify_waiters();
    }

    /// Some calls may have been missed: it should ask.
    pub(crate) fn interrupt(&self) {
        self.interruptions.fetch_add(1, Ordering::Relaxed);
        self.bell.notify_waiters();
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
        self.bell.notify_waiters();
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

    /// Rings at whatever comes from when it is enabled on.
    pub(crate) fn bell(&self) -> Notified<'_> {
        self.bell.notified()
    }

    /// From here on it may stand in a queue on some master.
    pub(crate) fn stand(&self) {
        self.stands.store(true, Ordering::SeqCst);
    }

    pub(crate) fn stands(&self) -> bool {
        self.stands.load(Ordering::SeqCst)
    }

    /// Ends the wait; whether it may still stand somewhere.
    pub(crate) fn end(&self) -> bool {
        self.is_over.store(true, Ordering::SeqCst);
        self.stands.load(Ordering::SeqCst)
    }

    /// It stands nowhere any more.
    pub(crate) fn left(&self) {
        self.stands.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
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
        let call = |number| Call {
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
        let stray = Stray {
            number: one.number,
            reads: false,
            name: "a".into(),
        };
        assert_eq!(waiters.call(1, call(one.number)), Some(stray));
    }

    #[test]
    fn whoever_leaves_last_knows_whether_it_stands() {
        let calls = Waiters::default().join(1);
        assert!(!calls.is_over() && !calls.end());
        calls.stand();
        assert!(calls.is_over() && calls.end());
        calls.left();
        assert!(!calls.end());
    }
}
