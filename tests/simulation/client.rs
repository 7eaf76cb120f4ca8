//! A client of the masters, which stands for a process. It may end and start again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::Client;
use multilock::{Closing, Masters, Owner, Quarantine};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::client_plan::ClientPlan;
use crate::history::Kind;
use crate::plan::{Class, Plan, ms_of};
use crate::world::World;

/// Longer than any fault lasts.
const LONGEST_CONNECT: Duration = Duration::from_secs(60);

pub(crate) struct Seat {
    pub(crate) place: usize,
    pub(crate) plan: ClientPlan,
    world: Arc<World>,
    masters: Mutex<Masters>,
    /// Which of its tasks may share.
    pub(crate) owner: Owner,
    terms: Client,
    rng: Mutex<StdRng>,
}

impl Seat {
    pub(crate) async fn take(world: &Arc<World>, place: usize) -> Arc<Self> {
        let plan = &world.plan;
        let mut rng = StdRng::seed_from_u64(plan.seed ^ ((place as u64 + 1) << 40));
        let network = &world.networks[place];
        let mut terms = Client::new().network(network);
        if rng.random_bool(0.5) {
            let near = Duration::from_millis(rng.random_range(0..4));
            let far: Vec<_> = (0..plan.nodes)
                .map(|_| near + Duration::from_millis(rng.random_range(0..6)))
                .collect();
            for (place, distance) in far.into_iter().enumerate() {
                network.set_distance(place, distance);
            }
        }
        let skew = Duration::from_millis(rng.random_range(0..=ms_of(plan.skew)));
        terms = match rng.random_range(0..4) {
            0 => terms.clock_ahead(skew),
            1 => terms.clock_behind(skew),
            _ => terms,
        };
        Self::sit(world, place, terms, rng).await
    }

    /// As [`take`](Self::take), with the given terms. Only the draws of `rng` are random.
    pub(crate) async fn sit(world: &Arc<World>, place: usize, terms: Client, mut rng: StdRng) -> Arc<Self> {
        let plan = world.plan.client(place);
        let terms = terms.masters(&plan.masters);
        let masters = connect(world, &plan, &terms, &mut rng).await;
        world.history.note(Some(place), Kind::Phase("a client connects"));
        Arc::new(Self {
            place,
            plan,
            world: Arc::clone(world),
            masters: Mutex::new(masters),
            owner: Owner::new(),
            terms,
            rng: Mutex::new(rng),
        })
    }

    pub(crate) fn masters(&self) -> Masters {
        self.masters.lock().expect("not poisoned").clone()
    }

    /// Ends the process and starts another in its place.
    pub(crate) async fn begin_anew(&self, how: Closing) {
        let mut rng = StdRng::seed_from_u64(self.rng.lock().expect("not poisoned").random());
        let successor = connect(&self.world, &self.plan, &self.terms, &mut rng).await;
        let old = std::mem::replace(&mut *self.masters.lock().expect("not poisoned"), successor);
        self.close(&old, how).await;
    }

    pub(crate) async fn close(&self, masters: &Masters, how: Closing) {
        let what = match how {
            Closing::Leave => "a client closes and leaves its holds",
            _ => "a client closes and releases its holds",
        };
        self.world.history.note(Some(self.place), Kind::Phase(what));
        self.world.forget_leaks_of(self.place);
        masters.close(how).await;
        self.world.history.note(Some(self.place), Kind::Phase("closed"));
    }
}

async fn connect(world: &World, plan: &ClientPlan, terms: &Client, rng: &mut StdRng) -> Masters {
    let begun = Instant::now();
    loop {
        let terms = terms.clone().seed(rng.random());
        let builder = builder(&world.plan, plan);
        match world.cluster.connect_as(&terms, builder).await {
            Ok(masters) => return masters,
            // Too many are out of reach at the moment.
            Err(error) => assert!(
                begun.elapsed() < LONGEST_CONNECT,
                "seed {}: no client connects: {error}",
                world.plan.seed
            ),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) fn builder(plan: &Plan, client: &ClientPlan) -> multilock::MastersBuilder {
    let builder = Masters::builder()
        .node_timeout(client.node_timeout)
        .rounds(client.rounds)
        .beside_redisson(client.beside_redisson)
        .drift_factor(client.drift_factor)
        .lease(client.lease)
        .for_tests(plan.max_lease)
        .strict(plan.strict);
    if plan.class == Class::Reckless {
        builder.quarantine(Quarantine::Off)
    } else {
        builder
    }
}
