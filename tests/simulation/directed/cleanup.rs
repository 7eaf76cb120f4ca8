//! What is given up, and must not be found on a master afterwards.

use std::time::Duration;

use multilock::sim::Direction;
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::scene::{Scene, ms, plan, settle};

/// Longer than the time after which nothing may be left.
const LEASE: Duration = ms(20_000);

async fn scene() -> Scene {
    Scene::open(plan(Class::Durable, LEASE)).await
}

/// An extension is delivered from a broken connection after the unlock.
#[tokio::test(start_paused = true)]
async fn extend_after_unlock() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("free");
    settle().await;
    scene.master(0).keep_abandoned(true);
    scene.master(0).deny_client_kill(true);
    scene.master(0).hold_requests(true);
    mine.guard.extend(LEASE).await.expect("1 and 2 continue");
    scene.master(0).reset_connections();
    settle().await;
    scene.master(0).hold_requests(false);
    sleep(ms(500)).await;
    scene.leave(0, Some(mine)).await;
    settle().await;
    assert!(scene.master(0).deliver_abandoned() > 0, "a late extension");
    scene.end().await;
}

/// A hold that was extended is gone after one unlock.
#[tokio::test(start_paused = true)]
async fn an_extension_counts_nothing() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("free");
    settle().await;
    mine.guard.extend(LEASE).await.expect("all continue");
    settle().await;
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// Two masters grant, and are never heard.
#[tokio::test(start_paused = true)]
async fn unheard_grants() {
    let scene = scene().await;
    scene.cut(0, 0, Direction::ToClient);
    scene.cut(0, 1, Direction::ToClient);
    assert!(scene.lock(0, Ask::new().lease(LEASE)).await.is_none());
    scene.heal(0, 0);
    scene.heal(0, 1);
    scene.end().await;
}

/// A master is busy when its release comes.
#[tokio::test(start_paused = true)]
async fn a_release_is_owed() {
    let scene = scene().await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    settle().await;
    let busy = "BUSY Redis is busy running a script.";
    scene.master(0).answer_with(Some(busy));
    scene.leave(0, mine).await;
    sleep(ms(100)).await;
    scene.master(0).answer_with(None);
    scene.end().await;
}

/// The caller is gone before any master has answered.
#[tokio::test(start_paused = true)]
async fn dropped_on_the_way() {
    let scene = scene().await;
    for master in scene.masters() {
        master.set_delay(ms(5), ms(5));
    }
    let dropped = Ask::new().lease(LEASE).dropped_after(ms(2));
    assert!(scene.lock(0, dropped).await.is_none());
    scene.end().await;
}

/// Only a straggler has forgotten the script, and says so after the hold has been given up.
#[tokio::test(start_paused = true)]
async fn noscript_overtakes() {
    let scene = scene().await;
    scene.master(2).forget_script("acquire");
    scene.master(2).set_delay(ms(10), ms(10));
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A master answers an extension that it has nothing of the hold, and is heard after the unlock.
#[tokio::test(start_paused = true)]
async fn absence_heard_after_unlock() {
    let scene = scene().await;
    scene.master(2).keep_abandoned(false);
    scene.cut(0, 2, Direction::ToMaster);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await.expect("0 and 1 grant");
    // What was on its way is lost with the connection.
    scene.master(2).reset_connections();
    scene.heal(0, 2);
    sleep(ms(500)).await;
    scene.cut(0, 2, Direction::ToClient);
    mine.guard.extend(LEASE).await.expect("0 and 1 continue");
    scene.leave(0, Some(mine)).await;
    settle().await;
    scene.heal(0, 2);
    scene.end().await;
}
