//! Delays between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::time::random::Random;

/// Delays between two attempts to connect, after a connection that ended within the longest delay, and before a
/// refused request is sent again. Jitter at most doubles a delay. The sum stays far enough below a second for a
/// restarted server to be in use again within that second.
pub(crate) const FIRST_DELAY: Duration = Duration::from_millis(10);
pub(crate) const LONGEST_DELAY: Duration = Duration::from_millis(250);

/// Delays between two attempts that fail until a configuration is corrected.
const FIRST_SLOW_DELAY: Duration = Duration::from_millis(100);
const LONGEST_SLOW_DELAY: Duration = Duration::from_secs(5);

/// Delays that grow from attempt to attempt, until one succeeds.
pub(crate) struct Backoff {
    delays: ExponentialBackoff,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(random: &Random) -> Self {
        Self::between(FIRST_DELAY, LONGEST_DELAY, random)
    }

    /// Delays between attempts that cannot succeed soon.
    pub(crate) fn slow(random: &Random) -> Self {
        Self::between(FIRST_SLOW_DELAY, LONGEST_SLOW_DELAY, random)
    }

    fn between(first: Duration, longest: Duration, random: &Random) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(random.seed())
            .build();
        Self { delays, longest }
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.longest)
    }
}
