//! Wakes rounds at their deadlines, with one timer for all of them.
//!
//! Nearly every round ends long before its deadline. With a timer of the runtime for each, a pair of acquire and
//! release costs the client 8 % more instructions over five masters, and 16 % over one. The runtime is also
//! interrupted for each timer that is earlier than all others. Only a round that is polled on another runtime than
//! the pool's has its own timer, since the pool's runtime may not run meanwhile.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::time::until::sleep_until_if;

/// Deadlines of all rounds of a pool.
pub(crate) struct Deadlines {
    /// Runtime on which the deadlines are watched.
    runtime: Id,
    queue: Mutex<AlarmQueue>,
    earlier: Notify,
    /// Number of checks whether that runtime runs, and the number of the last check that it has answered.
    asked: AtomicU64,
    answered: AtomicU64,
}

#[derive(Debug, Default)]
struct AlarmQueue {
    /// Alarms in order of time. The alarm of a round that is over stays until it is the first.
    alarms: VecDeque<(Instant, Arc<AtomicWaker>)>,
    /// Time until which the task sleeps; `None` for a sleep without an end.
    sleeping_until: Option<Instant>,
}

/// Wakes a task at a deadline. Dropping it lets the deadline pass unnoticed.
pub(crate) enum Alarm {
    Shared(SharedAlarm),
    Own(Box<Own>),
}

/// A place among the deadlines of the pool.
pub(crate) struct SharedAlarm(Arc<AtomicWaker>);

/// A timer of the runtime on which the round is polled.
pub(crate) struct Own {
    runtime: Id,
    /// Number of the last check when the alarm was set.
    asked: u64,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    /// Wakes this task from now on, in place of the one before. Returns `false` if that is impossible,
    /// because the timer is another runtime's.
    pub(crate) fn wake(&mut self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Shared(alarm) => alarm.0.register(cx.waker()),
            Self::Own(own) => {
                if Handle::try_current().map(|here| here.id()).ok() != Some(own.runtime) {
                    return false;
                }
                let _ = own.sleep.as_mut().poll(cx);
            }
        }
        true
    }
}

impl Drop for SharedAlarm {
    fn drop(&mut self) {
        self.0.take();
    }
}

impl Deadlines {
    /// Makes the deadlines of a pool that are watched on `runtime`.
    pub(crate) fn new(runtime: Id) -> Self {
        Self {
            runtime,
            queue: Mutex::default(),
            earlier: Notify::new(),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }

    /// Wakes the polled task at a deadline; `None` outside of a runtime. A caller that reads the clock after
    /// this call misses no deadline.
    pub(crate) fn set(&self, at: Instant, cx: &mut Context<'_>) -> Option<Alarm> {
        let here = Handle::try_current().ok()?.id();
        if here == self.runtime {
            return Some(Alarm::Shared(self.shared(at, cx.waker())));
        }
        let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.earlier.notify_one();
        let mut alarm = Alarm::Own(Box::new(Own {
            runtime: here,
            asked,
            sleep: Box::pin(sleep_until(at)),
        }));
        alarm.wake(cx);
        Some(alarm)
    }

    /// Whether the runtime of the pool has not run since an alarm was set on another one.
    pub(crate) fn is_stalled(&self, since: Option<&Alarm>) -> bool {
        matches!(since, Some(Alarm::Own(own)) if self.answered.load(Ordering::SeqCst) < own.asked)
    }

    fn shared(&self, at: Instant, waker: &Waker) -> SharedAlarm {
        let alarm = Arc::new(AtomicWaker::new());
        alarm.register(waker);
        let mut queue = self.queue.lock();
        queue.add(at, Arc::clone(&alarm));
        if queue.sleeping_until.is_none_or(|until| at < until) {
            queue.sleeping_until = Some(at);
            drop(queue);
            self.earlier.notify_one();
        }
        SharedAlarm(alarm)
    }

    /// Runs for ever, and wakes tasks at their deadlines.
    pub(crate) async fn keep(&self) {
        loop {
            self.answered
                .store(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
            let (due, next) = self.queue.lock().take_due(Instant::now());
            for alarm in due {
                alarm.wake();
            }
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = sleep_until_if(next) => {}
            }
        }
    }
}

impl AlarmQueue {
    fn add(&mut self, at: Instant, alarm: Arc<AtomicWaker>) {
        // Cleared only when the room has run out, so that the room stays in proportion to the rounds in
        // progress.
        if self.alarms.len() == self.alarms.capacity() {
            self.alarms.retain(|(_, alarm)| is_set(alarm));
        }
        // Nearly always the last place: all rounds have the same timeout.
        let index = self.alarms.partition_point(|(other, _)| *other <= at);
        self.alarms.insert(index, (at, alarm));
    }

    /// Takes the alarms that are due, and returns the time of the next one.
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

/// Whether the alarm's round is still in progress.
fn is_set(alarm: &Arc<AtomicWaker>) -> bool {
    Arc::strong_count(alarm) > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
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
        let deadlines = Arc::new(Deadlines::new(Handle::current().id()));
        let keeping = Arc::clone(&deadlines);
        let task = tokio::spawn(async move { keeping.keep().await });
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let _late = deadlines.shared(at(50), &waker);
        let _early = deadlines.shared(at(20), &waker);
        drop(deadlines.shared(at(10), &waker));
        for (until, rung) in [(15, 0), (25, 1), (49, 1), (55, 2)] {
            tokio::time::sleep_until(at(until)).await;
            assert_eq!(count.0.load(Ordering::Relaxed), rung, "after {until} ms");
        }
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_takes_no_room() {
        let deadlines = Deadlines::new(Handle::current().id());
        let at = Instant::now() + Duration::from_secs(60);
        let _hung = deadlines.shared(at, Waker::noop());
        for _ in 0..10_000 {
            drop(deadlines.shared(at, Waker::noop()));
        }
        assert!(deadlines.queue.lock().alarms.len() < 100);
    }
}
