//! Connections that end as soon as they are made.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;

use crate::ask::Ask;
use crate::history::Kind;
use crate::plan::{Class, ms};
use crate::scene::{Scene, plan, violated};

const READONLY: &str = "READONLY You can't write against a read only replica.";

/// Lives longer than any schedule here.
const LEASE: Duration = ms(25_000);

/// Number of connections on which a master ran something from some moment on.
fn connections(scene: &Scene, of: usize, since: Duration) -> usize {
    let history = &scene.world.history;
    let numbers: BTreeSet<i64> = history.with(|record| {
        let later = record.events.iter().filter(|event| event.at >= since);
        let numbers = later.filter_map(|event| match &event.kind {
            Kind::Executed {
                master, connection, ..
            } if *master == of => Some(*connection),
            _ => None,
        });
        numbers.collect()
    });
    numbers.len()
}

/// Short stalls far apart. Each costs a round its answer, and messages come between them.
#[tokio::test(start_paused = true)]
async fn deadlines_missed_far_apart_do_not_replace_a_connection() {
    let scene = Scene::open(plan(Class::Durable, LEASE)).await;
    let since = scene.world.history.now();
    for _ in 0..5 {
        scene.master(0).hold_requests(true);
        let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
        scene.leave(0, mine).await;
        sleep(ms(60)).await;
        scene.master(0).hold_requests(false);
        sleep(ms(1_000)).await;
        for _ in 0..10 {
            let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
            scene.leave(0, mine).await;
        }
        sleep(ms(5)).await;
    }
    let made = connections(&scene, 0, since);
    // The other client has one, too.
    at_most("connected", made as u64, 2);
    scene.end().await;
}

fn at_most(what: &str, count: u64, most: u64) {
    if count > most {
        violated("pauses grow", &format!("{what} {count} times, {most} at most"));
    }
}

/// A master lets a client in, and refuses a pending release and every other request of it. Meanwhile the two others
/// refuse a waiter of the same client.
#[tokio::test(start_paused = true)]
async fn one_that_takes_no_writes_is_connected_to_after_pauses_that_grow() {
    let mut plan = plan(Class::Durable, LEASE);
    plan.names = vec!["a", "b"];
    let scene = Scene::open(plan).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    let theirs = scene.lock(0, Ask::new().lease(LEASE)).await;
    let waiting = scene.locking(1, Ask::new().wait(LEASE));
    sleep(ms(100)).await;
    let asked = || scene.master(1).executed().get("acquire").copied().unwrap_or(0);
    let mine = scene.lock(1, Ask::new().names(&["b"]).lease(LEASE)).await;
    scene.master(0).answer_with(Some(READONLY));
    scene.leave(1, mine).await;
    let (since, before) = (scene.world.history.now(), asked());
    sleep(ms(1_000)).await;
    at_most(
        "connected in the first second",
        connections(&scene, 0, since) as u64,
        12,
    );
    let (later, in_the_first) = (scene.world.history.now(), asked() - before);
    at_most("asked in the first second", in_the_first, 12);
    sleep(ms(9_000)).await;
    // A pause is 250 ms at least by then, and 500 ms at most.
    let made = connections(&scene, 0, later);
    at_most("connected in nine seconds", made as u64, 40);
    if made < 15 {
        violated("progress", &format!("connected {made} times only"));
    }
    at_most("asked in nine seconds", asked() - before - in_the_first, 45);
    scene.master(0).answer_with(None);
    scene.leave(0, theirs).await;
    let mine = waiting.await.expect("no panic");
    assert!(mine.is_some(), "granted");
    scene.leave(1, mine).await;
    scene.end().await;
}
