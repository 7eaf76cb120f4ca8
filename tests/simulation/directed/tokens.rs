//! Fencing tokens that must rise.

use std::time::Duration;

use multilock::Masters;
use multilock::sim::{Client, Cluster, Direction, Keep, Network};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{FENCE, Scene, ahead, plan, settle, violated};
use crate::world::clock_us;

const HOUR: Duration = Duration::from_secs(3600);

/// B had masters 1 and 2, with a token above a fence that is ahead of the clocks. Then A gets 0 and 1. Master 0 has
/// never heard of B.
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
    // B's token lies between the token that 0 has stored and the token to which A raises.
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

/// Tries so often in vain, in no time.
async fn refused(masters: &Masters, tries: usize) {
    let lock = masters.red_lock("a");
    for _ in 0..tries {
        assert!(lock.try_lock().await.is_err(), "it is held");
    }
}

/// A client is refused by the hold of another, then by its own.
#[tokio::test(start_paused = true)]
async fn refused_tries_take_no_tokens() {
    let scene = Scene::open(plan(Class::Calm, ms(2000))).await;
    let mut last = None;
    for holder in [0, 1, 1] {
        let mine = scene.lock(holder, Ask::new()).await.expect("free");
        let token = mine.guard.fencing_token().get();
        // A hold has a block of 64.
        if last.is_some_and(|last| token != last + 64) {
            violated("tokens stay near the clocks", &format!("{token} after {last:?}"));
        }
        last = Some(token);
        refused(&scene.seats[1].masters(), 500).await;
        scene.leave(holder, Some(mine)).await;
    }
    scene.end().await;
}

/// A client is refused very often, and then has masters 0 and 1. Then 0 forgets that. When 0 has a vote again, another
/// client has 0 and 2. The fence is ahead of the clocks, but by less than the time until then. There is no scene,
/// because a scene records every refusal.
#[tokio::test(start_paused = true)]
async fn refused_tries_reach_beyond_no_floor() {
    let cluster = Cluster::new(3);
    for master in cluster.iter() {
        let fence = (clock_us(master) + 150_000).to_string();
        master.command(&["SET", FENCE, &fence]).expect("stored");
    }
    let networks = [(); 2].map(|()| Network::new(3));
    let connect = async |network: &Network| {
        let builder = Masters::builder().for_tests(ms(200));
        let client = Client::new().network(network);
        cluster.connect_as(&client, builder).await.expect("connects")
    };
    let (a, b) = (connect(&networks[0]).await, connect(&networks[1]).await);
    let grant = async |masters: &Masters| {
        let granted = masters.red_lock("a").wait(ms(300)).lock().await;
        granted.expect("free, and a majority can be reached")
    };
    let held = grant(&a).await;
    refused(&a, 4_000).await;
    held.unlock().await.expect("held");
    networks[0].cut(2, Direction::Both);
    let held = grant(&a).await;
    let old = held.fencing_token();
    held.unlock().await.expect("held");
    settle().await;
    cluster.master(0).crash();
    cluster.master(0).restart(Keep::Nothing);
    // The lease and its drift.
    sleep(ms(250)).await;
    networks[1].cut(1, Direction::Both);
    let new = grant(&b).await.fencing_token();
    if new <= old {
        violated("tokens rise", &format!("{new} after {old}"));
    }
}

/// Without a token it would write between two that have one.
#[tokio::test(start_paused = true)]
async fn one_without_a_token_is_refused_where_others_have_some() {
    let scene = Scene::open(plan(Class::Durable, ms(2000))).await;
    let mine = scene.lock(0, Ask::new()).await;
    scene.leave(0, mine).await;
    settle().await;
    let plain = scene.seats[1].masters().red_lock("a").fenced(false);
    if plain.try_lock().await.is_ok() {
        violated(
            "tokens",
            "one without a token was let in among those that have some",
        );
    }
    scene.end().await;
}
