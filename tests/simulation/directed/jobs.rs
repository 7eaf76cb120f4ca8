//! Names that are kept for a while after the job is done.

use std::time::Duration;

use multilock::sim::Direction;
use multilock::{Policy, Unlocked};
use tokio::time::{Instant, sleep, sleep_until};

use crate::ask::Ask;
use crate::plan::{Class, MOST_APART, ms};
use crate::scene::{Scene, in_time, plan, settle, violated};
use crate::world::Mine;

const LEASE: Duration = ms(3000);
const KEPT: Duration = ms(1000);

fn kept() -> Ask<'static> {
    Ask::new().lease(LEASE).at_least(KEPT)
}

fn waiting() -> Ask<'static> {
    Ask::new().lease(LEASE).wait(ms(20_000))
}

/// Leaves a hold with names that are to be kept.
async fn done(scene: &Scene, mine: Option<Mine>) {
    let left = scene.leave(0, mine).await;
    if !matches!(left, Some(Ok(Unlocked::KeptFor(_)))) {
        violated("mutual exclusion", &format!("its names are not kept: {left:?}"));
    }
}

/// A waiter elsewhere gets the lock when the time is over, and not before. A try that comes later is refused.
#[tokio::test(start_paused = true)]
async fn who_waits_is_in_when_it_is_over() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let begun = Instant::now();
    let mine = scene.lock(0, kept()).await;
    let rival = scene.locking(1, waiting());
    sleep(ms(10)).await;
    done(&scene, mine).await;
    let refused = scene.lock(1, Ask::new()).await;
    assert!(refused.is_none(), "a try is no way in");
    let mine = rival.await.expect("no panic");
    in_time(begun, KEPT + ms(100));
    assert!(mine.is_some(), "the names are free in the end");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// The masters count the time as shorter, by as much as rates may differ.
#[tokio::test(start_paused = true)]
async fn who_tries_is_kept_out_where_clocks_run_fast() {
    let mut plan = plan(Class::Calm, LEASE);
    plan.rates = vec![MOST_APART; plan.nodes];
    let scene = Scene::open(plan).await;
    let begun = Instant::now();
    let mine = scene.lock(0, kept()).await;
    done(&scene, mine).await;
    sleep_until(begun + KEPT - ms(2)).await;
    if scene.lock(1, Ask::new().lease(LEASE)).await.is_some() {
        violated("mutual exclusion", "its names were free too early");
    }
    scene.end().await;
}

/// The next task of the same process has waited since before, and would have had it at once.
#[tokio::test(start_paused = true)]
async fn it_is_kept_from_the_next_of_the_process() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let mine = scene.lock(0, kept()).await;
    let next = scene.locking(0, kept().wait(ms(20_000)));
    sleep(ms(10)).await;
    done(&scene, mine).await;
    let mine = next.await.expect("no panic");
    done(&scene, mine).await;
    scene.end().await;
}

/// A guard that is dropped says nothing, and keeps the names all the same.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_keeps_them() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let mine = scene.lock(0, kept().policy(Policy::MultiLock)).await;
    let mine = mine.expect("free");
    drop(scene.world.give_up(0, mine, "drop"));
    settle().await;
    let rival = scene.lock(1, waiting()).await;
    assert!(rival.is_some(), "the names are free in the end");
    scene.leave(1, rival).await;
    scene.end().await;
}

/// Two of three masters hear of it only once they have been connected again, and by then must not be told to release it.
#[tokio::test(start_paused = true)]
async fn who_was_not_told_keeps_them_for_the_lease() {
    let scene = Scene::open(plan(Class::Durable, LEASE)).await;
    let mine = scene.lock(0, kept()).await;
    assert!(mine.is_some(), "free");
    for master in [1, 2] {
        scene.cut(0, master, Direction::ToMaster);
        scene.master(master).reset_connections();
    }
    scene.leave(0, mine).await;
    for master in [1, 2] {
        scene.heal(0, master);
    }
    sleep(ms(300)).await;
    let rival = scene.lock(1, waiting()).await;
    assert!(rival.is_some(), "the lease has ended");
    scene.leave(1, rival).await;
    scene.end().await;
}

/// A renewal was on its way to two masters when the guard went, and comes when the names are kept already.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_find_what_is_kept() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let begun = Instant::now();
    let mine = scene.lock(0, Ask::new().at_least(ms(1200))).await;
    sleep(ms(900)).await;
    // Masters forget the script, so the renewal is sent once more, behind all requests that were sent meanwhile.
    for master in scene.masters() {
        master.forget_script("extend");
        master.set_delay(ms(20), ms(20));
    }
    sleep(ms(130)).await;
    done(&scene, mine).await;
    for master in scene.masters() {
        master.set_delay(ms(0), ms(0));
    }
    let rival = scene.lock(1, waiting()).await;
    in_time(begun, ms(1200) + ms(300));
    assert!(rival.is_some(), "the names are free in the end");
    scene.leave(1, rival).await;
    scene.end().await;
}
