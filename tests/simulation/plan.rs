//! Plan that a seed stands for: the class of the schedule, its size and its terms.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::client_plan::ClientPlan;
use crate::guard::LockKind;

/// Faults that strike, and with them the promises that hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Slow networks and contention only.
    Calm,
    /// Masters stop, break connections and answer with errors, and keep all data that they acknowledged.
    Durable,
    /// Masters come back empty, and are in quarantine.
    Forgetful,
    /// Requests that were under way over a broken connection are executed later.
    Stale,
    /// Operators take names away by force.
    Forced,
    /// Faults beyond the tolerance of locks: masters forget unnoticed, hosts stop, and clocks step.
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

/// Which kinds of locks there are in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kinds {
    Plain,
    ReadWrite,
    /// Both on the same names.
    Mixed,
}

impl Kinds {
    pub(crate) fn are_plain(self) -> bool {
        matches!(self, Self::Plain)
    }

    /// One for each in turn.
    pub(crate) fn of_turn(self, turn: usize) -> LockKind {
        let all: &[LockKind] = match self {
            Self::Plain => &[LockKind::Plain],
            Self::ReadWrite => &[LockKind::Read, LockKind::Write],
            Self::Mixed => &[LockKind::Read, LockKind::Plain, LockKind::Write],
        };
        all[turn % all.len()]
    }

    /// Draws the kind for a call site. `reading` is the share of call sites that read.
    pub(crate) fn draw(self, reading: f64, rng: &mut StdRng) -> LockKind {
        match self {
            Self::Plain => LockKind::Plain,
            Self::Mixed if rng.random_bool(0.3) => LockKind::Plain,
            _ if rng.random_bool(reading) => LockKind::Read,
            _ => LockKind::Write,
        }
    }
}

/// The terms of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) class: Class,
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    pub(crate) names: Vec<&'static str>,
    pub(crate) kinds: Kinds,
    /// Terms of each client without a plan of its own in `each`: from here to `node_timeout`.
    pub(crate) lease: Duration,
    /// The longest lease of anybody.
    pub(crate) max_lease: Duration,
    pub(crate) node_timeout: Duration,
    /// Each client's own terms, where they differ.
    pub(crate) each: Vec<ClientPlan>,
    pub(crate) length: Duration,
    /// How often an operator does something, in milliseconds at the most between; never without.
    pub(crate) operator: Option<u64>,
    /// First work of the tasks of its clients.
    pub(crate) opening: Option<Opening>,
    /// How many locks one client has beside the others.
    pub(crate) crowd: Option<Crowd>,
    /// Tasks of each client that want permits of the first name all the time.
    pub(crate) permit_tasks: usize,
    /// Tasks of each client that are candidates for the lead under the first name all the time.
    pub(crate) candidates: usize,
    /// Whether each client sees other masters, in turn.
    pub(crate) partitioned: bool,
    /// Whether masters' clocks step forward, by much more than a round trip, under clients that know them.
    pub(crate) steps: bool,
    /// Parts per million by which each master's clock is faster than the clients'; none where all run alike.
    pub(crate) rates: Vec<i32>,
    /// Which masters are late for a long time, and by how much.
    pub(crate) late: Option<Late>,
    /// Whether the record of a master is looked at with each vote.
    pub(crate) strict: bool,
    /// How far wall clocks may be off.
    pub(crate) skew: Duration,
}

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Tasks of all clients that want one name, at first while some of the masters are out of reach of some clients.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    /// Masters with clocks that these clients know in the first moment. The other masters are out of their reach.
    pub(crate) known: Vec<usize>,
    pub(crate) clients: Vec<usize>,
    /// For so long.
    pub(crate) out: Duration,
    /// For so long tasks come again after that.
    pub(crate) length: Duration,
    /// Of each client.
    pub(crate) tasks: usize,
}

impl Opening {
    fn draw(plan: &Plan, rng: &mut StdRng) -> Self {
        let mut known: Vec<_> = (0..plan.nodes).collect();
        known.shuffle(rng);
        known.truncate(pick(rng, &[0, 0, 1, 2]));
        let mut clients: Vec<_> = (0..plan.clients).collect();
        clients.shuffle(rng);
        clients.truncate(rng.random_range(1..=plan.clients));
        Self {
            known,
            clients,
            out: ms(rng.random_range(5..300)),
            length: ms(2_200),
            tasks: rng.random_range(3..=4),
        }
    }
}

/// Very many locks of one client, and when they are held.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crowd {
    /// While everything else goes on; they are dropped or unlocked all at once.
    Throughout(usize),
    /// In the end; the client is closed with them.
    AtTheEnd(usize),
}

/// One schedule of this number has such a crowd.
const CROWDED: u64 = 997;
/// Number of its locks.
const CROWD: usize = 10_000;

/// Masters that are alive and late: around the time at which clients cease to wait for them, and above.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    pub(crate) masters: Vec<usize>,
    /// Since the beginning of the run.
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    pub(crate) request: Duration,
    pub(crate) reply: Duration,
}

impl Late {
    fn draw(plan: &Plan, rng: &mut StdRng) -> Self {
        let nodes = plan.nodes;
        let most = pick(rng, &[1, 1, (nodes - 1) / 2, nodes / 2 + 1, nodes]);
        let mut masters: Vec<_> = (0..nodes).collect();
        masters.shuffle(rng);
        masters.truncate(most);
        let length = ms_of(plan.length);
        let from = rng.random_range(0..=length / 2);
        let longest = pick(rng, &[60, 120, 400]);
        let round_trip = rng.random_range(15..longest);
        let reply = rng.random_range(0..=round_trip);
        Self {
            masters,
            from: ms(from),
            until: ms(rng.random_range(from..=length * 3 / 2)),
            request: ms(round_trip - reply),
            reply: ms(reply),
        }
    }
}

impl Plan {
    /// How many classes the seeds go through in turn.
    pub(crate) const CLASSES: u64 = Class::ALL.len() as u64;

    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        // In turn, so that every few seeds see every class.
        let class = Class::ALL[usize::try_from(seed % Self::CLASSES).expect("small")];
        let short = class == Class::Forgetful || rng.random_bool(0.6);
        let max_lease = if short {
            ms(rng.random_range(600..4000))
        } else {
            ms(rng.random_range(4000..30_000))
        };
        // A client's clock may be off by half a quarantine.
        let skew = if class == Class::Forgetful {
            (max_lease / 2).saturating_sub(ms(10))
        } else {
            Duration::from_secs(3600)
        };
        let all = ["a", "b", "c", "d"];
        let names = rng.random_range(1..=4);
        // Drawn from a generator of its own, because much else depends on the next draws of the other.
        let mut rng_kinds = StdRng::seed_from_u64(seed ^ 0x4b49_4e44);
        let drawn = [Kinds::Plain, Kinds::ReadWrite, Kinds::ReadWrite, Kinds::Mixed];
        let kinds = pick(&mut rng_kinds, &drawn);
        let mut plan = Self {
            seed,
            class,
            nodes: pick(&mut rng, &[3, 3, 3, 4, 5]),
            clients: rng.random_range(2..=4),
            names: all[..names].to_vec(),
            kinds,
            lease: max_lease,
            max_lease,
            node_timeout: ms(50),
            each: Vec::new(),
            length: ms(rng.random_range(500..2200)) + if short { max_lease / 2 } else { Duration::ZERO },
            operator: None,
            opening: None,
            crowd: None,
            permit_tasks: 0,
            candidates: 0,
            partitioned: false,
            steps: false,
            rates: Vec::new(),
            late: None,
            strict: false,
            skew,
        };
        let mut rng_opening = StdRng::seed_from_u64(seed ^ 0x000f_1257);
        if rng_opening.random_bool(0.125) {
            plan.opening = Some(Opening::draw(&plan, &mut rng_opening));
            // Tickets follow the order of arrival only if clients read the same time from the masters' clocks.
            plan.skew = Duration::ZERO;
        }
        plan.each = (0..plan.clients)
            .map(|_| ClientPlan::draw(&plan, &mut rng))
            .collect();
        // In half of the schedules one client's tasks want the same, and at times others' do.
        let mut rng_alike = StdRng::seed_from_u64(seed ^ 0xa11c);
        if rng_alike.random_bool(0.5) {
            let first = rng_alike.random_range(0..plan.clients);
            for place in 0..plan.clients {
                if place == first || rng_alike.random_bool(0.3) {
                    plan.each[place] = plan.each[place].clone().alike(&plan, &mut rng_alike);
                }
            }
        }
        // A name is locked with tokens by everybody, or by nobody.
        let is_fenced = plan.opening.is_some() || plan.each[0].fenced >= 0.5;
        for client in &mut plan.each {
            client.fence(is_fenced);
        }
        // A force takes promises away from its holder. Under reckless faults a holder has none, so no operator acts.
        if class == Class::Forced || class.keeps_assumptions() && rng.random_bool(0.25) {
            plan.operator = Some(pick(&mut rng, &[150, 600, 2000]));
        }
        plan.crowd = (seed % CROWDED == CROWDED / 2).then(|| {
            if rng.random_bool(0.5) {
                Crowd::Throughout(CROWD)
            } else {
                Crowd::AtTheEnd(CROWD)
            }
        });
        let mut rng_permits = StdRng::seed_from_u64(seed ^ 0x9e12_3175);
        if rng_permits.random_bool(0.125) {
            plan.permit_tasks = rng_permits.random_range(1..=2);
        }
        let mut rng_candidates = StdRng::seed_from_u64(seed ^ 0x1ead_0001);
        if plan.kinds != Kinds::ReadWrite && rng_candidates.random_bool(0.25) {
            plan.candidates = rng_candidates.random_range(1..=2);
        }
        let mut rng_partitions = StdRng::seed_from_u64(seed ^ 0x9a27_1710);
        plan.partitioned = class != Class::Calm && rng_partitions.random_bool(0.125);
        let mut rng_steps = StdRng::seed_from_u64(seed ^ 0x57e9_5000);
        plan.steps = matches!(class, Class::Durable | Class::Stale) && rng_steps.random_bool(0.25);
        let mut rng_rates = StdRng::seed_from_u64(seed ^ 0x2a7e_0001);
        if rng_rates.random_bool(0.25) {
            plan.rates = (0..plan.nodes).map(|_| draw_rate(&mut rng_rates)).collect();
        }
        plan.late = rng.random_bool(0.25).then(|| Late::draw(&plan, &mut rng));
        plan.strict = StdRng::seed_from_u64(seed ^ 0x0057_121c).random_bool(0.25);
        plan
    }

    /// For how long anybody waits for an answer at the most.
    pub(crate) fn longest_deadline(&self) -> Duration {
        let each = self.each.iter().map(|client| client.node_timeout);
        each.chain([self.node_timeout]).max().expect("one at the least")
    }

    /// Plan of one client.
    pub(crate) fn client(&self, place: usize) -> ClientPlan {
        let own = self.each.get(place).cloned();
        own.unwrap_or_else(|| ClientPlan::plain(self))
    }
}

/// Most by which the rates of a master's clock and of a client's may differ, in parts per million: half a drift.
pub(crate) const MOST_APART: i32 = 5_000;

/// Draws the rate of a master's clock; often as far from a client's as it may be.
fn draw_rate(rng: &mut StdRng) -> i32 {
    let any = rng.random_range(-MOST_APART..=MOST_APART);
    pick(rng, &[-MOST_APART, MOST_APART, any, 0])
}

pub(crate) fn ms_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a short time")
}

pub(crate) fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}
