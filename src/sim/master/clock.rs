//! Clock of a master in memory, which tests set, and whose rate they choose.

use std::time::Duration;

use tokio::time::Instant;

/// A time that no test lives to see. With longer ones clocks overflow.
pub(super) const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Difference of a master's clock from a clock that no test has touched.
#[derive(Default)]
pub(super) struct ClockOffset {
    /// Difference at the beginning of the present rate, in microseconds.
    set_us: i64,
    rate: Option<ClockRate>,
}

#[derive(Clone, Copy)]
struct ClockRate {
    since: Instant,
    /// Microseconds that the clock gains in a second.
    ppm: i32,
}

impl ClockOffset {
    pub(super) fn us(&self) -> i64 {
        let gained = self.rate.map_or(0, |rate| {
            let gained = us(rate.since.elapsed() / 1_000_000 * rate.ppm.unsigned_abs());
            gained * i64::from(rate.ppm.signum())
        });
        self.set_us + gained
    }

    pub(super) fn set_forward(&mut self, by: Duration) {
        self.set_us = (self.set_us + us(by)).min(us(NEVER));
    }

    pub(super) fn set_back(&mut self, by: Duration) {
        self.set_us = (self.set_us - us(by)).max(-us(NEVER));
    }

    pub(super) fn set_rate(&mut self, ppm: i32) {
        self.set_us = self.us();
        self.rate = Some(ClockRate {
            since: Instant::now(),
            ppm,
        });
    }
}

/// Microseconds of a time.
fn us(time: Duration) -> i64 {
    i64::try_from(time.min(NEVER).as_micros()).unwrap_or(i64::MAX)
}
