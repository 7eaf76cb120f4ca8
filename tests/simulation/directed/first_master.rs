//! Beside Redisson's MultiLock, which takes one master after the other, a waiter for all masters asks the first one first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use multilock::sim::{Cluster, Keep, Master};
use multilock::{Masters, Policy, Quarantine};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::beside_redisson::theirs::{NAME, RLOCK, Theirs};
use crate::ask::Ask;
use crate::client_plan::ClientPlan;
use crate::plan::{Class, ms};
use crate::scene::{Scene, plan, settle, violated};
use crate::world::Mine;

const LEASE: Duration = Duration::from_secs(2);
const CHANNEL: &str = "redisson_lock__channel:{a}";

fn for_all() -> Ask<'static> {
    Ask::new().policy(Policy::MultiLock).wait(LEASE * 20)
}

/// A list of theirs, in the order of the masters.
struct List(Theirs);

impl List {
    fn new(thread: u64) -> Self {
        Self(Theirs::new(&RLOCK, thread))
    }

    async fn lock(&self, master: &Master) -> bool {
        self.0.lock(master, LEASE * 10).await
    }

    async fn take(&self, scene: &Scene) {
        for master in scene.masters() {
            assert!(self.lock(master).await, "free");
        }
    }

    /// Its script has no channel: the release is announced by hand.
    async fn unlock(&self, master: &Master) {
        assert!(self.0.unlock(master).await, "held");
        master.command(&["PUBLISH", CHANNEL, "0"]).expect("announced");
    }

    async fn release(&self, scene: &Scene) {
        for master in scene.masters() {
            self.unlock(master).await;
        }
    }

    /// All but the first master.
    async fn release_others(&self, scene: &Scene) {
        for master in scene.masters().skip(1) {
            self.unlock(master).await;
        }
    }
}

/// Waits until each has met the list, and asked the first master alone.
async fn met(waiters: usize) {
    sleep(ms(20 * waiters as u64 + 20)).await;
}

/// A list of theirs that has all masters, and behind it a waiter of this client.
async fn behind_a_list(
    class: Class,
    client: usize,
    ask: Ask<'static>,
) -> (Scene, List, JoinHandle<Option<Mine>>) {
    let scene = Scene::open(plan(class, LEASE)).await;
    let held = List::new(1);
    held.take(&scene).await;
    let waiter = scene.locking(client, ask);
    met(1).await;
    (scene, held, waiter)
}

fn acquires(scene: &Scene) -> Vec<u64> {
    let count = |master: &Master| master.executed().get("acquire").copied().unwrap_or_default();
    scene.masters().map(count).collect()
}

async fn granted(within: Duration, waiter: JoinHandle<Option<Mine>>) -> Option<Mine> {
    let begun = Instant::now();
    let mine = waiter.await.expect("no panic");
    if mine.is_none() || begun.elapsed() > within {
        violated("progress", &format!("only after {:?}", begun.elapsed()));
    }
    mine
}

/// The next list of theirs is on its way: it has the first master, and the others are free. A waiter that asked them would
/// take the masters that the list wants next.
#[tokio::test(start_paused = true)]
async fn it_asks_the_first_master_first() {
    let (scene, held, waiter) = behind_a_list(Class::Calm, 1, for_all()).await;
    let next = List::new(2);
    let before = acquires(&scene);
    held.0.unlock(scene.master(0)).await;
    assert!(next.lock(scene.master(0)).await, "free");
    held.release_others(&scene).await;
    scene
        .master(0)
        .command(&["PUBLISH", CHANNEL, "0"])
        .expect("announced");
    sleep(ms(100)).await;
    let asked = acquires(&scene);
    if asked[1..] != before[1..] || asked[0] == before[0] {
        violated("the first master first", &format!("{before:?}, then {asked:?}"));
    }
    for place in [1, 2] {
        assert!(next.lock(scene.master(place)).await, "nobody is in its way");
    }
    next.release(&scene).await;
    let mine = granted(ms(50), waiter).await;
    scene.leave(1, mine).await;
    scene.end().await;
}

/// A list of theirs that had to give up has the others for some ms more.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_behind_the_first_master_is_got() {
    let (scene, held, waiter) = behind_a_list(Class::Calm, 1, for_all()).await;
    held.unlock(scene.master(0)).await;
    sleep(ms(10)).await;
    assert!(
        !List::new(2).lock(scene.master(0)).await,
        "the first master is kept"
    );
    held.unlock(scene.master(2)).await;
    sleep(ms(20)).await;
    held.unlock(scene.master(1)).await;
    let mine = granted(ms(5), waiter).await;
    let votes = mine.as_ref().map(|mine| mine.guard.votes().granted());
    assert_eq!(votes, Some(3), "it knows that it has all");
    for master in scene.masters() {
        assert!(!List::new(2).lock(master).await, "it has all");
    }
    scene.leave(1, mine).await;
    scene.end().await;
}

/// Another lock of theirs has one of the others for long.
#[tokio::test(start_paused = true)]
async fn the_first_master_is_kept_for_a_while_only() {
    let (scene, held, waiter) = behind_a_list(Class::Calm, 1, for_all()).await;
    let other = List::new(2);
    let begun = Instant::now();
    held.unlock(scene.master(0)).await;
    settle().await;
    // It comes by itself, and asks for no other master.
    while !other.lock(scene.master(0)).await {
        sleep(ms(1)).await;
        if begun.elapsed() > ms(120) {
            violated("the first master is given back", "it is kept");
        }
    }
    sleep(LEASE).await;
    assert!(!waiter.is_finished());
    other.unlock(scene.master(0)).await;
    held.release_others(&scene).await;
    let mine = granted(LEASE * 3, waiter).await;
    scene.leave(1, mine).await;
    scene.end().await;
}

/// A refusal because of a hold of ours decides before the first master tells of a field of theirs, which calls nobody.
#[tokio::test(start_paused = true)]
async fn a_field_of_theirs_behind_a_hold_of_ours_is_noticed() {
    let scene = Scene::open(plan(Class::Calm, LEASE)).await;
    let theirs = List::new(1);
    assert!(theirs.lock(scene.master(0)).await, "free");
    let mine = scene.lock(0, Ask::new()).await;
    assert!(mine.is_some(), "two of three");
    scene.master(0).set_delay(Duration::ZERO, ms(2));
    let waiter = scene.locking(1, for_all());
    met(1).await;
    scene.leave(0, mine).await;
    sleep(ms(100)).await;
    theirs.unlock(scene.master(0)).await;
    let mine = granted(ms(50), waiter).await;
    scene.leave(1, mine).await;
    scene.end().await;
}

/// Without the first master all are asked at once: it is down, or does not answer.
#[tokio::test(start_paused = true)]
async fn without_the_first_master_all_are_asked_at_once() {
    for is_down in [true, false] {
        let (scene, held, waiter) = behind_a_list(Class::Durable, 1, for_all()).await;
        if is_down {
            scene.master(0).crash();
        } else {
            scene.master(0).freeze();
        }
        let before = acquires(&scene);
        held.release_others(&scene).await;
        sleep(LEASE * 4).await;
        let asked = acquires(&scene);
        assert!(
            asked[1] > before[1] && asked[2] > before[2],
            "{before:?}, {asked:?}"
        );
        assert!(!waiter.is_finished(), "the policy needs all");
        if is_down {
            scene.master(0).restart(Keep::Data);
        } else {
            scene.master(0).thaw();
        }
        held.unlock(scene.master(0)).await;
        let mine = granted(LEASE * 4, waiter).await;
        scene.leave(1, mine).await;
        scene.end().await;
    }
}

/// A first master without a vote may have forgotten the holder, so all masters are asked at once.
#[tokio::test(start_paused = true)]
async fn without_a_vote_of_the_first_master_all_are_asked_at_once() {
    let (scene, held, waiter) = behind_a_list(Class::Forgetful, 1, for_all()).await;
    scene.restart_empty(0);
    sleep(ms(100)).await;
    let before = acquires(&scene);
    held.release_others(&scene).await;
    let mine = granted(LEASE, waiter).await;
    let asked = acquires(&scene);
    assert!(
        asked
            .iter()
            .zip(&before)
            .all(|(asked, before)| *asked == before + 1),
        "{before:?}, {asked:?}"
    );
    scene.leave(1, mine).await;
    scene.end().await;
}

/// Each of two of ours has another first master, and keeps it while it asks for the other's.
#[tokio::test(start_paused = true)]
async fn two_of_ours_with_different_orders_get_in() {
    let mut plan = plan(Class::Calm, LEASE);
    let order = |masters: &[usize]| ClientPlan {
        masters: masters.to_vec(),
        ..ClientPlan::plain(&plan)
    };
    plan.each = vec![order(&[0, 1, 2]), order(&[2, 1, 0])];
    let scene = Scene::open(plan).await;
    let held = List::new(1);
    held.take(&scene).await;
    let waiters = vec![scene.locking(0, for_all()), scene.locking(1, for_all())];
    met(2).await;
    let begun = Instant::now();
    held.release(&scene).await;
    let (first, client, mut waiters) = futures::future::select_all(waiters).await;
    let first = first.expect("no panic");
    assert!(
        first.is_some() && begun.elapsed() < LEASE,
        "{:?}",
        begun.elapsed()
    );
    scene.leave(client, first).await;
    let second = granted(LEASE, waiters.remove(0)).await;
    scene.leave(1 - client, second).await;
    scene.end().await;
}

/// The release of another of ours has reached the first master, and is on its way to the others.
#[tokio::test(start_paused = true)]
async fn a_release_on_its_way_is_waited_for() {
    let (scene, held, first) = behind_a_list(Class::Calm, 0, for_all()).await;
    let second = scene.locking(1, for_all());
    met(1).await;
    held.release(&scene).await;
    let mine = granted(ms(100), first).await;
    sleep(ms(50)).await;
    for place in [1, 2] {
        scene.master(place).set_delay(ms(10), Duration::ZERO);
    }
    let (_, mine) = tokio::join!(scene.leave(0, mine), granted(ms(60), second));
    scene.leave(1, mine).await;
    scene.end().await;
}

/// The connection to the first master ends while the others refuse.
#[tokio::test(start_paused = true)]
async fn the_connection_to_the_first_master_ends() {
    for is_got in [true, false] {
        let (scene, held, waiter) = behind_a_list(Class::Stale, 1, for_all()).await;
        held.unlock(scene.master(0)).await;
        sleep(ms(10)).await;
        scene.master(0).reset_connections();
        if !is_got {
            sleep(ms(200)).await;
            assert!(!waiter.is_finished());
        }
        held.release_others(&scene).await;
        let mine = granted(LEASE * 3, waiter).await;
        scene.leave(1, mine).await;
        sleep(ms(100)).await;
        let next = List::new(3);
        next.take(&scene).await;
        next.release(&scene).await;
        scene.end().await;
    }
}

/// A waiter that is dropped while it keeps the first master leaves nothing anywhere.
#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_leaves_nothing() {
    for after in [ms(1), ms(5), ms(20), ms(49), ms(55)] {
        let (scene, held, waiter) =
            behind_a_list(Class::Calm, 1, for_all().dropped_after(ms(40) + after)).await;
        held.unlock(scene.master(0)).await;
        assert!(waiter.await.expect("no panic").is_none(), "the others are held");
        sleep(ms(20)).await;
        assert!(List::new(2).lock(scene.master(0)).await, "free");
        for master in scene.masters() {
            assert!(master.evict(NAME), "held");
        }
        scene.end().await;
    }
}

/// The same where it is dropped while its question is on its way to another master.
#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_while_it_asks_the_others_leaves_nothing() {
    for place in [1, 2] {
        let (scene, held, waiter) = behind_a_list(Class::Calm, 1, for_all().dropped_after(ms(50))).await;
        scene.world.networks[1].set_distance(place, ms(20));
        held.release_others(&scene).await;
        held.unlock(scene.master(0)).await;
        assert!(waiter.await.expect("no panic").is_none(), "dropped");
        sleep(ms(50)).await;
        for master in scene.masters() {
            assert!(List::new(2).lock(master).await, "free");
            assert!(master.evict(NAME), "held");
        }
        scene.end().await;
    }
}

/// Notices two holders at once, and counts the grants of each side.
#[derive(Default)]
struct Inside {
    is_held: AtomicBool,
    grants: [AtomicUsize; 2],
}

impl Inside {
    async fn section(&self, side: usize) {
        if self.is_held.swap(true, Ordering::Relaxed) {
            violated("mutual exclusion", "two are inside");
        }
        self.grants[side].fetch_add(1, Ordering::Relaxed);
        sleep(ms(1)).await;
        self.is_held.store(false, Ordering::Relaxed);
    }
}

/// A thread of theirs that takes all masters again and again. Timers go by whole milliseconds here.
async fn lists(cluster: &Cluster, thread: u64, inside: &Inside, rng: &mut StdRng) {
    let list = List::new(thread);
    loop {
        for master in cluster.iter() {
            while !list.lock(master).await {
                sleep(ms(rng.random_range(1..6))).await;
            }
            sleep(ms(rng.random_range(0..2))).await;
        }
        inside.section(1).await;
        for master in cluster.iter() {
            list.unlock(master).await;
            sleep(ms(rng.random_range(0..2))).await;
        }
        sleep(ms(rng.random_range(1..5))).await;
    }
}

/// Two processes of ours and two threads of theirs, at random: never two inside, and each side gets in again and again.
#[tokio::test(start_paused = true)]
async fn both_get_in_and_never_two_at_once() {
    for seed in 0..3 {
        let mut rng = StdRng::seed_from_u64(seed);
        let cluster = Cluster::new(3);
        for master in cluster.iter() {
            let mut delay = || ms(rng.random_range(1..3));
            master.set_delay(delay(), delay());
        }
        let inside = Inside::default();
        let ours = async |masters: Masters| -> () {
            loop {
                let guard = masters.multi_lock(NAME).lock().await.expect("granted");
                inside.section(0).await;
                guard.unlock().await.expect("held");
            }
        };
        let builder = || {
            Masters::builder()
                .quarantine(Quarantine::Off)
                .beside_redisson(true)
        };
        let one = cluster.connect(builder()).await.expect("connects");
        let other = cluster.connect(builder()).await.expect("connects");
        let (mut first, mut second) = (
            StdRng::seed_from_u64(seed + 100),
            StdRng::seed_from_u64(seed + 200),
        );
        tokio::select! {
            () = ours(one) => {}
            () = ours(other) => {}
            () = lists(&cluster, 1, &inside, &mut first) => {}
            () = lists(&cluster, 2, &inside, &mut second) => {}
            () = sleep(LEASE * 2) => {}
        }
        let grants = [0, 1].map(|side| inside.grants[side].load(Ordering::Relaxed));
        if grants.iter().any(|grants| *grants < 50) {
            violated("progress", &format!("seed {seed}: {grants:?}"));
        }
    }
}
