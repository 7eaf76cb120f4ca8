//! What a seed stands for: the class of the schedule, its size and its terms.

use std::time::Duration;

use multilock::Policy;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Which faults strike, and so what is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Slow networks and contention only.
    Calm,
    /// Masters stop, break off and complain, and keep what they acknowledged.
    Durable,
    /// Masters come back empty, and are in quarantine.
    Forgetful,
    /// What was on its way over a broken connection is executed later.
    Stale,
    /// Operators take names away by force.
    Forced,
    /// Outside of what locks can bear: masters forget unnoticed, wall clocks are hours off.
    Reckless,
}

impl Class {
    const ALL: [Self; 6] = [
        Self::Calm,
        Self::Durable,
        Self::Forgetful,
        Self::Stale,
        Self::Forced,
        Self::Reckless,
    ];

    /// Whether locks exclude each other, rather than only their tokens.
    pub(crate) fn keeps_assumptions(self) -> bool {
        self != Self::Reckless
    }
}

/// The terms of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) class: Class,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    /// Tasks of each client.
    pub(crate) actors: usize,
    pub(crate) names: Vec<&'static str>,
    pub(crate) lease: Duration,
    pub(crate) max_lease: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) length: Duration,
    pub(crate) fenced: bool,
    /// Whether the masters' memory is marked.
    pub(crate) strict: bool,
    /// How far wall clocks may be off.
    pub(crate) skew: Duration,
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Plan {
    /// How many classes the seeds go through in turn.
    pub(crate) const CLASSES: u64 = Class::ALL.len() as u64;

    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        // In turn, so that every few seeds see every class.
        let class = Class::ALL[usize::try_from(seed % Self::CLASSES).expect("small")];
        let node_timeout = ms(pick(&mut rng, &[20, 50]));
        let short = class == Class::Forgetful || rng.random_bool(0.6);
        let max_lease = if short {
            ms(rng.random_range(600..4000))
        } else {
            ms(rng.random_range(4000..30_000))
        };
        let lease = if rng.random_bool(0.5) {
            max_lease
        } else {
            (max_lease / 3).max(ms(200))
        };
        // A client's clock may be off by half a quarantine, less what uptime is rounded by.
        let skew = if class == Class::Forgetful {
            (max_lease / 2).saturating_sub(ms(10))
        } else {
            Duration::from_secs(3600)
        };
        let all = ["a", "b", "c"];
        let names = rng.random_range(1..=3);
        Self {
            seed,
            class,
            nodes: pick(&mut rng, &[3, 3, 3, 4, 5]),
            clients: rng.random_range(2..=4),
            actors: rng.random_range(1..=2),
            names: all[..names].to_vec(),
            lease,
            max_lease,
            node_timeout,
            length: ms(rng.random_range(500..2200)) + if short { max_lease / 2 } else { Duration::ZERO },
            fenced: rng.random_bool(0.9),
            strict: false,
            skew,
        }
    }

    /// Any policy.
    pub(crate) fn policy(&self, rng: &mut StdRng) -> Policy {
        let majority = self.nodes / 2 + 1;
        match rng.random_range(0..6) {
            0 => Policy::MultiLock,
            1 => Policy::AtLeast(rng.random_range(majority..=self.nodes)),
            _ => Policy::RedLock,
        }
    }

    /// Any lease that the builder allows.
    pub(crate) fn lease(&self, rng: &mut StdRng) -> Duration {
        let shortest = ms(200).min(self.max_lease);
        let longest = if rng.random_bool(0.6) {
            shortest * 3
        } else {
            self.max_lease
        };
        ms(rng.random_range(ms_of(shortest)..=ms_of(longest.min(self.max_lease).max(shortest))))
    }
}

pub(crate) fn ms_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a short time")
}

pub(crate) fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}
