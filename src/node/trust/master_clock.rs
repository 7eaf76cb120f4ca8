//! Reading of a master's wall clock between two of its answers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::clock::Moment;

/// Clock of the last answer, carried on by this client's own clock.
#[derive(Debug)]
pub(in crate::node) struct MasterClock {
    origin: Moment,
    /// Reading of the clock at the origin, in microseconds since 1970.
    at_origin_us: AtomicU64,
}

impl MasterClock {
    /// Starts with a reading: the clock showed `clock_us` at `received`.
    pub(in crate::node) fn new(clock_us: u64, received: Moment) -> Self {
        Self {
            origin: received,
            at_origin_us: AtomicU64::new(clock_us),
        }
    }

    pub(in crate::node) fn observe(&self, clock_us: u64, received: Moment) {
        let at_origin = clock_us.saturating_sub(self.since_origin(received));
        self.at_origin_us.store(at_origin, Ordering::Relaxed);
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
