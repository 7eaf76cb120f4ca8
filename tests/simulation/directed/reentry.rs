//! Re-entries, and the holds that they must not touch.

use std::time::Duration;

use multilock::sim::Direction;
use multilock::{Owner, Policy};
use tokio::time::sleep;

use crate::ask::Ask;
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{Scene, plan, settle};

const LEASE: Duration = ms(10_000);

/// A re-entry that needs an extension does not reach two masters, or not back; then both guards are given up, in either
/// order.
#[tokio::test(start_paused = true)]
async fn reentry_rollback() {
    for (way, inner_first) in [
        (Direction::ToMaster, true),
        (Direction::ToClient, true),
        (Direction::ToMaster, false),
        (Direction::ToClient, false),
    ] {
        let me = Owner::new();
        let scene = Scene::open(plan(Class::Durable, LEASE)).await;
        let mine = Ask::new().owner(&me);
        let outer = scene.lock(0, mine.lease(ms(3000))).await;
        let inner = scene.lock(0, mine.lease(ms(2000))).await;
        assert!(outer.is_some(), "free");
        assert!(inner.is_some(), "it enters");
        scene.cut(0, 0, way);
        scene.cut(0, 1, way);
        let longer = mine.lease(LEASE);
        assert!(scene.lock(0, longer.dropped_after(ms(5))).await.is_none());
        assert!(scene.lock(0, longer).await.is_none(), "one master is no quorum");
        scene.heal(0, 0);
        scene.heal(0, 1);
        settle().await;
        scene.world.look(None);
        let (first, last) = if inner_first {
            (inner, outer)
        } else {
            (outer, inner)
        };
        scene.leave(0, first).await;
        settle().await;
        scene.leave(0, last).await;
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_unlock_leaves_the_outer_hold() {
    let me = Owner::new();
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let outer = scene.lock(0, Ask::new().owner(&me)).await;
    let inner = scene.lock(0, Ask::new().owner(&me)).await;
    assert!(outer.is_some(), "free");
    assert!(inner.is_some(), "it enters");
    scene.leave(0, inner).await;
    sleep(ms(50)).await;
    scene.leave(0, outer).await;
    scene.end().await;
}

/// A guard is leaked while something else knows its hold, and the owner asks again.
#[tokio::test(start_paused = true)]
async fn a_leaked_hold_is_not_entered() {
    let me = Owner::new();
    let scene = Scene::open(plan(Class::Calm, ms(3000))).await;
    let outer = scene.lock(0, Ask::new().owner(&me)).await.expect("free");
    let inner = scene.lock(0, Ask::new().owner(&me)).await;
    scene.world.give_up(0, outer, "leak").leak();
    let again = scene.lock(0, Ask::new().owner(&me)).await;
    assert!(again.is_some(), "the inner guard is in");
    scene.leave(0, inner).await;
    scene.world.give_up(0, again.expect("in"), "leak").leak();
    assert!(
        scene.lock(0, Ask::new().owner(&me)).await.is_none(),
        "it is nobody's"
    );
    scene.end().await;
}

/// A grant of a majority is no hold on all masters.
#[tokio::test(start_paused = true)]
async fn a_stronger_policy_does_not_enter() {
    let me = Owner::new();
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let outer = scene.lock(0, Ask::new().owner(&me)).await;
    assert!(outer.is_some(), "free");
    let all = Ask::new().owner(&me).policy(Policy::MultiLock);
    let inner = scene.lock(0, all).await;
    assert!(inner.is_none(), "a hold of a majority is in the way");
    scene.leave(0, outer).await;
    scene.end().await;
}
