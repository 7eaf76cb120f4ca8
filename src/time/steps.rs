//! Steps of the masters' clocks against this client's, as far as this client noticed them.
//!
//! If a master has counted a lease since before a step, the lease ends there earlier by the step. Steps are
//! rare and holds are many, so no hold is notified. A reader of a validity compares one number, and computes
//! the validity again if the number has changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::time::clock::Moment;

/// Most steps that are stored apart for each master; the oldest of more are added up.
const MOST_STEPS: usize = 32;

/// Steps of all masters of a pool.
pub(crate) struct Steps {
    count: AtomicU64,
    masters: Vec<Mutex<Vec<Noticed>>>,
    /// Notified when another step was noticed.
    pub(crate) news: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Noticed {
    at: Moment,
    by: Duration,
}

impl Steps {
    pub(crate) fn new(masters: usize) -> Self {
        Self {
            count: AtomicU64::new(0),
            masters: (0..masters).map(|_| Mutex::default()).collect(),
            news: Notify::new(),
        }
    }

    /// Number of noticed steps. If it is the same as when a round began, none was noticed since.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Notes a step of a master's clock that was noticed at `at`.
    pub(crate) fn note(&self, node: usize, at: Moment, by: Duration) {
        let mut noticed = self.of(node);
        if noticed.len() == MOST_STEPS {
            let oldest = noticed.remove(0);
            noticed[0].by += oldest.by;
        }
        noticed.push(Noticed { at, by });
        drop(noticed);
        self.count.fetch_add(1, Ordering::Release);
        self.news.notify_one();
    }

    /// Sum of a master's steps that were noticed at `start` or later. A step itself may have come before
    /// `start`: then a lease loses more than it has to.
    pub(crate) fn since(&self, node: usize, start: Moment) -> Duration {
        let noticed = self.of(node);
        let later = noticed
            .iter()
            .filter(|step| step.at == start || !step.at.since(start).is_zero());
        later.map(|step| step.by).sum()
    }

    fn of(&self, node: usize) -> MutexGuard<'_, Vec<Noticed>> {
        self.masters[node].lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::at(Duration::from_secs(seconds))
    }

    #[test]
    fn what_was_noticed_before_does_not_count() {
        let steps = Steps::new(2);
        steps.note(0, at(10), Duration::from_millis(5));
        steps.note(0, at(20), Duration::from_millis(7));
        let since = |start| steps.since(0, at(start)).as_millis();
        assert_eq!((since(9), since(10), since(11), since(21)), (12, 12, 7, 0));
        assert_eq!(steps.since(1, at(0)), Duration::ZERO);
        assert_eq!(steps.count(), 2);
    }

    #[test]
    fn of_very_many_none_is_lost() {
        let steps = Steps::new(1);
        for second in 1..=100 {
            steps.note(0, at(second), Duration::from_millis(1));
        }
        assert_eq!(steps.since(0, at(0)), Duration::from_millis(100));
        assert_eq!(steps.since(0, at(96)), Duration::from_millis(5));
    }

    #[test]
    fn whoever_waits_hears_of_what_was_noticed_meanwhile() {
        let steps = Steps::new(1);
        assert_eq!(steps.news.notified().now_or_never(), None);
        steps.note(0, at(1), Duration::from_millis(1));
        assert_eq!(steps.news.notified().now_or_never(), Some(()));
        assert_eq!(steps.news.notified().now_or_never(), None);
    }
}
