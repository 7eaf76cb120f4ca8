//! Durations for people.

use std::fmt;
use std::time::Duration;

/// Shows a duration to about three digits: `839us`, `1.8ms`, `30.3s`, `5m 3s`, `7h 12m`, `2d 3h`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded(pub(crate) Duration);

const SECOND: u128 = 1_000_000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = (self.0.as_nanos() + 500) / 1000;
        // The unit is that of the rounded value, so that 59.97 s is a minute and not 60 s.
        match us {
            0 if self.0.is_zero() => f.write_str("0s"),
            0..1_000 => write!(f, "{us}us"),
            1_000..9_950 => tenths(f, us, 1_000, "ms"),
            9_950..999_500 => write!(f, "{}ms", (us + 500) / 1_000),
            999_500..59_950_000 => tenths(f, us, SECOND, "s"),
            _ if us + SECOND / 2 < HOUR => parts(f, us, (MINUTE, "m"), (SECOND, "s")),
            _ if us + MINUTE / 2 < DAY => parts(f, us, (HOUR, "h"), (MINUTE, "m")),
            _ => parts(f, us, (DAY, "d"), (HOUR, "h")),
        }
    }
}

/// Shows one unit, with one digit behind the point unless that is zero.
fn tenths(f: &mut fmt::Formatter<'_>, us: u128, unit: u128, name: &str) -> fmt::Result {
    let tenths = (us * 10 + unit / 2) / unit;
    match tenths % 10 {
        0 => write!(f, "{}{name}", tenths / 10),
        digit => write!(f, "{}.{digit}{name}", tenths / 10),
    }
}

/// Shows two units; the smaller one is left out if it is zero.
fn parts(f: &mut fmt::Formatter<'_>, us: u128, large: (u128, &str), small: (u128, &str)) -> fmt::Result {
    let rounded = (us + small.0 / 2) / small.0 * small.0;
    write!(f, "{}{}", rounded / large.0, large.1)?;
    match rounded % large.0 / small.0 {
        0 => Ok(()),
        rest => write!(f, " {rest}{}", small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_many_digits_as_a_person_can_use() {
        for (ns, text) in [
            (0, "0s"),
            (499, "0us"),
            (839_500, "840us"),
            (1_000_000, "1ms"),
            (1_849_000, "1.8ms"),
            (9_960_000, "10ms"),
            (50_000_000, "50ms"),
            (999_400_000, "999ms"),
            (999_700_000, "1s"),
            (30_293_972_839, "30.3s"),
            (31_000_000_000, "31s"),
            (59_970_000_000, "1m"),
            (303_400_000_000, "5m 3s"),
            (3_599_600_000_000, "1h"),
            (25_920_000_000_000, "7h 12m"),
            (86_399_000_000_000, "1d"),
            (183_600_000_000_000, "2d 3h"),
        ] {
            assert_eq!(Rounded(Duration::from_nanos(ns)).to_string(), text, "{ns} ns");
        }
    }

    /// Seconds that a person reads from such a text.
    fn read(text: &str) -> f64 {
        let part = |part: &str| {
            let unit = part.find(char::is_alphabetic).expect("a unit");
            let seconds = match &part[unit..] {
                "us" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                other => panic!("{other}"),
            };
            part[..unit].parse::<f64>().expect("a number") * seconds
        };
        text.split(' ').map(part).sum()
    }

    proptest! {
        /// The text is near to the duration, and short.
        #[test]
        fn near_and_short(ns in any::<u64>(), shift in 8_u32..50) {
            let exact = Duration::from_nanos((ns >> shift).max(10_000));
            let text = Rounded(exact).to_string();
            prop_assert!(text.len() <= 10, "{text}");
            let error = (read(&text) / exact.as_secs_f64() - 1.0).abs();
            prop_assert!(error < 0.06, "{exact:?} is shown as {text}");
        }
    }
}
