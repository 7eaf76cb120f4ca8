//! An operator that looks at the locks and takes them away from their holders at any moment.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use crate::ask::force;
use crate::client::Seat;
use crate::plan::pick;
use crate::world::World;

/// Operates until `end`, by way of any client, with pauses of at most `pace` milliseconds.
pub(crate) async fn operate(
    world: Arc<World>,
    seats: Vec<Arc<Seat>>,
    pace: u64,
    mut rng: StdRng,
    end: Instant,
) {
    loop {
        sleep(Duration::from_millis(rng.random_range(0..=pace))).await;
        if Instant::now() >= end {
            return;
        }
        let seat = &seats[rng.random_range(0..seats.len())];
        let name = pick(&mut rng, &world.plan.names);
        let forces = rng.random_bool(0.5);
        let acting = async {
            if forces {
                force(&world, seat, name).await;
            } else {
                let _ = seat.masters().red_lock(name).inspect().await;
            }
        };
        // Operators lose patience, too.
        let patience = pick(&mut rng, &[10_000, 10_000, 10_000, 20]);
        let _ = timeout(Duration::from_millis(patience), acting).await;
    }
}
