//! Offset of a master's clock against this client's clock, and its growth: pure arithmetic.
//!
//! A reading of the master's clock bounds the offset: it was taken after the request was sent, and before the
//! answer arrived. The two clocks may drift apart by half the drift factor. (The other half is for the clocks
//! of two clients.) Growth beyond that between any two readings is a step, of either clock.
//!
//! A reading is compared with every stored reading, and not with the lowest offset alone. Small steps add up.
//! And the drift that the rates allow since an old reading must not hide a step that a later reading shows.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::clock::Moment;
use crate::time::validity::RESOLUTION;

/// A reading that is no better than the last stored one is stored only if this part of the storage time lies
/// between the two. So there are never many more readings than this number.
const BUCKETS: u32 = 32;

/// Part of the time by which the offset may grow: half of the least drift factor.
const SLEW: Rate = Rate::millionths(5_000);

/// Rate beyond the longest lease. No validity depends on a clock's rate there. Only the most by which an
/// undisturbed quartz and ntpd differ is left.
const LONG_TERM: Rate = Rate::millionths(500);

/// Apparent step of a master that gives its clock in whole milliseconds, in microseconds. The resolution that
/// every drift contains is twice that.
const THRESHOLD: i64 = us(RESOLUTION) / 2;

/// Readings of one master's clock against this client's. Times are in microseconds since the first reading.
pub(super) struct Offsets {
    origin: Moment,
    clock_at_origin_us: u64,
    /// Readings, each higher than the one before. A reading that is not lower than a later one adds nothing.
    kept: VecDeque<Reading>,
    /// Sum of all steps so far.
    stepped: i64,
    /// Largest difference of `stepped` and a reading's `high` at the same time, over all readings so far.
    base: i64,
}

/// A part of a span of time, in units of 2⁻³². Every answer brings a reading, and a shift costs less than a
/// division.
#[derive(Clone, Copy, Debug)]
struct Rate(i64);

#[derive(Clone, Copy, Debug)]
struct Reading {
    from: i64,
    /// Time until which no lower reading came.
    to: i64,
    /// Upper bound of the offset: the clock's reading, less the moment at which the request was sent, less
    /// the most that the rates may have added since the first reading.
    high: i64,
    /// Highest lower bound of the offset of any later reading: computed in the same way with the moment at
    /// which the answer came. If it is above `high`, the clock has stepped by the difference at least.
    seen: i64,
}

/// A step that a reading shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Largest step against any stored reading, if it is larger than any that was seen against that reading
    /// before.
    pub(super) largest: Duration,
    /// Step on top of all steps before it.
    pub(super) gained: Duration,
}

impl Offsets {
    /// Starts with the first reading.
    pub(super) fn new(clock_us: u64, sent: Moment) -> Self {
        let first = Reading {
            from: 0,
            to: 0,
            high: 0,
            seen: i64::MIN,
        };
        Self {
            origin: sent,
            clock_at_origin_us: clock_us,
            kept: VecDeque::from([first]),
            stepped: 0,
            base: 0,
        }
    }

    /// Takes in a reading that was taken between `sent` and `received`. Readings are stored for `window`.
    pub(super) fn read(
        &mut self,
        clock_us: u64,
        sent: Moment,
        received: Moment,
        window: Duration,
    ) -> Option<Step> {
        if self.origin.ns_since(sent) > 0 {
            return None;
        }
        let (sent, received) = (self.us_since_origin(sent), self.us_since_origin(received));
        let ran = i64::try_from(clock_us)
            .unwrap_or(i64::MAX)
            .saturating_sub_unsigned(self.clock_at_origin_us);
        let (low, high) = (ran - slewed(received), ran - slewed(sent));
        let window = us(window);
        while self.kept.len() > 1
            && self
                .kept
                .front()
                .is_some_and(|first| first.to + window < received)
        {
            self.kept.pop_front();
        }
        let (largest, gained) = (self.compare(low, received, window), self.count(low, high));
        self.keep(received, high, window);
        (largest > 0 || gained > 0).then(|| Step {
            largest: micros(largest),
            gained: micros(gained),
        })
    }

    fn us_since_origin(&self, moment: Moment) -> i64 {
        (moment.ns_since(self.origin) / 1000).cast_signed()
    }

    /// Largest step against the stored readings.
    fn compare(&mut self, low: i64, received: i64, window: i64) -> i64 {
        let beyond_window = SLEW.less(LONG_TERM);
        let mut largest = 0;
        for reading in &mut self.kept {
            // Only the last reading is ever older than the window.
            let low = low + beyond_window.of((received - reading.to - window).max(0));
            if low - reading.high <= THRESHOLD {
                break;
            }
            if low > reading.seen {
                reading.seen = low;
                largest = largest.max(low - reading.high);
            }
        }
        largest
    }

    /// Adds a step up. Between any two readings `stepped` grows by the step between them, less the threshold.
    fn count(&mut self, low: i64, high: i64) -> i64 {
        let gained = low + self.base - self.stepped;
        let counted = gained > THRESHOLD;
        if counted {
            self.stepped += gained;
        }
        self.base = self.base.max(self.stepped - high);
        if counted { gained } else { 0 }
    }

    fn keep(&mut self, received: i64, high: i64, window: i64) {
        while self.kept.back().is_some_and(|last| last.high >= high) {
            self.kept.pop_back();
        }
        if let Some(last) = self.kept.back_mut()
            && received - last.from < window / i64::from(BUCKETS)
        {
            last.to = received;
            return;
        }
        self.kept.push_back(Reading {
            from: received,
            to: received,
            high,
            seen: i64::MIN,
        });
    }
}

impl Rate {
    const fn millionths(millionths: i64) -> Self {
        Self((millionths << 32) / 1_000_000)
    }

    fn less(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }

    /// That part of a span of time.
    fn of(self, time: i64) -> i64 {
        let part = (i128::from(time) * i128::from(self.0) + (1 << 31)) >> 32;
        i64::try_from(part).unwrap_or(i64::MAX)
    }
}

/// Most by which a clock of the client's rate may advance in that time.
fn slewed(time: i64) -> i64 {
    time + SLEW.of(time)
}

/// Microseconds of a span. Longer spans count as a hundred years, so that no sum with them overflows.
const fn us(time: Duration) -> i64 {
    const LONGEST_S: u64 = 100 * 365 * 86_400;
    let seconds = time.as_secs();
    let seconds = if seconds < LONGEST_S { seconds } else { LONGEST_S };
    (seconds * 1_000_000).cast_signed() + time.subsec_micros().cast_signed() as i64
}

fn micros(time: i64) -> Duration {
    Duration::from_micros(u64::try_from(time).unwrap_or(0))
}

#[cfg(test)]
mod tests;
