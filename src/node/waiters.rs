//! All waiters of this process, by number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::stale_waiters::StaleWaiter;
use super::waiter_state::{PollDeadlines, WaiterState};
use crate::protocol::waiter::WaiterCall;

/// All waiters.
#[derive(Default)]
pub(crate) struct Waiters {
    next: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Arc<WaiterState>>>,
    deadlines: Arc<PollDeadlines>,
}

impl Waiters {
    /// Adds a waiter with a new number.
    pub(crate) fn join(&self, nodes: usize) -> Arc<WaiterState> {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let state = Arc::new(WaiterState::new(number, nodes, &self.deadlines));
        self.waiting.lock().insert(number, Arc::clone(&state));
        state
    }

    pub(crate) fn remove(&self, number: u64) {
        self.waiting.lock().remove(&number);
    }

    /// Takes in a call from a master. Returns the waiter that was called, if it has ended.
    pub(crate) fn call(&self, node: usize, call: WaiterCall<'_>) -> Option<StaleWaiter> {
        let waiter = self.waiting.lock().get(&call.number).cloned();
        let Some(state) = waiter else {
            return Some(StaleWaiter {
                number: call.number,
                kind: call.kind,
                name: call.name.into(),
            });
        };
        state.called(node, call);
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Resolves with a waiter if its task was not polled in time.
    ///
    /// # Cancel safety
    ///
    /// No waiter is missed.
    pub(crate) async fn absent(&self) -> Arc<WaiterState> {
        self.deadlines.missed().await
    }

    /// Makes every waiter ask, because calls may have been missed.
    pub(crate) fn interrupt(&self) {
        self.waiting
            .lock()
            .values()
            .for_each(|state| state.messages.interrupt());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::protocol::node_set::NodeSet;
    use crate::protocol::waiter::WaiterKind;

    #[test]
    fn a_call_finds_its_waiter_or_is_a_stray() {
        let waiters = Waiters::default();
        let (one, two) = (waiters.join(3), waiters.join(3));
        let before = one.snapshot();
        let call = |number| WaiterCall {
            number,
            kind: WaiterKind::Alone,
            seat: None,
            later: None,
            name: "a",
        };
        assert_eq!(waiters.call(1, call(one.number)), None);
        assert!(one.messages.came_since(1, &before) && !one.messages.came_since(0, &before));
        assert!(!two.messages.came_since(1, &before));
        assert_eq!((one.take_names(), one.take_names()), (vec!["a".into()], vec![]));
        waiters.interrupt();
        assert!(two.messages.interrupted_since(&before));
        waiters.remove(one.number);
        let stale = StaleWaiter {
            number: one.number,
            kind: WaiterKind::Alone,
            name: "a".into(),
        };
        assert_eq!(waiters.call(1, call(one.number)), Some(stale));
    }

    #[test]
    fn the_seat_that_most_masters_name_is_asked_for() {
        let waiters = Waiters::default();
        let state = waiters.join(3);
        for (node, seat) in [(0, 7), (1, 2), (2, 2)] {
            let call = WaiterCall {
                number: state.number,
                kind: WaiterKind::Permit,
                seat: Some(seat),
                later: None,
                name: "a",
            };
            assert_eq!(waiters.call(node, call), None);
        }
        assert_eq!((state.take_seat(), state.take_seat()), (Some(2), None));
        assert!(state.take_names().is_empty());
    }

    /// A waiter that waits for masters to be connected may still be in the queue of one that did not confirm its withdrawal. Its
    /// task is not woken by a call from there, and was taken for one that is not polled.
    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_end_the_time_of_a_waiter_that_sleeps() {
        let waiters = Waiters::default();
        let state = waiters.join(3);
        let second = Duration::from_secs(1);
        state.on_absence(second, None, |_| {});
        assert!(!state.note_still_queued(0));
        state.ignores_calls_until(Instant::now() + second * 5);
        let call = WaiterCall {
            number: state.number,
            kind: WaiterKind::Alone,
            seat: None,
            later: None,
            name: "a",
        };
        assert_eq!(waiters.call(0, call), None);
        let begun = Instant::now();
        waiters.absent().await;
        assert_eq!(begun.elapsed().as_secs(), 6, "it was to wake after five seconds");
    }

    #[test]
    fn whoever_withdraws_last_knows_whether_it_is_queued() {
        let state = Waiters::default().join(2);
        let first = NodeSet::from_bits(1);
        assert!(!state.note_still_queued(0), "whoever ends it sees to it");
        assert!(!state.is_over() && state.end() == first);
        assert!(state.note_still_queued(0) && state.take_places() == NodeSet::default());
        state.note_queued(first);
        assert!(state.is_over() && state.end() == first);
        assert_eq!(state.end(), NodeSet::default());
    }
}
