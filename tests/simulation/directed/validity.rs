//! How long a hold may be relied on.

use multilock::sim::Direction;
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{Scene, plan, settle};

const LEASE: std::time::Duration = ms(1000);

async fn slow_nodes() -> Scene {
    let mut plan = plan(Class::Durable, LEASE);
    plan.node_timeout = ms(200);
    Scene::open(plan).await
}

fn answers_pass(scene: &Scene, pass: bool) {
    for place in 0..3 {
        if pass {
            scene.heal(0, place);
        } else {
            scene.cut(0, place, Direction::ToClient);
        }
    }
}

/// The grants are on their way for longer than the drift of the lease. A rival waits when the lease ends.
#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_its_sending() {
    let scene = slow_nodes().await;
    answers_pass(&scene, false);
    let mine = scene.locking(0, Ask::new().lease(LEASE));
    sleep(ms(100)).await;
    answers_pass(&scene, true);
    let mine = mine.await.expect("no panic");
    assert!(mine.is_some(), "all grant");
    let rival = scene.lock(1, Ask::new().lease(LEASE).wait(ms(3000))).await;
    assert!(rival.is_some(), "the lease has ended");
    sleep(ms(100)).await;
    scene.leave(0, mine).await;
    scene.leave(1, rival).await;
    scene.end().await;
}

/// The same with the confirmations of an extension.
#[tokio::test(start_paused = true)]
async fn an_extension_counts_from_its_sending() {
    let scene = slow_nodes().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("free");
    sleep(ms(500)).await;
    answers_pass(&scene, false);
    let later = async {
        sleep(ms(100)).await;
        answers_pass(&scene, true);
    };
    let (extended, ()) = tokio::join!(mine.guard.extend(LEASE), later);
    extended.expect("all continue");
    let rival = scene.lock(1, Ask::new().lease(LEASE).wait(ms(3000))).await;
    assert!(rival.is_some(), "the extended lease has ended");
    sleep(ms(100)).await;
    scene.leave(0, Some(mine)).await;
    scene.leave(1, rival).await;
    scene.end().await;
}

/// Every answer is late until the validity has ended; then a renewal that was sent before is confirmed by
/// all.
#[tokio::test(start_paused = true)]
async fn a_lapse_is_final() {
    let mut plan = plan(Class::Durable, ms(300));
    plan.node_timeout = ms(100);
    let scene = Scene::open(plan).await;
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    sleep(ms(110)).await;
    answers_pass(&scene, false);
    while mine.guard.is_valid() {
        scene.world.look(None);
        sleep(ms(1)).await;
    }
    scene.world.look(None);
    answers_pass(&scene, true);
    for _ in 0..100 {
        sleep(ms(1)).await;
        scene.world.look(None);
    }
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// Only one master hears of the renewals.
#[tokio::test(start_paused = true)]
async fn an_extension_needs_a_quorum() {
    let scene = Scene::open(plan(Class::Durable, ms(600))).await;
    let mine = scene.lock(0, Ask::new()).await;
    assert!(mine.is_some(), "free");
    sleep(ms(50)).await;
    scene.cut(0, 0, Direction::ToMaster);
    scene.cut(0, 1, Direction::ToMaster);
    let rival = scene.lock(1, Ask::new().lease(ms(600)).wait(ms(3000))).await;
    assert!(rival.is_some(), "the lease ends on a majority");
    sleep(ms(100)).await;
    scene.leave(0, mine).await;
    scene.leave(1, rival).await;
    scene.end().await;
}

/// A hold that is not renewed is left to its end.
#[tokio::test(start_paused = true)]
async fn the_end_is_told() {
    let scene = Scene::open(plan(Class::Calm, ms(3000))).await;
    let mine = scene.lock(0, Ask::new().lease(ms(3000))).await;
    assert!(mine.is_some(), "free");
    sleep(ms(3500)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// An extension that is shorter than the remaining validity.
#[tokio::test(start_paused = true)]
async fn a_shorter_lease_shortens_nothing() {
    let scene = Scene::open(plan(Class::Calm, ms(3000))).await;
    let mine = scene.lock(0, Ask::new().lease(ms(3000))).await.expect("free");
    sleep(ms(100)).await;
    mine.guard.extend(ms(500)).await.expect("all continue");
    sleep(ms(1000)).await;
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// Each reaches another master alone.
#[tokio::test(start_paused = true)]
async fn a_minority_grants_nothing() {
    let scene = Scene::open(plan(Class::Durable, LEASE)).await;
    for client in 0..2 {
        scene.cut(client, 1 - client, Direction::ToMaster);
        scene.cut(client, 2, Direction::ToMaster);
    }
    let one = scene.lock(0, Ask::new().lease(LEASE)).await;
    let other = scene.lock(1, Ask::new().lease(LEASE)).await;
    scene.leave(0, one).await;
    scene.leave(1, other).await;
    scene.end().await;
}

/// Another hold is renewed together with it. Under the key for the mark of the other name is a key of another type.
#[tokio::test(start_paused = true)]
async fn a_spoilt_hold_ends_no_other() {
    let scene = Scene::open(plan(Class::Durable, LEASE)).await;
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    let spoilt = scene.seats[0].masters().red_lock("b").try_lock().await;
    for master in scene.masters() {
        master.command(&["DEL", "b"]).expect("deleted");
        let other = ["SET", "multilock_revoked:{b}", "no mark"];
        master.command(&other).expect("stored");
    }
    sleep(ms(3000)).await;
    assert!(mine.guard.is_valid(), "it was renewed by itself");
    drop(spoilt);
    for master in scene.masters() {
        master.evict("multilock_revoked:{b}");
    }
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// The keys of a held name are deleted on the first masters, and the silent masters do not hear of the next renewal.
/// Returns whether the guard is valid after that.
async fn valid_after_a_loss(deleted: usize, silent: &[usize], rival: bool) -> bool {
    let scene = Scene::open(plan(Class::Reckless, LEASE)).await;
    let mine = scene.lock(0, Ask::new()).await.expect("free");
    settle().await;
    for place in 0..deleted {
        scene.forgets(place, "loses a key");
        scene.master(place).command(&["DEL", "a"]).expect("deleted");
    }
    let theirs = if rival {
        scene.lock(1, Ask::new().lease(LEASE)).await
    } else {
        None
    };
    for place in silent {
        scene.cut(0, *place, Direction::ToMaster);
    }
    // The next renewal and its end.
    sleep(LEASE / 3 + ms(60)).await;
    let valid = mine.guard.is_valid();
    for place in silent {
        scene.heal(0, *place);
    }
    scene.leave(0, Some(mine)).await;
    scene.leave(1, theirs).await;
    scene.end().await;
    valid
}

#[tokio::test(start_paused = true)]
async fn known_loss() {
    assert!(!valid_after_a_loss(3, &[], false).await, "all have forgotten");
    assert!(
        !valid_after_a_loss(2, &[2], false).await,
        "a majority has, and the third is silent"
    );
    assert!(
        !valid_after_a_loss(2, &[], true).await,
        "rivals stand where it was"
    );
    assert!(valid_after_a_loss(2, &[], false).await, "it is taken again");
    assert!(valid_after_a_loss(1, &[1, 2], false).await, "silence is no loss");
    assert!(
        valid_after_a_loss(0, &[0, 1, 2], false).await,
        "silence is no loss"
    );
}
