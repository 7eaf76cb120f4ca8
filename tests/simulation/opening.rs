//! The first moment of a run: tasks begin to wait while their clients have lost masters to which they were connected.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use multilock::sim::Direction;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::ask::{Ask, leave};
use crate::client::Seat;
use crate::history::Kind;
use crate::plan::{Kinds, Opening, ms};
use crate::world::World;

/// The parts of it, in the record.
pub(crate) const OPENING: &str = "everybody asks for one name";
pub(crate) const REACHED: &str = "all masters can be reached";
pub(crate) const OPENED: &str = "everybody has had the name";

/// Longer than any wait that ends.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn open(world: &Arc<World>, seats: &[Arc<Seat>], opening: &Opening, mut rng: StdRng) {
    world.history.note(None, Kind::Phase(OPENING));
    let lost = (0..world.plan.nodes).filter(|master| !opening.known.contains(master));
    let lost: Vec<usize> = lost.collect();
    let of_some = || {
        let networks = opening.clients.iter().map(|client| &world.networks[*client]);
        networks.flat_map(|network| lost.iter().map(move |master| (network, *master)))
    };
    of_some().for_each(|(network, master)| network.cut(master, Direction::Both));
    for master in &lost {
        world.cluster.master(*master).reset_connections();
    }
    // Clients notice it, and connect again where they can after a pause.
    sleep(ms(1)).await;
    let until = Instant::now() + opening.out + opening.length;
    let seats = seats
        .iter()
        .flat_map(|seat| (0..opening.tasks).map(move |_| seat));
    let tasks: Vec<_> = seats
        .map(|seat| {
            let rng = StdRng::seed_from_u64(rng.random());
            tokio::spawn(again_and_again(Arc::clone(world), Arc::clone(seat), rng, until))
        })
        .collect();
    sleep(opening.out).await;
    of_some().for_each(|(network, master)| network.heal(master));
    world.history.note(None, Kind::Phase(REACHED));
    for ended in join_all(tasks).await {
        ended.expect("no panic");
    }
    world.history.note(None, Kind::Phase(OPENED));
}

/// Has the name for a moment, and comes again, mostly at once.
async fn again_and_again(world: Arc<World>, seat: Arc<Seat>, mut rng: StdRng, until: Instant) {
    let ask = Ask::new().wait(PATIENCE);
    let ask = match world.plan.kinds {
        Kinds::ReadWrite => ask.write(),
        Kinds::Plain | Kinds::Mixed => ask,
    };
    while Instant::now() < until {
        let Some(mine) = ask.of(&world, &seat).await else {
            return;
        };
        sleep(ms(rng.random_range(0..=6))).await;
        if rng.random_bool(0.5) {
            drop(world.give_up(seat.place, mine, "drop"));
        } else {
            leave(&world, seat.place, Some(mine)).await;
        }
        if rng.random_bool(0.1) {
            sleep(ms(rng.random_range(0..=20))).await;
        }
    }
}
