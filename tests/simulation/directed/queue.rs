//! Waiters stand in one queue on all masters, in order. A waiter that is gone, late or unable does not hold up the
//! rest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Cluster, Direction, Master};
use multilock::{Masters, Policy, Quarantine};
use multilock_test_support::scripts::{ACQUIRE, RELEASE};
use tokio::time::{Instant, sleep, timeout};

use crate::ask::{Ask, leave};
use crate::plan::{Class, ms};
use crate::scene::{Scene, in_time, plan, violated};
use crate::world::clock_us;

/// Longer than any wait here, so that nobody is saved by its end.
const LEASE: Duration = ms(20_000);

/// Clients that are a millisecond away from every master.
async fn near(clients: usize) -> Scene {
    near_in(Class::Calm, clients).await
}

async fn near_in(class: Class, clients: usize) -> Scene {
    let mut plan = plan(class, LEASE);
    plan.clients = clients;
    let scene = Scene::open(plan).await;
    for master in scene.masters() {
        master.set_delay(ms(1), ms(1));
    }
    scene
}

fn waiting() -> Ask<'static> {
    Ask::new().lease(LEASE).wait(LEASE)
}

/// Two wait for six seconds, in which each asks again; a third one tries all the time.
#[tokio::test(start_paused = true)]
async fn who_came_first_is_first() {
    let scene = near(4).await;
    let mine = scene.lock(0, waiting()).await;
    assert!(mine.is_some(), "free");
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut tasks = Vec::new();
    for client in [1, 2] {
        let (world, seat, order) = (
            Arc::clone(&scene.world),
            Arc::clone(&scene.seats[client]),
            Arc::clone(&order),
        );
        tasks.push(tokio::spawn(async move {
            let mine = waiting().of(&world, &seat).await;
            assert!(mine.is_some(), "its turn");
            order.lock().expect("not poisoned").push(client);
            sleep(ms(3)).await;
            leave(&world, client, mine).await;
        }));
        sleep(ms(2500)).await;
    }
    sleep(ms(1000)).await;
    scene.leave(0, mine).await;
    while tasks.iter().any(|task| !task.is_finished()) {
        let tried = scene.lock(3, Ask::new().lease(LEASE)).await;
        let early = tried.is_some() && order.lock().expect("not poisoned").len() < 2;
        if early {
            violated("order", "a try passed those who waited");
        }
        scene.leave(3, tried).await;
    }
    let order = order.lock().expect("not poisoned").clone();
    if order != [1, 2] {
        violated("order", &format!("{order:?}"));
    }
    scene.end().await;
}

/// The wait of the first ends while the call is on its way to it.
#[tokio::test(start_paused = true)]
async fn who_gives_up_calls_the_next() {
    let scene = near(3).await;
    let mine = scene.lock(0, waiting()).await;
    assert!(mine.is_some(), "free");
    let first = scene.locking(1, Ask::new().lease(LEASE).wait(ms(1000)));
    sleep(ms(10)).await;
    let second = scene.locking(2, waiting());
    sleep(ms(989)).await;
    let released = Instant::now();
    scene.leave(0, mine).await;
    assert!(first.await.expect("no panic").is_none(), "its time is over");
    let mine = second.await.expect("no panic");
    in_time(released, ms(50));
    assert!(mine.is_some(), "its turn");
    scene.leave(2, mine).await;
    scene.end().await;
}

/// Puts a waiter into the queues that comes before all others.
fn place(scene: &Scene, waiter: &str) {
    for master in scene.masters() {
        let beat = (clock_us(master) / 1000 + 15_000).to_string();
        let add = |key: &str, score: &str| master.command(&["ZADD", key, score, waiter]);
        add("multilock_queue:{a}", "1").expect("written");
        add("multilock_deadlines:{a}", &beat).expect("written");
    }
}

/// How long it takes from a release to the next grant behind such a waiter.
async fn behind(scene: Scene, waiter: &str, within: Duration) {
    behind_all(scene, &[waiter.to_owned()], within).await;
}

async fn behind_all(scene: Scene, waiters: &[String], within: Duration) {
    let mine = scene.lock(0, waiting()).await;
    assert!(mine.is_some(), "free");
    for waiter in waiters {
        place(&scene, waiter);
    }
    let second = scene.locking(2, waiting());
    sleep(ms(100)).await;
    let released = Instant::now();
    scene.leave(0, mine).await;
    let mine = second.await.expect("no panic");
    in_time(released, within);
    assert!(mine.is_some(), "its turn");
    scene.leave(2, mine).await;
    scene.end().await;
}

/// Its process was killed, and its connections are closed.
#[tokio::test(start_paused = true)]
async fn a_dead_waiter_costs_nothing() {
    let nobody = "00000000-0000-8000-8000-000000000000:1:1000";
    behind(near(3).await, nobody, ms(20)).await;
}

/// Puts waiters that died into the queue of a name, before all others.
fn place_dead(master: &Master, name: &str, number: usize) {
    let beat = (clock_us(master) / 1000 + 15_000).to_string();
    for place in 1..=number {
        let waiter = format!("00000000-0000-8000-8000-000000000000:{place}:1000");
        let add = |key: &str, score: &str| {
            let key = format!("{key}:{{{name}}}");
            master.command(&["ZADD", &key, score, &waiter]).expect("written");
        };
        add("multilock_queue", &place.to_string());
        add("multilock_deadlines", &beat);
    }
}

/// One script drops 512 of them, and calls the next waiter. Its question takes longer than the looks at the dead ones.
#[tokio::test(start_paused = true)]
async fn a_far_waiter_behind_very_many_dead_ones_keeps_its_turn() {
    let scene = near(3).await;
    for master in scene.masters() {
        master.set_delay(ms(10), ms(10));
    }
    let mine = scene.lock(0, waiting()).await;
    assert!(mine.is_some(), "free");
    scene.masters().for_each(|master| place_dead(master, "a", 512));
    let next = scene.locking(1, waiting());
    sleep(ms(100)).await;
    let released = Instant::now();
    let leaving = scene.leave(0, mine);
    let trying = async {
        // Between the call and the question of the waiter.
        sleep(ms(14)).await;
        scene.lock(2, Ask::new().lease(LEASE)).await
    };
    let (_, tried) = tokio::join!(leaving, trying);
    if tried.is_some() {
        violated("order", "a try passed the waiter that was called");
    }
    let mine = next.await.expect("no panic");
    in_time(released, ms(100));
    assert!(mine.is_some(), "its turn");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// They waited for several names. A script that dropped all of them would keep the server from everybody else.
#[tokio::test(start_paused = true)]
async fn dead_waiters_for_several_names_are_dropped_bit_by_bit() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let cluster = Cluster::new(3);
    let (client, next) = (connect(&cluster).await, connect(&cluster).await);
    for master in cluster.iter() {
        // So that the release is confirmed before the next question comes.
        master.set_delay(ms(5), ms(5));
    }
    let held = client.red_lock(NAMES).lock().await.expect("free");
    for (master, name) in cluster.iter().flat_map(|master| NAMES.map(|name| (master, name))) {
        place_dead(master, name, 512);
    }
    let lock = next.red_lock(NAMES);
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(ms(50)).await;
    let begun = Instant::now();
    held.unlock().await.expect("held");
    let left = |name: &str| -> usize {
        let queue = format!("multilock_queue:{{{name}}}");
        let count = cluster.master(0).command(&["ZCARD", &queue]).expect("a number");
        count[0].parse().expect("a number")
    };
    let dropped = NAMES.len() * 512 - NAMES.map(left).iter().sum::<usize>();
    if !(512..=1100).contains(&dropped) {
        violated("bounded", &format!("{dropped} were dropped in one go"));
    }
    waits.await.expect("no panic").expect("granted");
    // The time that a called waiter has to come, and the time after which a waiter asks by itself.
    in_time(begun, ms(6100));
}

/// Id of the second client on the masters, once it has waited for the first time.
async fn client_id(scene: &Scene) -> String {
    let mine = scene.lock(1, waiting()).await;
    let field = scene.master(0).fields("a").swap_remove(0);
    scene.leave(1, mine).await;
    field.split(':').next().expect("an id").to_owned()
}

/// It has given up, and a late acquire has put it back into the queues.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_called_in_vain_leaves() {
    let scene = near(3).await;
    let stranger = format!("{}:99:1000", client_id(&scene).await);
    behind(scene, &stranger, ms(50)).await;
}

/// The masters have forgotten how to let somebody leave.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_called_in_vain_leaves_where_scripts_were_forgotten() {
    let scene = near(3).await;
    let stranger = format!("{}:99:1000", client_id(&scene).await);
    for master in scene.masters() {
        master.forget_script("withdraw");
    }
    behind(scene, &stranger, ms(50)).await;
}

/// It listens, and none of its messages arrives.
#[tokio::test(start_paused = true)]
async fn a_frozen_waiter_costs_little() {
    let scene = near(3).await;
    let frozen = format!("{}:99:1000", client_id(&scene).await);
    for place in 0..3 {
        scene.cut(1, place, Direction::ToMaster);
    }
    // The time that it has to come, and the next time that the other one asks by itself.
    behind(scene, &frozen, ms(6100)).await;
}

/// So do the others of its process: each task that waits for a set has a waiter.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_a_frozen_process_cost_little() {
    let scene = near(3).await;
    let client = client_id(&scene).await;
    for place in 0..3 {
        scene.cut(1, place, Direction::ToMaster);
    }
    let frozen: Vec<_> = (100..140)
        .map(|number| format!("{client}:{number}:1000"))
        .collect();
    behind_all(scene, &frozen, ms(7100)).await;
}

/// One waiter wants all masters, and one of them is down. The other waiter wants a majority.
#[tokio::test(start_paused = true)]
async fn who_cannot_win_is_in_nobodys_way() {
    let mut plan = plan(Class::Durable, LEASE);
    plan.clients = 3;
    let scene = Scene::open(plan).await;
    let mine = scene.lock(0, waiting()).await;
    assert!(mine.is_some(), "free");
    let all = Ask::new().policy(Policy::MultiLock).lease(LEASE).wait(ms(12_000));
    let hopeless = scene.locking(1, all);
    sleep(ms(100)).await;
    scene.master(2).crash();
    // It asks again, and learns of it.
    sleep(ms(6000)).await;
    let second = scene.locking(2, waiting());
    sleep(ms(100)).await;
    let released = Instant::now();
    scene.leave(0, mine).await;
    let mine = second.await.expect("no panic");
    in_time(released, ms(500));
    assert!(mine.is_some(), "its turn");
    scene.leave(2, mine).await;
    scene.master(2).restart(multilock::sim::Keep::Data);
    let mine = hopeless.await.expect("no panic");
    assert!(mine.is_some(), "all masters are there again");
    scene.leave(1, mine).await;
    scene.end().await;
}

/// A master loses a hold while a client waits for it, and gets it again.
#[tokio::test(start_paused = true)]
async fn a_hold_is_taken_again_past_the_queue() {
    let scene = Scene::open(plan(Class::Reckless, ms(3000))).await;
    let mine = scene.lock(0, Ask::new()).await;
    assert!(mine.is_some(), "free");
    let second = scene.locking(1, Ask::new().wait(ms(9000)));
    sleep(ms(100)).await;
    scene.forgets(1, "loses a key");
    scene.master(1).evict("a");
    sleep(ms(2500)).await;
    let holds = |master: usize| scene.master(master).fields("a");
    if holds(1) != holds(0) {
        violated("covered", "a hold was not taken again");
    }
    scene.leave(0, mine).await;
    let mine = second.await.expect("no panic");
    assert!(mine.is_some(), "its turn");
    scene.leave(1, mine).await;
    scene.end().await;
}

async fn connect(cluster: &Cluster) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off);
    cluster.connect(builder).await.expect("connects")
}

/// Takes the names again and again for so long; how often.
async fn take(masters: Masters, names: &[&str], time: Duration) -> usize {
    let (lock, grants) = (masters.red_lock(names), AtomicUsize::new(0));
    let taking = async {
        loop {
            let guard = lock.lock().await.expect("granted");
            sleep(ms(5)).await;
            guard.unlock().await.expect("held");
            grants.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _ = timeout(time, taking).await;
    grants.into_inner()
}

/// One client waits for two names, and a leader has one of them for long.
#[tokio::test(start_paused = true)]
async fn a_waiter_for_several_names_keeps_none_of_them_shut() {
    let cluster = Cluster::new(3);
    let (leader, both) = (connect(&cluster).await, connect(&cluster).await);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
    let led = leader.red_lock("leader").lock().await.expect("free");
    let lock = both.red_lock(["a", "leader"]);
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(ms(10)).await;
    let time = Duration::from_secs(8);
    let (one, other) = tokio::join!(take(one, &["a"], time), take(other, &["a"], time));
    // Each takes 5 ms and a hand-off of two round trips at most.
    if one.min(other) < 200 {
        violated("progress", &format!("{one} and {other} grants"));
    }
    let begun = Instant::now();
    led.unlock().await.expect("held");
    waits.await.expect("no panic").expect("granted");
    in_time(begun, ms(100));
}

/// The same, and another one asks for the free name once, and then sleeps.
#[tokio::test(start_paused = true)]
async fn a_name_is_shut_for_the_sake_of_another_for_a_second_at_most() {
    for asked_after in [10, 500, 900, 1500, 4900] {
        let cluster = Cluster::new(3);
        let (leader, both) = (connect(&cluster).await, connect(&cluster).await);
        let other = connect(&cluster).await;
        for master in cluster.iter() {
            master.set_delay(ms(1), ms(1));
        }
        let led = leader.red_lock("leader").lock().await.expect("free");
        let lock = both.red_lock(["a", "leader"]);
        let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
        sleep(ms(asked_after)).await;
        let begun = Instant::now();
        drop(other.red_lock("a").lock().await.expect("granted"));
        in_time(begun, ms(1100));
        let begun = Instant::now();
        led.unlock().await.expect("held");
        waits.await.expect("no panic").expect("granted");
        in_time(begun, ms(100));
    }
}

/// Tasks of one process want overlapping names.
#[tokio::test(start_paused = true)]
async fn overlapping_names_of_one_process_share() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
    let time = Duration::from_secs(10);
    let several = |names| take(masters.clone(), names, time);
    let (both, one, other) = tokio::join!(several(&["a", "b"]), several(&["a"]), several(&["a"]));
    if both * 4 < one.max(other) {
        violated(
            "progress",
            &format!("{both} grants of both beside {one} and {other}"),
        );
    }
}

/// Whether exactly one waiter stands in the queue for a name on every master.
fn one_stands(cluster: &Cluster) {
    for (place, master) in cluster.iter().enumerate() {
        let count = master
            .command(&["ZCARD", "multilock_queue:{a}"])
            .expect("a number");
        if count != ["1"] {
            violated("order", &format!("{} waiters on m{place}", count.join(" ")));
        }
    }
}

/// The rollback of a lost round puts its waiter into the queue, also where nobody waits. A waiter that asks there later comes
/// behind it.
#[tokio::test(start_paused = true)]
async fn a_rollback_gives_its_waiter_a_place_where_nobody_waits() {
    let cluster = Cluster::new(1);
    let master = cluster.master(0);
    let deadlines = "multilock_deadlines:{a}";
    let keys = ["a", "multilock_revoked:{a}", deadlines, "multilock_fence:{a}"];
    let granted = master.eval(ACQUIRE, &keys, &["me:1", "1000"]);
    assert_eq!(granted.map(|answer| answer.len()), Ok(1));
    let rolled_back = master.eval(RELEASE, &["a", deadlines], &["me:1", "7:1000", "99"]);
    assert_eq!(rolled_back, Ok(vec!["1".into()]));
    one_stands(&cluster);
}

/// Its first round is granted and not fenced. When it asks again, somebody holds the name.
#[tokio::test(start_paused = true)]
async fn who_could_not_be_fenced_has_a_place_again() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
    let behind = |by: u64| (clock_us(cluster.master(0)) + by * 1_000_000).to_string();
    let to_all = |words: &[&str]| {
        for master in cluster.iter() {
            master.command(words).expect("done");
        }
    };
    let fence = |by: u64| to_all(&["SET", "multilock_fence:{a}", &behind(by)]);
    fence(10);
    let lock = masters.multi_lock("a");
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    // Its acquire has been executed, and the raise of its token has not.
    sleep(Duration::from_micros(2500)).await;
    fence(20);
    sleep(ms(2)).await;
    to_all(&["HSET", "a", "00000000-0000-8000-8000-000000000000:1", "1"]);
    sleep(ms(100)).await;
    one_stands(&cluster);
    waits.abort();
}

/// Only the master that refuses first knows the script.
#[tokio::test(start_paused = true)]
async fn who_found_the_script_forgotten_asks_again() {
    let cluster = Cluster::new(3);
    let (holder, masters) = (connect(&cluster).await, connect(&cluster).await);
    let held = holder.multi_lock("a").lock().await.expect("free");
    for place in [1, 2] {
        cluster.master(place).forget_script("acquire");
    }
    let lock = masters.multi_lock("a");
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    sleep(ms(100)).await;
    one_stands(&cluster);
    held.unlock().await.expect("held");
    waits.await.expect("no panic").expect("granted");
}

/// A waiter that is called gets in for a short time and dies there. The next one has not asked since it was behind it.
#[tokio::test(start_paused = true)]
async fn a_dead_holder_with_a_short_lease_is_followed_at_its_end() {
    let cluster = Cluster::new(3);
    let (holder, dying, next) = (
        connect(&cluster).await,
        connect(&cluster).await,
        connect(&cluster).await,
    );
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
    let held = holder.red_lock("a").lock().await.expect("free");
    let lock = dying.red_lock("a").lease(ms(1000));
    let dying = tokio::spawn(async move { lock.lock().await.map(multilock::MultiLockGuard::leak) });
    sleep(ms(10)).await;
    let next = tokio::spawn(async move { next.red_lock("a").lock().await.map(drop) });
    sleep(ms(10)).await;
    held.unlock().await.expect("held");
    dying.await.expect("no panic").expect("granted");
    let begun = Instant::now();
    next.await.expect("no panic").expect("granted");
    in_time(begun, ms(1010));
}

/// The same where the waiter that was told of the short lease gives up before its end.
#[tokio::test(start_paused = true)]
async fn whoever_moves_up_behind_a_dead_holder_is_told_the_end_of_its_lease() {
    let scene = near(4).await;
    let mine = scene.lock(0, waiting()).await;
    let dying = scene.locking(1, Ask::new().lease(ms(2500)).wait(LEASE));
    sleep(ms(10)).await;
    let leaving = scene.locking(2, waiting().wait(ms(1000)));
    sleep(ms(10)).await;
    let next = scene.locking(3, waiting());
    sleep(ms(10)).await;
    scene.leave(0, mine).await;
    let dying = dying.await.expect("no panic").expect("its turn");
    let begun = Instant::now();
    scene.world.give_up(1, dying, "leak").leak();
    assert!(leaving.await.expect("no panic").is_none(), "its time is over");
    let mine = next.await.expect("no panic");
    in_time(begun, ms(2600));
    scene.leave(3, mine).await;
    scene.end().await;
}

/// A client of another library releases while the waiter asks: it hears of that before it hears that it is refused.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_announced_while_it_asks_is_noticed() {
    let cluster = Cluster::new(1);
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .beside_redisson(true)
        .node_timeout(ms(1000));
    let masters = cluster.connect(builder).await.expect("connects");
    let master = cluster.master(0);
    let run = |words: &[&str]| master.command(words).expect("done");
    run(&["HSET", "a", "00000000-0000-4000-8000-000000000000:1", "1"]);
    master.set_delay(Duration::ZERO, ms(200));
    master.set_notice_delay(Some(Duration::ZERO));
    let lock = masters.red_lock("a");
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    // Refused, subscribed, and asked again: the answer to that is on its way.
    sleep(ms(500)).await;
    assert_eq!(master.executed()["acquire"], 2);
    run(&["DEL", "a"]);
    run(&["PUBLISH", "redisson_lock__channel:{a}", "0"]);
    let begun = Instant::now();
    waits.await.expect("no panic").expect("granted");
    in_time(begun, ms(500));
}

fn step(master: &Master, by_ms: i64) {
    let by = ms(by_ms.unsigned_abs());
    if by_ms < 0 {
        master.set_clock_back(by);
    } else {
        master.set_clock_forward(by);
    }
}

/// Six clients wait for a name, and the clocks of some of three masters step before it is released. Returns the order
/// in which they get in, and the longest time from one to the next.
async fn where_clocks_step(stepped: usize, by_ms: i64) -> (Vec<usize>, Duration) {
    // Locks do not tolerate steps of a quorum's clocks.
    let class = if stepped > 1 { Class::Reckless } else { Class::Calm };
    let scene = near_in(class, 7).await;
    let mine = scene.lock(0, waiting()).await;
    let entered: Arc<Mutex<Vec<(usize, Instant)>>> = Arc::default();
    let mut tasks = Vec::new();
    for client in 1..7 {
        let (world, seat, entered) = (
            Arc::clone(&scene.world),
            Arc::clone(&scene.seats[client]),
            Arc::clone(&entered),
        );
        tasks.push(tokio::spawn(async move {
            let mine = Ask::new().lease(LEASE).wait(LEASE * 9).of(&world, &seat).await;
            entered
                .lock()
                .expect("not poisoned")
                .push((client, Instant::now()));
            sleep(ms(3)).await;
            leave(&world, client, mine).await;
        }));
        sleep(ms(20)).await;
    }
    scene
        .masters()
        .take(stepped)
        .for_each(|master| step(master, by_ms));
    sleep(ms(20)).await;
    let mut last = Instant::now();
    scene.leave(0, mine).await;
    for task in tasks {
        task.await.expect("no panic");
    }
    let entered = entered.lock().expect("not poisoned").clone();
    let mut longest = Duration::ZERO;
    for (_, at) in &entered {
        longest = longest.max(at.saturating_duration_since(last));
        last = *at;
    }
    if stepped == 1 {
        // Beyond five minutes it has no vote in fenced locks until somebody sets it right.
        step(scene.master(0), -by_ms);
        scene.end().await;
    }
    (entered.into_iter().map(|(client, _)| client).collect(), longest)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_changes_no_order() {
    for by_ms in [1_000, 10_000, 240_000, 360_000] {
        for by_ms in [by_ms, -by_ms] {
            let (entered, longest) = where_clocks_step(1, by_ms).await;
            if entered != [1, 2, 3, 4, 5, 6] || longest > ms(50) {
                violated("order", &format!("{by_ms} ms: {entered:?}, {longest:?}"));
            }
        }
    }
}

/// A master with a clock that has stepped has no vote for as long as leases that the step harms can live. Without a
/// quorum, no client gets in for that long. Then all clients get in, in any order.
#[tokio::test(start_paused = true)]
async fn clocks_of_a_quorum_that_step_stop_nobody_for_longer_than_a_lease() {
    for stepped in [2, 3] {
        for by_ms in [1_000, 10_000] {
            for by_ms in [by_ms, -by_ms] {
                let (entered, longest) = where_clocks_step(stepped, by_ms).await;
                if entered.len() < 6 || longest > LEASE + ms(1000) {
                    violated(
                        "no stall",
                        &format!("{by_ms} ms on {stepped}: {entered:?}, {longest:?}"),
                    );
                }
            }
        }
    }
}
