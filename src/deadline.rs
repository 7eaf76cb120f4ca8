//! Wakes rounds at their deadlines, with one timer for all of them.
//!
//! Nearly every round is over long before its deadline. A timer of its own would cost it more than its
//! answers do: the runtime is interrupted for each timer that is earlier than all others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use futures::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The deadlines of all rounds of a pool.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    queue: Mutex<Queue>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    /// In order of time. One whose round is over stays until it is first.
    alarms: VecDeque<(Instant, Arc<AtomicWaker>)>,
    /// Until when the task sleeps; `None` for as long as nobody wakes it.
    sleeping_until: Option<Instant>,
}

/// Wakes a task at a deadline. Dropping it lets the deadline pass unnoticed.
#[derive(Debug)]
pub(crate) struct Alarm(Arc<AtomicWaker>);

impl Alarm {
    /// Wakes this task from now on, in place of the one before.
    pub(crate) fn wake(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl Deadlines {
    /// Wakes `waker` at a deadline. Who looks at the clock after this misses nothing.
    pub(crate) fn set(&self, at: Instant, waker: &Waker) -> Alarm {
        let alarm = Arc::new(AtomicWaker::new());
        alarm.register(waker);
        let mut queue = self.queue();
        queue.add(at, Arc::clone(&alarm));
        if queue.sleeping_until.is_none_or(|until| at < until) {
            queue.sleeping_until = Some(at);
            drop(queue);
            self.earlier.notify_one();
        }
        Alarm(alarm)
    }

    /// Wakes everybody in time, for ever.
    pub(crate) async fn keep(&self) {
        loop {
            let (due, next) = self.queue().take_due(Instant::now());
            for alarm in due {
                alarm.wake();
            }
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn add(&mut self, at: Instant, alarm: Arc<AtomicWaker>) {
        // Room is made only when it has run out, so that it stays in step with the rounds under way.
        if self.alarms.len() == self.alarms.capacity() {
            self.alarms.retain(|(_, alarm)| is_set(alarm));
        }
        // Nearly always the last place: every round is given the same time.
        let place = self.alarms.partition_point(|(other, _)| *other <= at);
        self.alarms.insert(place, (at, alarm));
    }

    /// Those that are due, and when the next one is.
    fn take_due(&mut self, now: Instant) -> (Vec<Arc<AtomicWaker>>, Option<Instant>) {
        let mut due = Vec::new();
        while let Some((at, alarm)) = self.alarms.front() {
            if is_set(alarm) && *at > now {
                break;
            }
            due.extend(self.alarms.pop_front().map(|(_, alarm)| alarm));
        }
        self.sleeping_until = self.alarms.front().map(|(at, _)| *at);
        (due, self.sleeping_until)
    }
}

/// Whether its round is still under way.
fn is_set(alarm: &Arc<AtomicWaker>) -> bool {
    Arc::strong_count(alarm) > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn alarms_ring_in_order_of_time_and_not_after_they_are_dropped() {
        let deadlines = Arc::new(Deadlines::default());
        let keeping = Arc::clone(&deadlines);
        let task = tokio::spawn(async move { keeping.keep().await });
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let _late = deadlines.set(at(50), &waker);
        let _early = deadlines.set(at(20), &waker);
        drop(deadlines.set(at(10), &waker));
        for (until, rung) in [(15, 0), (25, 1), (49, 1), (55, 2)] {
            tokio::time::sleep_until(at(until)).await;
            assert_eq!(count.0.load(Ordering::Relaxed), rung, "after {until} ms");
        }
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_takes_no_room() {
        let deadlines = Deadlines::default();
        let at = Instant::now() + Duration::from_secs(60);
        let _hung = deadlines.set(at, Waker::noop());
        for _ in 0..10_000 {
            drop(deadlines.set(at, Waker::noop()));
        }
        assert!(deadlines.queue().alarms.len() < 100);
    }
}
