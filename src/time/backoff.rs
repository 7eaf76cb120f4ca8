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
pub(crate) const LONGEST_SLOW_DELAY: Duration = Duration::from_secs(5);

/// Delays between attempts that go on until one succeeds.
pub(crate) fn delays(random: &Random) -> ExponentialBackoff {
    growing(random, FIRST_DELAY, LONGEST_DELAY)
}

/// Delays between attempts that cannot succeed soon.
pub(crate) fn slow_delays(random: &Random) -> ExponentialBackoff {
    growing(random, FIRST_SLOW_DELAY, LONGEST_SLOW_DELAY)
}

fn growing(random: &Random, first: Duration, longest: Duration) -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(first)
        .with_max_delay(longest)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(random.seed())
        .build()
}
