//! Time that goes on while the host sleeps.
//!
//! On Linux `std::time::Instant` stops while a machine is suspended; the lease on a server does not. A hold
//! must never look valid for longer than the servers keep it. So elapsed time is the larger of two
//! differences:
//! - of `CLOCK_BOOTTIME`, which counts suspension,
//! - of `CLOCK_MONOTONIC_RAW`, which no NTP daemon slews.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of time for a pool of masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The host's clocks.
    Host,
    /// Tokio's clock, which a test may pause and advance by hand.
    #[cfg(feature = "test-util")]
    Tokio {
        /// Wall clock at the start of tokio's clock, in microseconds since 1970.
        wall_at_start_us: u64,
    },
}

/// A point in time, from which only elapsed time can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Nanoseconds since the machine started, suspension included.
    boot: u64,
    /// Nanoseconds at the hardware's own rate, suspension excluded.
    raw: u64,
}

impl Clock {
    pub(crate) fn now(self) -> Moment {
        match self {
            Self::Host => host_now(),
            #[cfg(feature = "test-util")]
            Self::Tokio { .. } => Moment::at(tokio_now()),
        }
    }

    /// The wall clock, in microseconds since 1970. It may step, so it orders nothing.
    pub(crate) fn wall_us(self) -> u64 {
        match self {
            Self::Host => us(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            #[cfg(feature = "test-util")]
            Self::Tokio { wall_at_start_us } => wall_at_start_us.saturating_add(us(tokio_now())),
        }
    }

    /// Tokio's clock for a client with a wall clock that shows `wall_us` now.
    #[cfg(feature = "test-util")]
    pub(crate) fn tokio(wall_us: u64) -> Self {
        Self::Tokio {
            wall_at_start_us: wall_us.saturating_sub(us(tokio_now())),
        }
    }
}

impl Moment {
    /// Moment at `since_start` after the machine's start, by both clocks.
    #[cfg(any(
        test,
        feature = "test-util",
        not(any(target_os = "linux", target_os = "android"))
    ))]
    pub(crate) fn at(since_start: Duration) -> Self {
        let now = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        Self { boot: now, raw: now }
    }

    /// Time from `earlier` to this moment; zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.ns_since(earlier))
    }

    /// Moment at least `ns` nanoseconds after this one, by each of the two clocks.
    pub(crate) fn after_ns(self, ns: u64) -> Self {
        Self {
            boot: self.boot.saturating_add(ns),
            raw: self.raw.saturating_add(ns),
        }
    }

    /// Nanoseconds from `earlier` to this moment; zero if `earlier` is later.
    pub(crate) fn ns_since(self, earlier: Self) -> u64 {
        let boot = self.boot.saturating_sub(earlier.boot);
        let raw = self.raw.saturating_sub(earlier.raw);
        boot.max(raw)
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn host_now() -> Moment {
    use rustix::time::ClockId;
    Moment {
        boot: read(ClockId::Boottime),
        raw: read(ClockId::MonotonicRaw),
    }
}

/// On other Unix systems the monotonic clock is the best one. On macOS it counts suspension; on FreeBSD no
/// clock does.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
fn host_now() -> Moment {
    Moment::at(Duration::from_nanos(read(rustix::time::ClockId::Monotonic)))
}

/// On Windows this is `QueryPerformanceCounter`, which counts suspension.
#[cfg(not(unix))]
fn host_now() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    Moment::at(START.get_or_init(Instant::now).elapsed())
}

#[cfg(unix)]
fn read(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000) + rest.unwrap_or(0)
}

#[cfg(feature = "test-util")]
fn tokio_now() -> Duration {
    use std::sync::OnceLock;
    use tokio::time::Instant;
    // A tokio instant can only be compared with another one. Any fixed instant works that is not later than
    // the first reading of a paused clock.
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(|| {
        let now = std::time::Instant::now();
        now.checked_sub(Duration::from_secs(3600)).unwrap_or(now)
    });
    Instant::now().into_std().saturating_duration_since(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_time_goes_forward() {
        let start = Clock::Host.now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(Clock::Host.now().since(start) >= Duration::from_millis(2));
    }

    #[test]
    fn the_faster_of_the_two_clocks_counts() {
        let at = |boot: u64, raw: u64| Moment {
            boot: boot * 1_000_000_000,
            raw: raw * 1_000_000_000,
        };
        assert_eq!(at(20, 11).since(at(10, 10)), Duration::from_secs(10));
        assert_eq!(at(11, 20).since(at(10, 10)), Duration::from_secs(10));
        assert_eq!(at(1, 1).since(at(2, 2)), Duration::ZERO);
    }
}
