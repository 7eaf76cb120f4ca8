//! Partitions in which everybody sees something else: each client has a majority of its own, or two halves are
//! joined by one client alone. They are turned again and again.

use std::sync::Arc;

use multilock::sim::Direction;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use crate::history::Kind;
use crate::plan::{ms, pick};
use crate::world::World;

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Each client sees a majority, and each another one.
    Ring,
    /// The first client sees all masters, and the others see one half or the other.
    Bridge,
}

impl Shape {
    fn sees(self, client: usize, master: usize, nodes: usize, turn: usize) -> bool {
        let place = (master + turn) % nodes;
        match self {
            Self::Ring => (place + client) % nodes <= nodes / 2,
            Self::Bridge => client == turn % 2 || (place <= nodes / 2) == client.is_multiple_of(2),
        }
    }
}

/// Turns a partition until `end`, and then heals it.
pub(crate) async fn turn(world: Arc<World>, mut rng: StdRng, end: Instant) {
    let shape = pick(&mut rng, &[Shape::Ring, Shape::Bridge]);
    let longest = pick(&mut rng, &[100, 400, 1500]);
    let mut turn = rng.random_range(0..world.plan.nodes);
    while Instant::now() < end {
        draw_lines(&world, |client, master| {
            shape.sees(client, master, world.plan.nodes, turn)
        });
        note(&world, format!("{shape:?} of masters, turned by {turn}"));
        let left = end.saturating_duration_since(Instant::now());
        sleep(ms(rng.random_range(1..=longest)).min(left)).await;
        turn += 1;
    }
    draw_lines(&world, |_, _| true);
    note(&world, "all clients see all masters".to_owned());
}

/// Cuts and heals connections, until each client sees exactly its masters.
fn draw_lines(world: &World, sees: impl Fn(usize, usize) -> bool) {
    for (client, network) in world.networks.iter().enumerate() {
        for master in 0..world.plan.nodes {
            if sees(client, master) {
                network.heal(master);
            } else {
                network.cut(master, Direction::Both);
            }
        }
    }
}

fn note(world: &World, what: String) {
    let (forgets, forgets_fences) = (Vec::new(), Vec::new());
    let fault = Kind::Fault {
        what,
        forgets,
        forgets_fences,
    };
    world.history.note(None, fault);
}
