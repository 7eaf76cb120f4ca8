//! Reading of a master's wall clock between two of its answers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::clock::Moment;

/// Clock of the last answer, carried on by this client's own clock.
pub(in crate::node) struct MasterClock {
    origin: Moment,
    /// Reading of the clock at the origin, in microseconds since 1970.
    at_origin_us: AtomicU64,
    /// Time from the origin to the last question that the master has answered, in nanoseconds.
    asked_ns: AtomicU64,
}

impl MasterClock {
    /// Starts with a reading: the clock showed `clock_us` at `received`.
    pub(in crate::node) fn new(clock_us: u64, received: Moment) -> Self {
        Self {
            origin: received,
            at_origin_us: AtomicU64::new(clock_us),
            asked_ns: AtomicU64::new(0),
        }
    }

    pub(in crate::node) fn observe(&self, clock_us: u64, received: Moment) {
        let at_origin = clock_us.saturating_sub(self.since_origin(received));
        self.at_origin_us.store(at_origin, Ordering::Relaxed);
    }

    /// Takes in that a question was answered that was not sent before `asked`.
    pub(in crate::node) fn answered(&self, asked: Moment) {
        self.asked_ns
            .fetch_max(asked.ns_since(self.origin), Ordering::SeqCst);
    }

    /// Moment before the last question that was answered, or of the first reading.
    pub(in crate::node) fn last_asked(&self) -> Moment {
        self.origin.after_ns(self.asked_ns.load(Ordering::SeqCst))
    }

    /// Reading at `now`, in microseconds since 1970.
    pub(in crate::node) fn shows_us(&self, now: Moment) -> u64 {
        self.at_origin_us
            .load(Ordering::Relaxed)
            .saturating_add(self.since_origin(now))
    }

    fn since_origin(&self, moment: Moment) -> u64 {
        moment.ns_since(self.origin) / 1_000
    }
}
