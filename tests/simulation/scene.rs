//! The stage of a directed schedule: clients of some masters, one name, and the same judges as for
//! schedules at random.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Client, Direction, Keep, Master};
use multilock::{UnlockError, Unlocked};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::ask::{Ask, leave};
use crate::client::Seat;
use crate::history::Kind;
use crate::plan::{Class, Kinds, Plan, ms};
use crate::properties::judge;
use crate::run::{end_in_peace, tasks};
use crate::tap::Tap;
use crate::world::{Mine, World, clock_us, watch};

/// The fence of the name that scenes are about.
pub(crate) const FENCE: &str = "multilock_fence:{a}";

/// Three masters, two clients near them, and nothing that strikes by itself.
pub(crate) fn plan(class: Class, lease: Duration) -> Plan {
    Plan {
        seed: 1,
        class,
        nodes: 3,
        clients: 2,
        names: vec!["a"],
        kinds: Kinds::Plain,
        lease,
        max_lease: lease,
        node_timeout: ms(50),
        each: Vec::new(),
        length: ms(1300),
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
        skew: Duration::ZERO,
    }
}

pub(crate) struct Scene {
    pub(crate) world: Arc<World>,
    pub(crate) seats: Vec<Arc<Seat>>,
    watching: JoinHandle<()>,
    tasks: usize,
}

impl Scene {
    pub(crate) async fn open(plan: Plan) -> Self {
        let clients = vec![Client::new(); plan.clients];
        Self::open_with(plan, clients).await
    }

    /// With the first of the clients only; the others arrive later.
    pub(crate) async fn open_some(plan: Plan, clients: usize) -> Self {
        Self::open_with(plan, vec![Client::new(); clients]).await
    }

    /// Connects the next client, which knows of nothing that was before.
    pub(crate) async fn arrive(&mut self, place: usize) {
        assert_eq!(self.seats.len(), place, "they come in order");
        let terms = Client::new().network(&self.world.networks[place]);
        self.seats.push(seat(&self.world, place, terms).await);
    }

    /// Opens a scene with the given clients, which may have clocks that are off.
    pub(crate) async fn open_with(plan: Plan, clients: Vec<Client>) -> Self {
        let world = World::new(plan);
        let tasks = tasks();
        // It stays with the masters.
        let _ = Tap::on(&world, &[]);
        let mut seats = Vec::new();
        for (place, terms) in clients.into_iter().enumerate() {
            let terms = terms.network(&world.networks[place]);
            seats.push(seat(&world, place, terms).await);
        }
        let watching = tokio::spawn(watch(Arc::clone(&world)));
        Self {
            world,
            seats,
            watching,
            tasks,
        }
    }

    pub(crate) fn master(&self, place: usize) -> &Master {
        self.world.cluster.master(place)
    }

    pub(crate) fn masters(&self) -> impl Iterator<Item = &Master> {
        self.world.cluster.iter()
    }

    pub(crate) async fn lock(&self, client: usize, ask: Ask<'_>) -> Option<Mine> {
        ask.of(&self.world, &self.seats[client]).await
    }

    /// As [`lock`](Self::lock), in a task of its own.
    pub(crate) fn locking(&self, client: usize, ask: Ask<'static>) -> JoinHandle<Option<Mine>> {
        let (world, seat) = (Arc::clone(&self.world), Arc::clone(&self.seats[client]));
        tokio::spawn(async move { ask.of(&world, &seat).await })
    }

    pub(crate) async fn leave(
        &self,
        client: usize,
        mine: Option<Mine>,
    ) -> Option<Result<Unlocked, UnlockError>> {
        leave(&self.world, client, mine).await
    }

    /// Cuts the line between a client and a master.
    pub(crate) fn cut(&self, client: usize, master: usize, way: Direction) {
        self.world.networks[client].cut(master, way);
    }

    pub(crate) fn heal(&self, client: usize, master: usize) {
        self.world.networks[client].heal(master);
    }

    /// Restarts a master without its data.
    pub(crate) fn restart_empty(&self, place: usize) {
        self.forgets(place, "is started again, empty");
        self.master(place).crash();
        self.master(place).restart(Keep::Nothing);
    }

    /// Notes that a master loses its data.
    pub(crate) fn forgets(&self, place: usize, how: &str) {
        let fault = Kind::Fault {
            what: format!("m{place} {how}"),
            forgets: vec![place],
            forgets_fences: vec![place],
        };
        self.world.history.note(None, fault);
    }

    /// How often a script ran, on all masters together.
    pub(crate) fn executed(&self, script: &str) -> u64 {
        self.masters()
            .filter_map(|master| master.executed().get(script).copied())
            .sum()
    }

    /// Ends all faults, and judges the record.
    pub(crate) async fn end(self) {
        for (place, master) in self.masters().enumerate() {
            master.hold_requests(false);
            master.hold_replies(false);
            master.set_delay(Duration::ZERO, Duration::ZERO);
            master.set_notice_delay(None);
            master.deliver_abandoned();
            master.keep_abandoned(false);
            master.deny_client_kill(false);
            for client in 0..self.seats.len() {
                self.heal(client, place);
            }
        }
        let Self {
            world,
            seats,
            watching,
            tasks,
        } = self;
        let record = end_in_peace(&world, &seats, watching, tasks).await;
        let violations = judge(&world.plan, &record);
        if let Some(first) = violations.first() {
            println!("{}", record.render(&first.events));
            violated(first.property, &first.what);
        }
    }
}

async fn seat(world: &Arc<World>, place: usize, terms: Client) -> Arc<Seat> {
    let rng = StdRng::seed_from_u64((world.plan.seed << 8) | place as u64);
    Seat::sit(world, place, terms, rng).await
}

/// Fails, and says by which property.
pub(crate) fn violated(property: &str, what: &str) -> ! {
    panic!("violated: {property}: {what}");
}

/// Lets messages that are under way arrive.
pub(crate) async fn settle() {
    sleep(ms(2)).await;
}

/// A token so far ahead of a master's clock.
pub(crate) fn ahead(scene: &Scene, master: usize, by: Duration) -> String {
    let us = u64::try_from(by.as_micros()).expect("not too long");
    (clock_us(scene.master(master)) + us).to_string()
}

/// Fails where something took longer.
pub(crate) fn in_time(begun: Instant, within: Duration) {
    let took = begun.elapsed();
    if took > within {
        violated("progress", &format!("had it after {took:?} only"));
    }
}
