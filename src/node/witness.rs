//! Notices a master that may have forgotten what it granted while it went on running: its clock was
//! set forward, so that keys expired early, or its memory was wiped.
//!
//! Every answer that counts in a vote tells the master's wall clock. Two answers bound how much
//! further that clock has gone than this client's: the first was read not before its request was
//! sent, the second not after it was heard. What exceeds the drift that every validity allows for is
//! a step. A client can only notice a step between two answers that it has heard itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Moment;
use crate::rounded::Rounded;
use crate::validity::RESOLUTION;

/// Beyond the longest lease no validity depends on the rate of a clock; what is left is what an
/// undisturbed quartz and ntpd differ by at most: 500 in a million.
const LONG_TERM: f64 = 0.0005;

/// How much further a master's clock may go than the client's without being suspected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) drift_factor: f64,
    pub(crate) longest_lease: Duration,
    /// For how long a master has no vote that has exceeded it.
    pub(crate) quarantine: Duration,
}

impl Tolerance {
    /// What the rates of two clocks may add up to.
    fn slew(self, elapsed: Duration) -> Duration {
        let short = elapsed.min(self.longest_lease);
        let long = elapsed.saturating_sub(short);
        short
            .mul_f64(self.drift_factor)
            .saturating_add(long.mul_f64(LONG_TERM))
    }
}

/// What is known of one run of one master.
#[derive(Debug)]
pub(crate) struct Witness {
    node: Arc<str>,
    tolerance: Tolerance,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reference: Option<Reading>,
    doubt: Option<Doubt>,
}

/// A master's clock as an answer told it.
#[derive(Clone, Copy, Debug)]
struct Reading {
    clock_us: u64,
    /// When the request was sent: the clock was read then or later.
    sent: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    since: Instant,
    until: Instant,
}

impl Witness {
    pub(super) fn new(node: Arc<str>, tolerance: Tolerance) -> Self {
        Self {
            node,
            tolerance,
            state: Mutex::default(),
        }
    }

    /// Takes in what an answer told of the master's clock.
    pub(super) fn hear(&self, clock_us: u64, sent: Moment, heard: Moment) {
        let mut state = self.state();
        let Some(reference) = state.reference else {
            state.reference = Some(Reading { clock_us, sent });
            return;
        };
        let ran = Duration::from_micros(clock_us.saturating_sub(reference.clock_us));
        let at_most = heard.since(reference.sent);
        // What needs no slew to be explained comes first: nearly every answer, and the sum is not cheap.
        if ran > at_most + RESOLUTION && ran > at_most + self.tolerance.slew(at_most) + RESOLUTION {
            let ahead = Rounded(ran.saturating_sub(at_most));
            tracing::warn!(node = %self.node, %ahead, "master's clock was set forward; it has no vote for now");
            state.reference = Some(Reading { clock_us, sent });
            self.doubt(&mut state);
            return;
        }
        // The newer reading is the better reference, unless its request travelled so long that the
        // older one, with what the rates may have added since, bounds the clock more closely.
        let at_least = sent.since(reference.sent);
        if ran <= at_least || ran <= at_least + self.tolerance.slew(at_least) {
            state.reference = Some(Reading { clock_us, sent });
        }
    }

    /// Takes in that the master's memory was wiped.
    pub(super) fn wiped(&self) {
        tracing::warn!(node = %self.node, "master's memory was wiped; it has no vote for now");
        self.doubt(&mut self.state());
    }

    fn doubt(&self, state: &mut State) {
        let since = Instant::now();
        state.doubt = Some(Doubt {
            since,
            until: since + self.tolerance.quarantine,
        });
    }

    /// For how much longer than `now` the master has no vote.
    pub(super) fn quarantine(&self, now: Instant) -> Duration {
        let doubt = self.state().doubt;
        doubt.map_or(Duration::ZERO, |doubt| doubt.until.saturating_duration_since(now))
    }

    /// Whether doubt came up at `sent` or later, and for how much longer it stands.
    pub(super) fn doubted_since(&self, sent: Instant) -> Option<Duration> {
        let doubt = self.state().doubt.filter(|doubt| doubt.since >= sent)?;
        Some(doubt.until.saturating_duration_since(Instant::now()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EPOCH_US: u64 = 1_700_000_000_000_000;

    fn witness(drift_factor: f64) -> Witness {
        let tolerance = Tolerance {
            drift_factor,
            longest_lease: Duration::from_secs(30),
            quarantine: Duration::from_secs(31),
        };
        Witness::new("a".into(), tolerance)
    }

    fn at(us: u64) -> Moment {
        Moment::at(Duration::from_micros(us))
    }

    fn doubts(witness: &Witness) -> bool {
        !witness.quarantine(Instant::now()).is_zero()
    }

    #[test]
    fn a_step_beyond_the_drift_is_noticed() {
        for (step, elapsed, noticed) in [
            // 10 s allow for 100 ms and 2 ms.
            (101_000, 10_000_000, false),
            (104_000, 10_000_000, true),
            (3_600_000_000, 10_000_000, true),
            // An hour allows for 300 ms, 2 ms, and 500 in a million of the rest.
            (1_900_000, 3_600_000_000, false),
            (2_200_000, 3_600_000_000, true),
        ] {
            let witness = witness(0.01);
            witness.hear(EPOCH_US, at(0), at(500));
            witness.hear(EPOCH_US + elapsed + step, at(elapsed), at(elapsed + 500));
            assert_eq!(doubts(&witness), noticed, "{step} µs in {elapsed} µs");
        }
    }

    #[test]
    fn a_clock_set_back_is_no_step_forward_but_its_return_is() {
        let witness = witness(0.01);
        let second = 1_000_000;
        witness.hear(EPOCH_US, at(0), at(500));
        witness.hear(EPOCH_US - 60 * second, at(second), at(second + 500));
        assert!(!doubts(&witness));
        witness.hear(EPOCH_US + 2 * second, at(2 * second), at(2 * second + 500));
        assert!(doubts(&witness));
    }

    #[test]
    fn many_small_steps_are_noticed_as_one_large_one_would_be() {
        let witness = witness(0.0);
        let mut clock = EPOCH_US;
        for round in 0..10 {
            let sent = round * 1_000_000;
            // Half a millisecond a second is more than any drift allowed here, less than the resolution.
            clock += 500;
            witness.hear(clock + sent, at(sent), at(sent + 10));
        }
        assert!(doubts(&witness));
    }

    proptest! {
        /// However long requests and answers travel, a clock at the client's rate is never suspected.
        #[test]
        fn delays_alone_raise_no_doubt(
            legs in prop::collection::vec((0_u64..5_000_000, 0_u64..1_000_000, 0_u64..1_000_000), 1..40)
        ) {
            let witness = witness(0.0);
            let mut sent = 0;
            for (pause, there, back) in legs {
                sent += pause;
                witness.hear(EPOCH_US + sent + there, at(sent), at(sent + there + back));
            }
            prop_assert!(!doubts(&witness));
        }
    }
}
