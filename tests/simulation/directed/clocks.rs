//! Clocks that step: of masters, and of a host that was asleep, for which every master's seems to.

use std::time::Duration;

use multilock::Policy;
use multilock::sim::Direction;
use tokio::time::{Instant, sleep, sleep_until};

use crate::ask::Ask;
use crate::client_plan::ClientPlan;
use crate::plan::{Class, MOST_APART, Plan, ms};
use crate::scene::{Scene, plan, settle};

const LEASE: Duration = ms(3000);

fn longest(lease: Duration) -> Plan {
    let mut plan = plan(Class::Durable, LEASE);
    plan.max_lease = lease;
    plan
}

/// Keeps asking over a client's line until it is granted or that much time has passed.
async fn insist(scene: &Scene, client: usize, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let rival = scene.lock(client, Ask::new().lease(LEASE)).await;
        if rival.is_some() {
            settle().await;
            scene.leave(client, rival).await;
            return;
        }
        sleep(ms(2)).await;
    }
}

/// A hold on 1 and 2, a rival that hears 0 and 1 all the time, and steps of 1 that together exceed the
/// drift of the lease by a little.
async fn meet_where_the_clock_steps(before: Duration, steps: u32, by: Duration) {
    let scene = Scene::open(longest(Duration::from_secs(30))).await;
    scene.master(1).set_clock_forward(ms(2));
    sleep(before).await;
    let rival = scene.lock(1, Ask::new().lease(LEASE)).await;
    scene.leave(1, rival).await;
    sleep(ms(10)).await;
    scene.cut(0, 0, Direction::ToMaster);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "1 and 2 grant");
    scene.cut(1, 2, Direction::Both);
    for _ in 0..steps {
        scene.forgets(1, "sees its clock set forward");
        scene.master(1).set_clock_forward(by);
        let none = scene.lock(1, Ask::new().lease(LEASE)).await;
        assert!(none.is_none(), "1 refuses");
        sleep(ms(100)).await;
    }
    insist(&scene, 1, LEASE).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The rates may have added more in all the time since the lowest reading, but not since the last.
#[tokio::test(start_paused = true)]
async fn a_step_after_silence() {
    meet_where_the_clock_steps(Duration::from_secs(28), 1, ms(45)).await;
}

/// Each step is within the drift, and all of them together are not.
#[tokio::test(start_paused = true)]
async fn small_steps_add_up() {
    meet_where_the_clock_steps(ms(1000), 5, ms(10)).await;
}

/// Keys end earlier on clocks that gain as much as they may, and later than the hold.
#[tokio::test(start_paused = true)]
async fn clocks_that_run_fast() {
    let lease = Duration::from_secs(30);
    let mut plan = longest(lease);
    plan.rates = vec![MOST_APART; plan.nodes];
    let scene = Scene::open(plan).await;
    let mine = scene.lock(0, Ask::new().lease(lease)).await;
    assert!(mine.is_some(), "all three grant");
    sleep(ms(29_000)).await;
    insist(&scene, 1, ms(1000)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The clocks of a client and of a master differ by as much as clocks that ntpd keeps. The client was idle for a day.
#[tokio::test(start_paused = true)]
async fn clocks_of_an_ordinary_host_do_not_step() {
    let mut plan = longest(Duration::from_secs(30));
    plan.rates = vec![500, -500, 0];
    let scene = Scene::open(plan).await;
    for idle in [ms(1000), Duration::from_secs(60), Duration::from_secs(86_400)] {
        sleep(idle).await;
        let mine = scene.lock(0, Ask::new().policy(Policy::MultiLock)).await;
        assert!(mine.is_some(), "all three have a vote after {idle:?}");
        scene.leave(0, mine).await;
    }
    scene.end().await;
}

/// The first client holds by a lease of 30 s. The second one leaves more of its own leases untrusted, and heard
/// the masters before the hold. Clocks of two masters step, and then it asks.
async fn meet_a_step_with(drift_factor: f64, by: Duration, after: Duration) {
    let lease = Duration::from_secs(30);
    let mut plan = longest(lease);
    let unskewed = ClientPlan::plain(&plan);
    let wary = ClientPlan {
        drift_factor,
        ..unskewed.clone()
    };
    plan.each = vec![unskewed, wary];
    let scene = Scene::open(plan).await;
    let rival = scene.lock(1, Ask::new()).await;
    scene.leave(1, rival).await;
    let mine = scene.lock(0, Ask::new().lease(lease)).await;
    assert!(mine.is_some(), "all three grant");
    sleep(after).await;
    for place in [0, 1] {
        scene.forgets(place, "sees its clock set forward");
        scene.master(place).set_clock_forward(by);
    }
    insist(&scene, 1, lease.saturating_sub(after)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The hold is of a client with the least drift factor, and a step harms it, however large the other's is.
#[tokio::test(start_paused = true)]
async fn a_step_met_by_a_client_with_a_larger_drift_factor() {
    meet_a_step_with(0.05, ms(400), ms(29_000)).await;
    meet_a_step_with(0.1, ms(1_300), ms(28_000)).await;
    meet_a_step_with(0.5, ms(5_000), ms(24_000)).await;
}

/// A step shortens the lease of a hold on 1 and 2 by two seconds on 1. The client of the hold learns that from 1 alone.
/// A client that comes after the step cannot know it.
#[tokio::test(start_paused = true)]
async fn a_step_where_a_quorum_just_stands() {
    let mut scene = Scene::open_some(longest(LEASE), 1).await;
    scene.cut(0, 0, Direction::Both);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "1 and 2 grant");
    let begun = Instant::now();
    scene.forgets(1, "sees its clock set forward");
    scene.master(1).set_clock_forward(ms(2000));
    let second = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(second.is_none(), "its own hold refuses");
    scene.arrive(1).await;
    scene.cut(1, 2, Direction::Both);
    sleep_until(begun + ms(1005)).await;
    insist(&scene, 1, ms(500)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A hold on 1 and 2 ends on 1 two seconds early, which a rival learns by being granted there.
#[tokio::test(start_paused = true)]
async fn a_step_shown_by_a_grant() {
    let scene = Scene::open(longest(LEASE)).await;
    scene.cut(0, 0, Direction::ToMaster);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "1 and 2 grant");
    let begun = Instant::now();
    scene.cut(1, 2, Direction::Both);
    scene.forgets(1, "sees its clock set forward");
    scene.master(1).set_clock_forward(ms(2000));
    sleep_until(begun + ms(1010)).await;
    insist(&scene, 1, ms(500)).await;
    scene.leave(0, mine).await;
    scene.end().await;
}

/// The host of a client sleeps for two seconds, its clock with it, while an extension is under way: 2 has
/// answered before, and 1 runs the request afterwards.
#[tokio::test(start_paused = true)]
async fn old_answer() {
    let mut scene = Scene::open_some(longest(LEASE), 1).await;
    scene.cut(0, 0, Direction::Both);
    let mine = scene
        .lock(0, Ask::new().lease(LEASE))
        .await
        .expect("1 and 2 grant");
    sleep(ms(100)).await;
    let begun = Instant::now();
    scene.master(1).hold_requests(true);
    scene.master(2).hold_replies(true);
    let wakes = async {
        sleep(ms(5)).await;
        for master in [0, 1, 2] {
            scene.forgets(master, "has gone on while the client slept");
            scene.master(master).set_clock_forward(ms(2000));
        }
        scene.master(1).hold_requests(false);
        scene.master(2).hold_replies(false);
    };
    let (extended, ()) = tokio::join!(mine.guard.extend(LEASE), wakes);
    assert!(extended.is_ok(), "1 and 2 have it still: {extended:?}");
    scene.arrive(1).await;
    scene.cut(1, 1, Direction::Both);
    sleep_until(begun + ms(1005)).await;
    insist(&scene, 1, ms(500)).await;
    scene.leave(0, Some(mine)).await;
    scene.end().await;
}

/// C holds 0 and 1. D is granted on 2, and then the clock of 2 steps beyond that lease. C gets 2 in place of D. That
/// does not count, neither at once nor when 2 confirms it again. The key on 0 ends, and D gets 0.
#[tokio::test(start_paused = true)]
async fn retaken_where_the_clock_stepped() {
    let lease = ms(1100);
    let mut plan = plan(Class::Durable, lease);
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
    scene.forgets(2, "sees its clock set forward");
    scene.master(2).set_clock_forward(lease + ms(500));
    scene.heal(0, 2);
    sleep(ms(195)).await;
    scene.cut(0, 0, Direction::ToMaster);
    let again = async {
        sleep(ms(20)).await;
        drop(c.guard.extend(lease).await);
    };
    let later = async {
        sleep(ms(205)).await;
        scene.heal(1, 0);
        settle().await;
        scene.world.look(None);
    };
    let (extended, (), ()) = tokio::join!(c.guard.extend(lease), again, later);
    drop(extended);
    let d = d.await.expect("no panic");
    assert!(d.is_some(), "0 grants, as 2 did");
    scene.leave(0, Some(c)).await;
    scene.leave(1, d).await;
    scene.end().await;
}
