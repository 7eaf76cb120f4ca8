//! Fencing tokens that must rise.

use std::time::Duration;

use multilock::sim::{Client, Direction};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{FENCE, Scene, ahead, plan, settle};

const HOUR: Duration = Duration::from_secs(3600);

/// B had masters 1 and 2, with a token above a fence that is ahead of the clocks; then A gets 0 and 1. Master 0 has never heard of B.
#[tokio::test(start_paused = true)]
async fn one_acceptance_is_not_enough() {
    let lease = ms(2000);
    let clients = vec![Client::new(), Client::new()];
    let scene = Scene::open_with(plan(Class::Durable, lease), clients).await;
    for master in [1, 2] {
        scene
            .master(master)
            .command(&["SET", FENCE, &ahead(&scene, master, HOUR), "PX", "7200000"])
            .expect("stored");
    }
    scene.cut(1, 0, Direction::ToMaster);
    let b = scene.lock(1, Ask::new().lease(lease)).await;
    assert!(b.is_some(), "1 and 2 grant");
    scene.leave(1, b).await;
    scene.cut(0, 2, Direction::ToMaster);
    let a = scene.lock(0, Ask::new().lease(lease)).await;
    assert!(a.is_some(), "0 and 1 grant");
    scene.leave(0, a).await;
    scene.end().await;
}

/// A is refused on 2, granted on 1, and its acquire to 0 takes its time; B is granted on 0 and 2 with a
/// larger token, and unlocks; then A is granted on 0.
#[tokio::test(start_paused = true)]
async fn accept_without_grant() {
    let lease = ms(2000);
    let mut plan = plan(Class::Durable, lease);
    plan.node_timeout = ms(500);
    let scene = Scene::open_with(plan, vec![Client::new(), Client::new()]).await;
    let other = ["SET", "a", "theirs", "PX", "60000"];
    scene.master(2).command(&other).expect("stored");
    scene.cut(0, 0, Direction::ToMaster);
    let a = scene.locking(0, Ask::new().lease(lease));
    settle().await;
    scene.master(2).command(&["DEL", "a"]).expect("deleted");
    let b = scene.lock(1, Ask::new().lease(lease)).await;
    assert!(b.is_some(), "0 and 2 grant");
    scene.leave(1, b).await;
    scene.heal(0, 0);
    let a = a.await.expect("no panic");
    assert!(a.is_some(), "0 and 1 grant");
    scene.leave(0, a).await;
    scene.end().await;
}

/// A is granted on 1, and on 0 with a token that is too small there; its raise runs on 1, strays to 2,
/// where B holds, and does not reach 0. A leaves; its key on 0 ends, and B gets 0.
#[tokio::test(start_paused = true)]
async fn raise_without_owner() {
    let lease = ms(2000);
    let mut plan = plan(Class::Durable, lease);
    plan.node_timeout = ms(500);
    let scene = Scene::open_with(plan, vec![Client::new(), Client::new()]).await;
    let larger = ahead(&scene, 0, ms(1));
    let fence = ["SET", FENCE, &larger, "PX", "600000"];
    scene.master(0).command(&fence).expect("stored");
    scene.cut(0, 0, Direction::ToClient);
    scene.cut(0, 2, Direction::ToMaster);
    let a = scene.locking(0, Ask::new().lease(lease));
    sleep(ms(200)).await;
    // B's token lies between the one that 0 has stored and the one to which A raises.
    scene.cut(1, 0, Direction::ToMaster);
    let b = scene.locking(1, Ask::new().lease(lease));
    sleep(ms(100)).await;
    scene.heal(0, 0);
    scene.cut(0, 0, Direction::ToMaster);
    sleep(ms(20)).await;
    scene.heal(0, 2);
    sleep(ms(20)).await;
    if a.is_finished()
        && let Some(mine) = a.await.expect("no panic")
    {
        drop(scene.world.give_up(0, mine, "drop"));
    }
    sleep(ms(20)).await;
    // In place of the end of A's lease, which comes later than a round may last.
    scene.master(0).command(&["DEL", "a"]).expect("deleted");
    scene.heal(1, 0);
    let b = b.await.expect("no panic");
    assert!(b.is_some(), "0 and 2 grant");
    scene.leave(1, b).await;
    scene.end().await;
}
