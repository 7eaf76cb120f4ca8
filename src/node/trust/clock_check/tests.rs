use proptest::prelude::*;

use super::*;
use crate::masters::config::Config;
use crate::time::validity::{Validity, drift};

const EPOCH_US: u64 = 1_700_000_000_000_000;

fn lease_timing() -> LeaseTiming {
    LeaseTiming::new(&Config::default())
}

fn at(time: Duration) -> Moment {
    Moment::at(time)
}

/// Answers without a round trip.
struct Readings {
    state: ClockState,
    start: Instant,
}

impl Readings {
    fn new() -> Self {
        Self {
            state: ClockState::default(),
            start: Instant::now(),
        }
    }

    fn observe(&mut self, now_us: u64, clock_us: u64) {
        let now = Duration::from_micros(now_us);
        if let Some(step) = self.state.observe(
            EPOCH_US + clock_us,
            at(now),
            at(now),
            lease_timing().longest_lease,
        ) {
            self.state.suspect_for(step, self.start + now);
        }
    }

    fn clock_quarantine(&self, now_us: u64) -> Duration {
        let now = self.start + Duration::from_micros(now_us);
        self.state.left(lease_timing().longest_lease, now)
    }
}

#[test]
fn doubt_lasts_as_long_as_what_the_step_harms_can_live() {
    for (step_us, doubt_ms) in [(1_000, 0), (5_000, 800), (50_000, 9_800), (302_000, 30_000)] {
        let mut readings = Readings::new();
        readings.observe(0, 0);
        readings.observe(1, 1 + step_us);
        assert_eq!(readings.clock_quarantine(1).as_millis(), doubt_ms, "{step_us} µs");
        // The same step, seen again.
        readings.observe(500_000, 500_000 + step_us);
        assert_eq!(readings.clock_quarantine(1).as_millis(), doubt_ms, "{step_us} µs");
    }
}

#[test]
fn a_small_step_does_not_prolong_the_doubt_about_a_large_one() {
    let mut readings = Readings::new();
    readings.observe(0, 0);
    readings.observe(1, 1 + 100_000);
    for second in 2..15 {
        readings.observe(second * 1_000_000, second * 1_000_000 + 100_000);
    }
    readings.observe(15_000_000, 15_000_000 + 105_000);
    assert_eq!(readings.clock_quarantine(1).as_millis(), 19_800);
}

/// More steps than are stored apart, each smaller than the one before. The last suspicion stands for all that had no place.
#[test]
fn many_steps_are_few_suspicions() {
    let (mut state, start) = (ClockState::default(), Instant::now());
    for n in 0..20 {
        let step = Step {
            largest: Duration::from_millis(100 - 4 * n),
            ..Step::default()
        };
        state.suspect_for(step, start);
    }
    assert_eq!(state.suspicions.len(), MOST_SUSPICIONS);
    let longest = lease_timing().longest_lease;
    assert_eq!(state.left(longest, start).as_millis(), 19_800);
    let last = state.suspicions.last().expect("one").left(longest, start);
    assert!(last >= Duration::from_secs(12), "{last:?}");
}

/// The clock of a test stands still: the question and the wipe, or the step, are of one moment.
#[tokio::test(start_paused = true)]
async fn what_is_noticed_at_the_moment_of_a_question_concerns_its_answer() {
    let lease_timing = lease_timing();
    let events = Arc::new(NodeEvents::new("a:1".into(), Arc::default()));
    let check = ClockCheck::new(events, lease_timing, Arc::new(Steps::new(1)));
    let sent = Instant::now();
    assert_eq!(
        (check.wiped_since(sent), check.suspected_since(sent)),
        (None, None)
    );
    check.wiped();
    // Leases of other clients last for the longest lease and the drift of their masters' clocks.
    let outlived = Duration::from_millis(30_302);
    assert_eq!(check.wiped_since(sent), Some(outlived));
    assert_eq!(check.memory_quarantine(sent + outlived), Duration::ZERO);
    let late = sent + Duration::from_millis(30_301);
    assert_eq!(check.memory_quarantine(late).as_millis(), 1);
    let second = Duration::from_secs(1);
    check.observe(EPOCH_US, at(Duration::ZERO), at(Duration::ZERO));
    check.observe(EPOCH_US + 2_000_000, at(second), at(second));
    assert_eq!(check.suspected_since(sent), Some(lease_timing.longest_lease));
    let later = sent + Duration::from_nanos(1);
    assert_eq!(
        (check.wiped_since(later), check.suspected_since(later)),
        (None, None)
    );
}

proptest! {
    /// Two quorums have one master in common. Leases of one client expire there by the master's clock, which
    /// steps and runs fast. Another client gets the expired names, unless it suspects the master.
    #[test]
    fn never_two_valid(
        lease_ms in prop_oneof![200_u64..2_000, 2_000_u64..30_000],
        rate in 0_u64..=5_000,
        events in prop::collection::vec((1_u64..100_000, 0_u64..20, 0_u64..=300), 1..400),
    ) {
        let lease = Duration::from_millis(lease_ms);
        let drift_us = u64::try_from(drift(lease, 0.01).as_micros()).expect("small");
        let mut readings = Readings::new();
        let (mut now_us, mut stepped_us) = (0, 0);
        let mut granted: Option<(Validity, u64)> = None;
        for (pause_us, what, size) in events {
            now_us += pause_us;
            if what == 0 {
                // Up to three times the drift.
                stepped_us += drift_us * size / 100;
            }
            let clock_us = now_us + now_us / 1_000_000 * rate + stepped_us;
            readings.observe(now_us, clock_us);
            let free = granted.is_none_or(|(_, expires_us)| expires_us <= clock_us);
            if free && readings.clock_quarantine(now_us).is_zero() {
                let moment = at(Duration::from_micros(now_us));
                if let Some((validity, _)) = granted {
                    prop_assert!(validity.remaining(moment).is_zero(), "two hold at {now_us} µs");
                }
                let validity = Validity::of_lease(moment, lease, 0.01);
                granted = Some((validity, clock_us + lease_ms * 1000));
            }
        }
    }
}
