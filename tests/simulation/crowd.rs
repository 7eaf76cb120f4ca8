//! One client with very many locks beside the others, which are all given up at once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use multilock::MultiLockGuard;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};

use crate::client::Seat;
use crate::history::Kind;
use crate::plan::ms_of;
use crate::world::World;

/// Prefix of the names of these locks. No other task asks for them, and single calls for them are not recorded.
pub(crate) const PREFIX: &str = "many-";

/// Asked for at once.
const AT_ONCE: usize = 500;
/// For each.
const PATIENCE: Duration = Duration::from_millis(300);

/// Takes `count` locks, or as many of them as it can get. Returns their guards.
pub(crate) async fn take(world: &World, seat: &Seat, count: usize) -> Vec<MultiLockGuard> {
    let masters = seat.masters();
    let mut guards = Vec::with_capacity(count);
    for first in (0..count).step_by(AT_ONCE) {
        let asking = (first..count.min(first + AT_ONCE)).map(async |number| {
            let lock = masters.red_lock(format!("{PREFIX}{number}"));
            lock.fenced(number % 2 == 0).wait(PATIENCE).lock().await
        });
        guards.extend(join_all(asking).await.into_iter().flatten());
    }
    note(world, seat, format!("took {} of {count} locks", guards.len()));
    guards
}

/// Takes them, and gives them up before `end`.
pub(crate) async fn come_and_go(
    world: Arc<World>,
    seat: Arc<Seat>,
    count: usize,
    mut rng: StdRng,
    end: Instant,
) {
    let guards = take(&world, &seat, count).await;
    let left = ms_of(end.saturating_duration_since(Instant::now()));
    sleep(Duration::from_millis(rng.random_range(0..=left))).await;
    if rng.random_bool(0.5) {
        note(&world, &seat, "drops them".into());
        drop(guards);
    } else {
        note(&world, &seat, "unlocks them".into());
        join_all(guards.into_iter().map(MultiLockGuard::unlock)).await;
    }
}

fn note(world: &World, seat: &Seat, what: String) {
    let op = world.next_op();
    world.history.note(Some(seat.place), Kind::Begun { op, what });
}
