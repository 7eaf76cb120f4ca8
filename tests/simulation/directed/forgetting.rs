//! Masters that forget their holders.

use std::time::Duration;

use multilock::sim::{Direction, Keep};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::ms;
use crate::plan::{Class, Plan};
use crate::scene::{FENCE, Scene, ahead, plan, settle};

const LEASE: Duration = ms(3000);

/// A hold on 1 and 2 alone, and a rival that reaches only 0 and 1.
async fn meet_on_one(plan: Plan, forget: impl Fn(&Scene)) {
    let scene = Scene::open(plan).await;
    scene.cut(0, 0, Direction::ToMaster);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "1 and 2 grant");
    scene.cut(1, 2, Direction::Both);
    settle().await;
    forget(&scene);
    let mut met = false;
    for _ in 0..100 {
        let rival = scene.lock(1, Ask::new().lease(LEASE)).await;
        if rival.is_some() {
            settle().await;
            scene.leave(1, rival).await;
            met = true;
            break;
        }
        sleep(ms(50)).await;
    }
    assert!(met, "0 and 1 grant in the end");
    scene.leave(0, mine).await;
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn amnesia() {
    meet_on_one(plan(Class::Forgetful, LEASE), |scene| scene.restart_empty(1)).await;
}

/// Its clock is set forward together with the start, so that it seems to have been up for long.
#[tokio::test(start_paused = true)]
async fn a_successor_seems_old() {
    meet_on_one(plan(Class::Forgetful, LEASE), |scene| {
        scene.restart_empty(1);
        scene.master(1).set_clock_forward(Duration::from_secs(240));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn clock_step() {
    meet_on_one(plan(Class::Durable, LEASE), |scene| {
        scene.forgets(1, "sees its clock set forward");
        scene.master(1).set_clock_forward(LEASE + ms(500));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_wiped_memory() {
    let mut plan = plan(Class::Durable, LEASE);
    plan.strict = true;
    meet_on_one(plan, |scene| {
        scene.forgets(1, "is flushed");
        scene.master(1).flush_all();
    })
    .await;
}

/// C holds 0 and 1, and D is granted on 2, which forgets it; C's extension finds 1 and takes 2 again,
/// and does not reach 0. The key there ends, and D gets 0.
#[tokio::test(start_paused = true)]
async fn quarantined_extension() {
    let lease = ms(1100);
    let mut plan = plan(Class::Forgetful, lease);
    plan.node_timeout = ms(500);
    let scene = Scene::open(plan).await;
    scene.cut(0, 2, Direction::ToMaster);
    let c = scene
        .lock(0, Ask::new().lease(lease))
        .await
        .expect("0 and 1 grant");
    sleep(ms(700)).await;
    scene.cut(1, 0, Direction::ToMaster);
    let d = scene.locking(1, Ask::new().lease(lease));
    sleep(ms(5)).await;
    scene.restart_empty(2);
    scene.heal(0, 2);
    sleep(ms(195)).await;
    scene.cut(0, 0, Direction::ToMaster);
    let later = async {
        sleep(ms(205)).await;
        scene.heal(1, 0);
        settle().await;
        scene.world.look(None);
    };
    let (extended, ()) = tokio::join!(c.guard.extend(lease), later);
    drop(extended);
    let d = d.await.expect("no panic");
    assert!(d.is_some(), "0 grants, as 2 did");
    scene.leave(0, Some(c)).await;
    scene.leave(1, d).await;
    scene.end().await;
}

/// Master 1's clock is five seconds ahead of the others'. A fence on 2 makes B take a token above it. Then 1 forgets
/// its fence key. After the quarantine of 1, A proposes the time that most clocks show, and asks 0 and 1.
#[tokio::test(start_paused = true)]
async fn fence_key_lost() {
    let lease = ms(1000);
    let scene = Scene::open(plan(Class::Forgetful, lease)).await;
    scene.master(1).set_clock_forward(Duration::from_secs(5));
    for client in [0, 1] {
        // They notice.
        let seen = scene.lock(client, Ask::new().lease(lease)).await;
        scene.leave(client, seen).await;
    }
    sleep(Duration::from_secs(60)).await;
    scene
        .master(2)
        .command(&["SET", FENCE, &ahead(&scene, 2, ms(4000)), "PX", "600000"])
        .expect("stored");
    scene.cut(1, 0, Direction::ToMaster);
    let b = scene.lock(1, Ask::new().lease(lease)).await;
    assert!(b.is_some(), "1 and 2 grant");
    scene.leave(1, b).await;
    scene.restart_empty(1);
    sleep(ms(3000)).await;
    scene.cut(0, 2, Direction::ToMaster);
    let a = scene.lock(0, Ask::new().lease(lease)).await;
    assert!(a.is_some(), "0 and 1 grant");
    scene.leave(0, a).await;
    scene.end().await;
}

/// Master 0's clock is ahead, and 0 is started again, so its floor is ahead of all clocks until its quarantine ends. A knows
/// that, reaches it no more, and is granted on 1 and 2. Then 1 forgets that. B has 0 and 1 as soon as they have a vote.
#[tokio::test(start_paused = true)]
async fn a_floor_of_a_master_in_quarantine() {
    let lease = ms(10_000);
    let scene = Scene::open(plan(Class::Forgetful, lease)).await;
    scene.master(0).set_clock_forward(ms(4900));
    for client in [0, 1] {
        // They notice.
        let seen = scene.lock(client, Ask::new().lease(lease)).await;
        scene.leave(client, seen).await;
    }
    sleep(Duration::from_secs(60)).await;
    scene.restart_empty(0);
    sleep(ms(1000)).await;
    scene.cut(0, 0, Direction::ToMaster);
    for _ in 0..10 {
        let a = scene.lock(0, Ask::new().lease(lease)).await;
        assert!(a.is_some(), "1 and 2 grant");
        scene.leave(0, a).await;
    }
    scene.restart_empty(1);
    scene.cut(1, 2, Direction::ToMaster);
    sleep(ms(10_500)).await;
    let b = scene.lock(1, Ask::new().lease(lease)).await;
    assert!(b.is_some(), "0 and 1 grant");
    scene.leave(1, b).await;
    scene.end().await;
}

/// A master that keeps its data counts at once if no restart is distrusted. Here it counts after its quarantine.
#[tokio::test(start_paused = true)]
async fn a_restart_with_its_data() {
    meet_on_one(plan(Class::Durable, LEASE), |scene| {
        scene.master(1).crash();
        scene.master(1).restart(Keep::Data);
    })
    .await;
}
