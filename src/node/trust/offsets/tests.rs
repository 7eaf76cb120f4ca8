use proptest::prelude::*;

use super::*;
use crate::time::validity::LEAST_DRIFT_FACTOR;

const EPOCH_US: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;
const WINDOW: Duration = Duration::from_secs(30);

fn at(us: u64) -> Moment {
    Moment::at(Duration::from_micros(us))
}

fn first() -> Offsets {
    Offsets::new(EPOCH_US, at(0))
}

/// The other half is for the clocks of two clients.
#[test]
fn the_rates_may_add_half_of_the_least_drift() {
    assert_eq!(
        SLEW.of(2_000_000),
        us(Duration::from_secs(1).mul_f64(LEAST_DRIFT_FACTOR))
    );
}

/// An answer without a round trip, from a clock that is ahead by `ahead_us`.
fn step_ms(offsets: &mut Offsets, now_us: u64, ahead_us: i64) -> Option<(u128, u128)> {
    let clock_us = (EPOCH_US + now_us)
        .checked_add_signed(ahead_us)
        .expect("after 1970");
    let step = offsets.read(clock_us, at(now_us), at(now_us), WINDOW)?;
    Some((step.largest.as_millis(), step.gained.as_millis()))
}

#[test]
fn what_the_rates_may_add_is_no_step() {
    for (ahead_us, elapsed, noticed) in [
        // Half a percent of 10 s, and a millisecond.
        (50_900, 10 * SECOND, None),
        (52_000, 10 * SECOND, Some((2, 2))),
        (3_600_000_000, 10 * SECOND, Some((3_599_950, 3_599_950))),
        // An hour allows for 150 ms, and for 500 millionths of the time beyond 30 s.
        (1_900_000, 3600 * SECOND, None),
    ] {
        let step = step_ms(&mut first(), elapsed, ahead_us);
        assert_eq!(step, noticed, "{ahead_us} µs in {elapsed} µs");
    }
    let after_an_hour = step_ms(&mut first(), 3600 * SECOND, 2_200_000);
    assert!(
        after_an_hour.is_some_and(|(largest, _)| largest > 200),
        "{after_an_hour:?}"
    );
}

#[test]
fn a_clock_set_back_is_no_step_forward_but_its_return_is() {
    let mut offsets = first();
    assert_eq!(step_ms(&mut offsets, SECOND, -60_000_000), None);
    assert_eq!(step_ms(&mut offsets, SECOND + 1, 0), Some((60_000, 60_000)));
}

#[test]
fn small_steps_add_up() {
    let mut offsets = first();
    let steps: Vec<_> = (1..=4)
        .map(|step| {
            step_ms(
                &mut offsets,
                step * 1000,
                i64::try_from(step).expect("small") * 5_000,
            )
        })
        .collect();
    assert_eq!(steps, [Some((4, 4)), Some((9, 4)), Some((14, 4)), Some((19, 4))]);
    // Small steps add up, too, if each alone is below the threshold.
    let mut offsets = first();
    for step in 1..=40_u32 {
        step_ms(&mut offsets, u64::from(step) * 1000, i64::from(step) * 500);
    }
    assert!(offsets.stepped >= 18_800, "{} µs", offsets.stepped);
}

#[test]
fn a_step_is_noted_once() {
    let mut offsets = first();
    assert_eq!(step_ms(&mut offsets, 10, 5_000), Some((5, 5)));
    for tenth in 1..400 {
        assert_eq!(step_ms(&mut offsets, tenth * SECOND / 10, 5_000), None, "{tenth}");
    }
}

/// The drift that the rates allow since an old low reading does not hide a step that a later reading shows.
#[test]
fn a_step_after_silence() {
    let mut offsets = first();
    assert_eq!(step_ms(&mut offsets, SECOND, 1_000), None);
    assert_eq!(step_ms(&mut offsets, 27 * SECOND, 1_000), None);
    let step = step_ms(&mut offsets, 28 * SECOND, 101_000);
    assert_eq!(step, Some((95, 95)));
}

#[test]
fn a_reading_bounds_the_offset_from_both_sides() {
    let mut offsets = first();
    // The clock may have been read at once, or 20 ms later.
    let read = |offsets: &mut Offsets, sent, received, ahead| {
        offsets.read(EPOCH_US + sent + ahead, at(sent), at(received), WINDOW)
    };
    assert_eq!(read(&mut offsets, 100_000, 120_000, 21_000), None);
    let step = read(&mut offsets, 200_000, 200_000, 31_000).expect("31 ms against the first");
    assert_eq!(step.largest.as_millis(), 30);
}

#[test]
fn memory_is_bounded() {
    let mut offsets = first();
    // The clock is faster than allowed, so that every reading is higher than all before it.
    for reading in 0..100_000_u64 {
        let now_us = reading * 1000;
        offsets.read(EPOCH_US + now_us * 101 / 100, at(now_us), at(now_us), WINDOW);
    }
    assert!(offsets.kept.len() <= 34, "{}", offsets.kept.len());
}

proptest! {
    /// Requests and answers may travel for any time: a clock that runs as fast as allowed is never suspected.
    #[test]
    fn delays_alone_raise_no_doubt(
        legs in prop::collection::vec((0_u64..5_000_000, 0_u64..1_000_000, 0_u64..1_000_000), 1..40)
    ) {
        let mut offsets = first();
        let mut sent = 0;
        for (pause, there, back) in legs {
            sent += pause;
            let run = sent + there;
            let clock_us = EPOCH_US + run + run / 200;
            let step = offsets.read(clock_us, at(sent), at(run + back), WINDOW);
            prop_assert_eq!(step, None);
        }
    }

    /// Every hold loses at least the step that a reading shows against any reading since the hold began.
    #[test]
    fn the_sum_of_steps_covers_every_pair_of_readings(
        readings in prop::collection::vec((1_u64..2_000_000, -20_000_i64..20_000), 1..60)
    ) {
        let mut offsets = first();
        let (mut now_us, mut gained) = (0, 0.0);
        let mut before = vec![(0.0, 0.0, 0.0)];
        for (pause, ahead) in readings {
            now_us += pause;
            let clock_us = (EPOCH_US + now_us).checked_add_signed(ahead).expect("after 1970");
            let step = offsets.read(clock_us, at(now_us), at(now_us), WINDOW);
            gained += step.unwrap_or_default().gained.as_secs_f64();
            let now = Duration::from_micros(now_us).as_secs_f64();
            let offset = f64::from(i32::try_from(ahead).expect("small")) / 1e6;
            for (then, was, counted) in &before {
                let shown = offset - was - (now - then) * 0.005;
                prop_assert!(gained - counted >= shown - 0.001_01, "{shown} s");
            }
            before.push((now, offset, gained));
        }
    }
}

#[test]
fn a_reading_from_before_the_first_tells_nothing() {
    let mut offsets = Offsets::new(EPOCH_US, at(SECOND));
    let early = offsets.read(EPOCH_US + SECOND, at(0), at(SECOND), WINDOW);
    assert_eq!(early, None);
}

#[test]
fn readings_are_kept_for_the_window() {
    let mut offsets = first();
    // Each reading is a millisecond more than allowed, so that it is higher than the last.
    for reading in 1..=30_u32 {
        step_ms(
            &mut offsets,
            u64::from(reading) * 2 * SECOND,
            i64::from(reading) * 11_000,
        );
    }
    let kept: Vec<_> = offsets
        .kept
        .iter()
        .map(|reading| reading.to / 2_000_000)
        .collect();
    assert_eq!(kept, (15..=30).collect::<Vec<_>>());
}

#[test]
fn what_a_clock_of_milliseconds_may_seem_to_step_by_is_no_step() {
    assert_eq!(step_ms(&mut first(), 0, 1_000), None);
    let mut offsets = first();
    assert_eq!(step_ms(&mut offsets, 0, 1_001), Some((1, 1)));
    assert_eq!(step_ms(&mut offsets, 0, 1_001), None, "noted already");
}

#[test]
fn readings_are_kept_apart_by_a_part_of_the_window() {
    for (now_us, kept) in [(937_499, 1), (937_500, 2)] {
        let mut offsets = first();
        step_ms(&mut offsets, now_us, 50_000);
        assert_eq!(offsets.kept.len(), kept, "{now_us} µs");
    }
}
