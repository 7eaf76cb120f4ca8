//! Waiters are woken in time, in turn, and for no other reason than news.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use multilock::sim::{Client, Direction};
use tokio::time::{Instant, sleep};

use crate::ask::{Ask, leave};
use crate::plan::Class;
use crate::plan::ms;
use crate::scene::{Scene, in_time, plan, settle, violated};

/// Longer than any wait here, so that nobody is saved by its end.
const LEASE: Duration = ms(20_000);

fn few(scene: &Scene, before: u64, most: u64) {
    let asked = scene.executed("acquire") - before;
    if asked > most {
        violated("quiet while waiting", &format!("asked {asked} times"));
    }
}

/// The notice of a release overtakes the refusal of the waiter's earlier question.
#[tokio::test(start_paused = true)]
async fn a_release_wakes() {
    let mut plan = plan(Class::Calm, LEASE);
    plan.node_timeout = ms(500);
    let scene = Scene::open(plan).await;
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "free");
    for master in scene.masters() {
        master.set_delay(Duration::ZERO, ms(200));
        master.set_notice_delay(Some(Duration::ZERO));
    }
    let waiting = scene.locking(1, Ask::new().wait(LEASE));
    // Refused at 200 ms, subscribed at 400 ms; the next refusal is on its way when the notice comes.
    sleep(ms(500)).await;
    let released = Instant::now();
    scene.leave(0, mine).await;
    let second = waiting.await.expect("no panic");
    in_time(released, ms(800));
    assert!(second.is_some(), "its turn");
    scene.leave(1, second).await;
    scene.end().await;
}

/// A waiter meets, on every master, an attempt that hears no answer.
#[tokio::test(start_paused = true)]
async fn a_rollback_wakes() {
    let mut plan = plan(Class::Durable, LEASE);
    plan.node_timeout = ms(500);
    let scene = Scene::open(plan).await;
    for place in 0..3 {
        scene.cut(0, place, Direction::ToClient);
    }
    let begun = Instant::now();
    let failing = scene.locking(0, Ask::new().lease(LEASE));
    settle().await;
    let mine = scene.lock(1, Ask::new().wait(LEASE)).await;
    in_time(begun, ms(1500));
    assert!(mine.is_some(), "the attempt is rolled back");
    failing.await.expect("no panic");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// Two wait for a holder on 1 and 2; each is granted on 0 and rolled back there, which is no news.
#[tokio::test(start_paused = true)]
async fn rollbacks_wake_nobody() {
    let mut plan = plan(Class::Calm, LEASE);
    plan.clients = 3;
    let scene = Scene::open(plan).await;
    scene.cut(0, 0, Direction::ToMaster);
    let mine = scene.lock(0, Ask::new().lease(LEASE)).await;
    assert!(mine.is_some(), "1 and 2 grant");
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    let before = scene.executed("acquire");
    let waiting = [1, 2].map(|client| scene.locking(client, Ask::new().lease(LEASE).wait(ms(3000))));
    for waiter in waiting {
        assert!(waiter.await.expect("no panic").is_none(), "held all the time");
    }
    few(&scene, before, 60);
    scene.leave(0, mine).await;
    scene.end().await;
}

/// A quorum in quarantine grants, does not count, and is rolled back with a notice that the waiter itself
/// hears.
#[tokio::test(start_paused = true)]
async fn own_rollbacks_wake_nobody() {
    let scene = Scene::open(plan(Class::Forgetful, LEASE)).await;
    for place in 0..3 {
        scene.restart_empty(place);
    }
    sleep(ms(600)).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    let before = scene.executed("acquire");
    let waiter = scene.lock(0, Ask::new().wait(ms(3000))).await;
    assert!(waiter.is_none(), "still in quarantine");
    few(&scene, before, 90);
    scene.end().await;
}

/// Contenders that each reach another master first split the votes, and somebody wins all the same.
#[tokio::test(start_paused = true)]
async fn split_votes_end() {
    for seed in 0..8 {
        let mut plan = plan(Class::Durable, LEASE);
        plan.seed = seed;
        let scene = Scene::open(plan).await;
        for client in 0..2 {
            let network = &scene.world.networks[client];
            network.set_distance(client, ms(1));
            network.set_distance(1 - client, ms(11));
            network.cut(2, Direction::ToMaster);
        }
        let begun = Instant::now();
        join_all([0, 1].map(async |client| {
            let mine = scene.lock(client, Ask::new().lease(LEASE).wait(ms(9000))).await;
            assert!(mine.is_some(), "each wins in the end");
            scene.leave(client, mine).await;
        }))
        .await;
        in_time(begun, ms(1500));
        scene.end().await;
    }
}

/// The tasks of one process pass the lock on among themselves; another process waits for it.
#[tokio::test(start_paused = true)]
async fn others_get_their_turn() {
    let terms = vec![Client::new().seed(1), Client::new().seed(2)];
    let scene = Scene::open_with(plan(Class::Calm, LEASE), terms).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    let ask = Ask::new().lease(LEASE).wait(LEASE);
    let greedy = [(); 3].map(|()| {
        let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[0]));
        tokio::spawn(async move {
            for _ in 0..100 {
                let mine = ask.of(&world, &seat).await;
                assert!(mine.is_some(), "its turn");
                sleep(ms(2)).await;
                leave(&world, 0, mine).await;
            }
        })
    });
    sleep(ms(20)).await;
    let begun = Instant::now();
    let mine = scene.lock(1, ask).await;
    in_time(begun, ms(500));
    assert!(mine.is_some(), "its turn");
    scene.leave(1, mine).await;
    for task in greedy {
        task.await.expect("no panic");
    }
    scene.end().await;
}

/// Many processes want the same name. A release makes one of them ask, in its turn.
#[tokio::test(start_paused = true)]
async fn one_asks_at_a_release() {
    const PROCESSES: usize = 8;
    const GRANTS: usize = 20;
    let mut plan = plan(Class::Calm, LEASE);
    plan.clients = PROCESSES;
    let scene = Scene::open(plan).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    let ask = Ask::new().lease(LEASE).wait(LEASE);
    let tasks = std::array::from_fn::<_, PROCESSES, _>(|place| {
        let (world, seat) = (Arc::clone(&scene.world), Arc::clone(&scene.seats[place]));
        tokio::spawn(async move {
            for _ in 0..GRANTS {
                let mine = ask.of(&world, &seat).await;
                assert!(mine.is_some(), "its turn");
                sleep(ms(3)).await;
                leave(&world, place, mine).await;
            }
        })
    });
    for task in tasks {
        task.await.expect("no panic");
    }
    let run: u64 = scene
        .masters()
        .map(|master| master.executed().values().sum::<u64>())
        .sum();
    let grants = (PROCESSES * GRANTS * scene.masters().count()) as u64;
    if run > 4 * grants {
        violated(
            "quiet while waiting",
            &format!("{run} scripts for {grants} grants and masters"),
        );
    }
    scene.end().await;
}

/// A waiter that gives up no longer listens to the client of another library for which it waited.
#[tokio::test(start_paused = true)]
async fn nobody_listens_for_ever() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let theirs = ["HSET", "a", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"];
    for master in scene.masters() {
        master.command(&theirs).expect("written");
        master.command(&["PEXPIRE", "a", "500"]).expect("written");
    }
    let waiter = scene.locking(1, Ask::new().wait(ms(200)));
    sleep(ms(100)).await;
    let channels = scene.master(0).channels();
    assert!(
        channels.contains(&"redisson_lock__channel:{a}".to_owned()),
        "{channels:?}"
    );
    assert!(waiter.await.expect("no panic").is_none(), "held all the time");
    sleep(ms(500)).await;
    scene.end().await;
}
