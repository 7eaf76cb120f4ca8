//! How far a master's clock is ahead of this client's, and by how much that has grown: pure arithmetic.
//!
//! A reading of the master's clock bounds the difference: it was taken not before the request was sent
//! and not after the answer was heard. The two clocks may go apart by half the drift factor (the other
//! half is for the clocks of two clients). What goes beyond that between any two readings is a step,
//! whoever's clock it was that jumped.
//!
//! A reading is compared with every one that is kept, not with the lowest offset alone: small steps add
//! up, and what the rates may have added since a reading long ago forgives no step that a later one
//! shows.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::clock::Moment;
use crate::time::validity::RESOLUTION;

/// A reading that is no better than the last one kept is left out for this part of the time for which
/// they are kept, so there are never many more of them than this.
const BUCKETS: u32 = 32;

/// By what part of the time the offset may grow: half of the least drift factor.
const SLEW: Rate = Rate::millionths(5_000);

/// Beyond the longest lease no validity depends on the rate of a clock; what is left is what an
/// undisturbed quartz and ntpd differ by at most.
const LONG_TERM: Rate = Rate::millionths(500);

/// What a master that tells its clock in whole milliseconds may seem to step by, in microseconds. The
/// resolution that every drift contains is twice that.
const THRESHOLD: i64 = us(RESOLUTION) / 2;

/// The readings of one master's clock against this client's. Times are in microseconds since the first.
#[derive(Debug)]
pub(super) struct Offsets {
    origin: Moment,
    clock_at_origin_us: u64,
    /// Readings, of which later ones are higher. A reading that is not lower than a later one adds nothing.
    kept: VecDeque<Reading>,
    /// All steps so far.
    stepped: i64,
    /// The largest difference, over all readings so far, of `stepped` at that time and the reading's `high`.
    base: i64,
}

/// A part of a span of time, in 2⁻³² of it: readings come with every answer, and a shift costs less than a
/// division.
#[derive(Clone, Copy, Debug)]
struct Rate(i64);

#[derive(Clone, Copy, Debug)]
struct Reading {
    from: i64,
    /// Until when nothing lower was read.
    to: i64,
    /// An upper bound of the offset: the clock when it was read, less the moment at which the request was sent,
    /// less what the difference of the rates may have added since the first reading.
    high: i64,
    /// The highest lower bound of an offset that was read later: the same with the moment at which the answer
    /// came. Where it is above `high`, the clock has stepped by the difference at least.
    seen: i64,
}

/// A step that a reading shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// The largest against any reading kept, where it is larger than any that was seen against it before.
    pub(super) largest: Duration,
    /// What came on top of all steps before it.
    pub(super) gained: Duration,
}

impl Offsets {
    /// With the first reading.
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

    /// Takes in a reading that was taken between `sent` and `heard`. Readings are kept for `window`.
    pub(super) fn read(
        &mut self,
        clock_us: u64,
        sent: Moment,
        heard: Moment,
        window: Duration,
    ) -> Option<Step> {
        if self.origin.ns_since(sent) > 0 {
            return None;
        }
        let (sent, heard) = (self.us_since_origin(sent), self.us_since_origin(heard));
        let ran = i64::try_from(clock_us)
            .unwrap_or(i64::MAX)
            .saturating_sub_unsigned(self.clock_at_origin_us);
        let (low, high) = (ran - slewed(heard), ran - slewed(sent));
        let window = us(window);
        while self.kept.len() > 1 && self.kept.front().is_some_and(|first| first.to + window < heard) {
            self.kept.pop_front();
        }
        let (largest, gained) = (self.compare(low, heard, window), self.count(low, high));
        self.keep(heard, high, window);
        (largest > 0 || gained > 0).then(|| Step {
            largest: micros(largest),
            gained: micros(gained),
        })
    }

    fn us_since_origin(&self, moment: Moment) -> i64 {
        (moment.ns_since(self.origin) / 1000).cast_signed()
    }

    /// The largest step against the readings kept.
    fn compare(&mut self, low: i64, heard: i64, window: i64) -> i64 {
        let beyond_window = SLEW.less(LONG_TERM);
        let mut largest = 0;
        for reading in &mut self.kept {
            // Only the last one is ever older than that.
            let low = low + beyond_window.of((heard - reading.to - window).max(0));
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

    /// Adds up: between any two readings `stepped` grows by what one shows against the other, less the
    /// threshold.
    fn count(&mut self, low: i64, high: i64) -> i64 {
        let gained = low + self.base - self.stepped;
        let counted = gained > THRESHOLD;
        if counted {
            self.stepped += gained;
        }
        self.base = self.base.max(self.stepped - high);
        if counted { gained } else { 0 }
    }

    fn keep(&mut self, heard: i64, high: i64, window: i64) {
        while self.kept.back().is_some_and(|last| last.high >= high) {
            self.kept.pop_back();
        }
        if let Some(last) = self.kept.back_mut()
            && heard - last.from < window / i64::from(BUCKETS)
        {
            last.to = heard;
            return;
        }
        self.kept.push_back(Reading {
            from: heard,
            to: heard,
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

/// How far a clock of the client's rate goes in that time at the most.
fn slewed(time: i64) -> i64 {
    time + SLEW.of(time)
}

/// Longer spans count as a hundred years, so that nothing that is added to them overflows.
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
