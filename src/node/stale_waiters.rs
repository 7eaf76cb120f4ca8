//! Waiters that have ended, and that a master may still have in a queue: they are withdrawn there (`withdrawals.rs`).

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::protocol::waiter::{Waiter, WaiterKind};

/// Most stale waiters that are stored. The tickets of any others run out.
const MOST: usize = 1024;

/// A waiter that has ended, and that a master may still keep in the queue of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaleWaiter {
    pub(crate) number: u64,
    pub(crate) kind: WaiterKind,
    pub(crate) name: Box<str>,
}

impl StaleWaiter {
    /// Describes a waiter that has ended, and that may be in the queue of a name.
    pub(crate) fn of(waiter: &Waiter, name: &str) -> Self {
        Self {
            number: waiter.number,
            kind: waiter.kind,
            name: name.into(),
        }
    }
}

/// Stale waiters of one master that are to be withdrawn.
#[derive(Debug, Default)]
pub(crate) struct StaleWaiters {
    stored: Mutex<Stored>,
    /// Notified when there are waiters to withdraw.
    pub(super) news: Notify,
}

#[derive(Debug, Default)]
struct Stored {
    waiters: Vec<StaleWaiter>,
    has_failed: bool,
}

impl StaleWaiters {
    /// Stores a waiter: a call of the master came too late, or the master could not be reached before.
    pub(crate) fn add(&self, stale: StaleWaiter) {
        self.store(stale, false);
    }

    /// Stores a waiter that could not be withdrawn, for another try after a pause.
    pub(super) fn add_again(&self, stale: StaleWaiter) {
        self.store(stale, true);
    }

    fn store(&self, stale: StaleWaiter, has_failed: bool) {
        let mut stored = self.stored.lock();
        if stored.waiters.len() < MOST && !stored.waiters.contains(&stale) {
            stored.waiters.push(stale);
        }
        stored.has_failed |= has_failed;
        drop(stored);
        self.news.notify_one();
    }

    /// Whether a withdrawal has failed since the last call.
    pub(super) fn take_failure(&self) -> bool {
        std::mem::take(&mut self.stored.lock().has_failed)
    }

    /// Takes the waiters that are to be withdrawn.
    pub(super) fn take(&self) -> Vec<StaleWaiter> {
        std::mem::take(&mut self.stored.lock().waiters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale(number: u64) -> StaleWaiter {
        StaleWaiter {
            number,
            kind: WaiterKind::Alone,
            name: "a".into(),
        }
    }

    /// Otherwise a master that refuses withdrawals would be sent them without a pause.
    #[test]
    fn a_waiter_that_is_stored_later_does_not_hide_a_failure() {
        let waiters = StaleWaiters::default();
        waiters.add_again(stale(1));
        waiters.add(stale(2));
        assert!(waiters.take_failure());
        assert!(!waiters.take_failure(), "once");
        assert_eq!(waiters.take(), [stale(1), stale(2)]);
    }

    /// Every late call for a waiter stores it.
    #[test]
    fn each_waiter_is_stored_once_and_their_number_is_bounded() {
        let waiters = StaleWaiters::default();
        for number in (0..2 * MOST as u64).flat_map(|number| [number, number]) {
            waiters.add(stale(number));
        }
        let stored = waiters.take();
        assert_eq!(stored.len(), MOST);
        assert_eq!(stored.last(), Some(&stale(MOST as u64 - 1)));
    }
}
