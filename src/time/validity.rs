//! Time for which a lease may be trusted: pure arithmetic.
//!
//! A server counts its lease from the moment at which it ran the script. The client counts from the moment
//! before it sent the script. So the client's end comes first by construction, if their clocks run at the
//! same rate. The drift is the margin for different rates: a part of the lease, plus 2 ms for the resolution
//! of Redis' expiry, as on the Redlock page of the Redis documentation.

use std::time::Duration;

use crate::time::clock::Moment;

/// Redis expires keys to the millisecond; 2 ms is the Redlock page's constant.
pub(crate) const RESOLUTION: Duration = Duration::from_millis(2);

/// Smallest part of a lease that a client may leave untrusted. Any other client may use this one.
pub(crate) const LEAST_DRIFT_FACTOR: f64 = 0.01;

/// Span of time in which a hold may be relied on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    start: Moment,
    /// Nanoseconds, since the length is read very often.
    length: u64,
}

impl Validity {
    /// Validity of a lease; its round began at `start`.
    pub(crate) fn of_lease(start: Moment, lease: Duration, drift_factor: f64) -> Self {
        Self {
            start,
            length: ns(lease.saturating_sub(drift(lease, drift_factor))),
        }
    }

    /// Rest of the validity at `now`; zero once it has passed.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        self.remaining_less(0, now)
    }

    /// Rest of the validity at `now`, less `lost` nanoseconds.
    pub(crate) fn remaining_less(&self, lost: u64, now: Moment) -> Duration {
        let gone = now.ns_since(self.start).saturating_add(lost);
        Duration::from_nanos(self.length.saturating_sub(gone))
    }

    /// Moment before any request of its round was sent.
    pub(crate) fn start(&self) -> Moment {
        self.start
    }
}

/// Nanoseconds of a time; the largest number for a longer one.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the longest lease with a drift below `than`. A step of a clock harms the leases with a drift of
/// less than twice the step.
pub(crate) fn longest_with_less_drift(than: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(than.saturating_sub(RESOLUTION).as_secs_f64() / factor)
        .unwrap_or(Duration::MAX)
}

/// Time to live, in whole milliseconds as Redis counts, with which a key lasts for `time` by this client's clock.
pub(crate) fn covering(time: Duration, factor: f64) -> Duration {
    let covering = time.saturating_add(drift(time, factor)) + Duration::from_micros(999);
    Duration::from_millis(u64::try_from(covering.as_millis()).unwrap_or(u64::MAX))
}

/// Part of a lease that is never trusted.
pub(crate) fn drift(lease: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(lease.as_secs_f64() * factor)
        .unwrap_or(Duration::MAX)
        .saturating_add(RESOLUTION)
}

/// Time after which a lease of this length has ended by every clock: the lease by the slowest one.
pub(crate) fn outlived(lease: Duration, drift_factor: f64) -> Duration {
    lease.saturating_add(drift(lease, drift_factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock::Clock;
    use proptest::prelude::*;

    #[test]
    fn a_lease_loses_one_percent_and_two_milliseconds() {
        let start = Clock::Host.now();
        let validity = Validity::of_lease(start, Duration::from_secs(30), 0.01);
        assert_eq!(validity.remaining(start), Duration::from_millis(29_698));
    }

    #[test]
    fn what_is_to_last_is_asked_for_with_the_drift() {
        let ms = Duration::from_millis;
        assert_eq!(covering(ms(1000), 0.01), ms(1012));
        assert_eq!(
            covering(Duration::from_micros(1), 0.01),
            ms(3),
            "whole milliseconds, none too few"
        );
    }

    #[test]
    fn a_step_harms_the_leases_whose_drift_is_smaller() {
        let ms = Duration::from_millis;
        assert_eq!(longest_with_less_drift(ms(302), 0.01), ms(30_000));
        assert_eq!(longest_with_less_drift(RESOLUTION, 0.01), Duration::ZERO);
        for lease in [ms(100), ms(30_000)] {
            let back = longest_with_less_drift(drift(lease, 0.01), 0.01);
            assert!(back.abs_diff(lease) < Duration::from_micros(1), "{back:?}");
        }
    }

    proptest! {
        #[test]
        fn never_longer_than_the_lease(lease_ms in 0_u64..=u64::MAX / 2_000_000, factor in 0.0_f64..0.5) {
            let start = Clock::Host.now();
            let lease = Duration::from_millis(lease_ms);
            let left = Validity::of_lease(start, lease, factor).remaining(start);
            prop_assert!(left <= lease.saturating_sub(RESOLUTION));
        }
    }
}
