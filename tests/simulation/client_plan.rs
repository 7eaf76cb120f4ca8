//! Plan of one client of a run: its configuration, and the way in which its tasks work.

use std::time::Duration;

use multilock::{Policy, Rounds};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use crate::guard::LockKind;
use crate::plan::{Plan, ms, ms_of, pick};

#[derive(Clone, Debug)]
pub(crate) struct ClientPlan {
    pub(crate) lease: Duration,
    /// The longest that its call sites ask for.
    pub(crate) max_lease: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) rounds: Rounds,
    /// Whether it announces its releases to clients of Redisson's, and listens to theirs.
    pub(crate) beside_redisson: bool,
    /// Whether most of its call sites let names stay with it, where that is allowed.
    pub(crate) sticky: bool,
    pub(crate) drift_factor: f64,
    /// The masters that it lists, in its own order.
    pub(crate) masters: Vec<usize>,
    pub(crate) policies: Policies,
    /// The share of its call sites that ask for a token.
    pub(crate) fenced: f64,
    pub(crate) pace: Pace,
    pub(crate) tasks: usize,
    /// The share of its call sites that read, where others write.
    pub(crate) reading: f64,
    /// Lock that its tasks want most of the time, if they all want the same one.
    pub(crate) alike: Option<Alike>,
}

/// Terms that tasks have in common, for the builder's lease. A grant that one task leaves may be handed on to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike {
    /// Number of names, counted from the first name of the run.
    pub(crate) names: usize,
    pub(crate) kind: LockKind,
    pub(crate) policy: Policy,
    pub(crate) fenced: bool,
    pub(crate) fair: bool,
    pub(crate) min_validity: Duration,
    /// How long they keep it mostly, in milliseconds at the most.
    pub(crate) section: u64,
}

/// Which policies its call sites have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policies {
    Red,
    Multi,
    Any,
}

/// When its tasks do something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// They act again and again, with pauses of at most the given milliseconds.
    Steady(u64),
    /// They act several times at once, and then pause for at most the given milliseconds.
    Bursts(u64),
    /// They come once, take one lock, and leave after they have given it up.
    Once,
}

impl ClientPlan {
    /// Has all of its call sites ask for tokens, or none.
    pub(crate) fn fence(&mut self, is_fenced: bool) {
        self.fenced = if is_fenced { 1.0 } else { 0.0 };
        if let Some(alike) = &mut self.alike {
            alike.fenced = is_fenced;
        }
    }

    /// Plan of an ordinary client, on the terms of the run.
    pub(crate) fn plain(plan: &Plan) -> Self {
        Self {
            lease: plan.lease,
            max_lease: plan.max_lease,
            node_timeout: plan.node_timeout,
            rounds: Rounds::All,
            beside_redisson: true,
            sticky: false,
            drift_factor: 0.01,
            masters: (0..plan.nodes).collect(),
            policies: Policies::Any,
            fenced: 1.0,
            pace: Pace::Steady(30),
            tasks: 1,
            reading: 0.5,
            alike: None,
        }
    }

    /// Any that may stand beside the others of the run.
    pub(crate) fn draw(plan: &Plan, rng: &mut StdRng) -> Self {
        let max_lease = match rng.random_range(0..6) {
            0 | 1 => ms(rng.random_range(ms_of(plan.max_lease / 3).max(200)..=ms_of(plan.max_lease))),
            _ => plan.max_lease,
        };
        let lease = match rng.random_range(0..4) {
            0 => ms(rng.random_range(200..=ms_of(max_lease))),
            1 => (max_lease / 3).max(ms(200)),
            _ => max_lease,
        };
        let mut masters: Vec<_> = (0..plan.nodes).collect();
        if rng.random_bool(0.5) {
            masters.shuffle(rng);
        }
        Self {
            lease,
            max_lease,
            node_timeout: ms(pick(rng, &[20, 20, 50, 50, 80])),
            rounds: match pick(rng, &[Rounds::All, Rounds::Thrifty]) {
                // From here to the drift nothing is drawn, so that seeds stand for the same schedules as before.
                Rounds::Thrifty if ms_of(lease).is_multiple_of(5) => Rounds::Adaptive,
                rounds => rounds,
            },
            beside_redisson: ms_of(lease).is_multiple_of(2),
            sticky: !ms_of(lease).is_multiple_of(3),
            drift_factor: if ms_of(lease).is_multiple_of(7) {
                0.05
            } else {
                0.01
            },
            masters,
            policies: pick(
                rng,
                &[Policies::Any, Policies::Any, Policies::Red, Policies::Multi],
            ),
            fenced: pick(rng, &[1.0, 1.0, 0.9, 0.5, 0.0]),
            pace: match rng.random_range(0..10) {
                0 => Pace::Once,
                1..=3 => Pace::Bursts(pick(rng, &[200, 1500])),
                _ => Pace::Steady(pick(rng, &[3, 30, 200])),
            },
            tasks: pick(rng, &[1, 1, 1, 2, 2, 3]),
            reading: pick(rng, &[0.1, 0.5, 0.5, 0.8]),
            alike: None,
        }
    }

    /// The same, with tasks that want the same.
    pub(crate) fn alike(self, plan: &Plan, rng: &mut StdRng) -> Self {
        let alike = Alike {
            names: pick(rng, &[1, 1, 1, 2]).min(plan.names.len()),
            kind: plan.kinds.draw(self.reading, rng),
            policy: self.policy(rng),
            fenced: rng.random_bool(self.fenced),
            fair: rng.random_bool(0.5),
            min_validity: self.lease.mul_f64(pick(rng, &[0.0, 0.0, 0.5, 0.9])),
            section: pick(rng, &[0, 2, 8]),
        };
        Self {
            tasks: rng.random_range(2..=5),
            alike: Some(alike),
            ..self
        }
    }

    pub(crate) fn policy(&self, rng: &mut StdRng) -> Policy {
        let nodes = self.masters.len();
        match (self.policies, rng.random_range(0..6)) {
            (Policies::Multi, _) | (Policies::Any, 0) => Policy::MultiLock,
            (Policies::Any, 1) => Policy::AtLeast(rng.random_range(nodes / 2 + 1..=nodes)),
            _ => Policy::RedLock,
        }
    }

    /// Any lease that the builder allows.
    pub(crate) fn any_lease(&self, rng: &mut StdRng) -> Duration {
        let shortest = ms(200).min(self.max_lease);
        let longest = if rng.random_bool(0.6) {
            shortest * 3
        } else {
            self.max_lease
        };
        ms(rng.random_range(ms_of(shortest)..=ms_of(longest.min(self.max_lease).max(shortest))))
    }
}
