//! Permits: at most as many holders as there are permits, the order of waiters, and seats that stay free.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use multilock::sim::{Client, Cluster, Direction, Keep, Master, Network};
use multilock::{
    Closing, LockError, Masters, MultiLock, MultiLockGuard, NodeState, Permit, Policy, Quarantine, Rounds,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::plan::ms;

const LEASE: Duration = ms(3000);
/// Time that a request takes from clients that are not beside the masters; answers and calls take none.
const FAR: Duration = ms(15);
/// Keys of the waiters for the name.
const QUEUE: &str = "multilock_queue:{gpu:seat}";
const DEADLINES: &str = "multilock_deadlines:{gpu:seat}";

async fn connect(cluster: &Cluster) -> Masters {
    connect_as(cluster, &Client::new()).await
}

async fn connect_as(cluster: &Cluster, client: &Client) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
    cluster.connect_as(client, builder).await.expect("connects")
}

/// Lock that takes one of the given number of permits of the name.
fn gpu(masters: &Masters, permits: u32) -> MultiLock<Permit> {
    masters.permits("gpu", permits)
}

async fn all(masters: &Masters, permits: u32) -> Vec<MultiLockGuard<Permit>> {
    let mut held = Vec::new();
    for _ in 0..permits {
        held.push(gpu(masters, permits).lock().await.expect("a free seat"));
    }
    held
}

fn keys(cluster: &Cluster, beginning: &str) -> usize {
    let keys = cluster.iter().flat_map(Master::keys);
    keys.filter(|key| key.starts_with(beginning)).count()
}

/// Counts those inside, and the most at once.
#[derive(Default)]
struct Inside {
    now: AtomicUsize,
    most: AtomicUsize,
    seats: Mutex<BTreeSet<u32>>,
}

impl Inside {
    async fn work(&self, permit: &MultiLockGuard<Permit>, time: Duration) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let is_new = self.seats.lock().expect("seats").insert(permit.seat());
        assert!(is_new, "seat {} is held twice", permit.seat());
        sleep(time).await;
        self.seats.lock().expect("seats").remove(&permit.seat());
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Each seat is held once, a further client is refused, and a seat that is given up is taken again.
#[tokio::test(start_paused = true)]
async fn as_many_as_there_are_permits_get_in() {
    for permits in [1, 4, 64] {
        let cluster = Cluster::new(3);
        let (one, other) = (connect(&cluster).await, connect(&cluster).await);
        let mut held = all(&one, permits).await;
        let seats: BTreeSet<u32> = held.iter().map(MultiLockGuard::seat).collect();
        assert_eq!(seats, (1..=permits).collect());
        let refused = gpu(&other, permits).try_lock().await;
        assert!(matches!(refused, Err(LockError::Contended { .. })), "{refused:?}");
        let given_up = held.pop().expect("one");
        let seat = given_up.seat();
        given_up.unlock().await.expect("released");
        let taken = gpu(&other, permits).try_lock().await.expect("a free seat");
        assert_eq!(taken.seat(), seat);
    }
}

/// Tasks of several clients under every policy: never too many, nobody is left out, and no seat stays free while somebody
/// waits.
#[tokio::test(start_paused = true)]
async fn seats_are_in_use_while_somebody_waits() {
    for (permits, nodes) in [(1, 3), (2, 5), (4, 3), (16, 3)] {
        let distances = vec![ms(2); nodes];
        let (of_best, asked) = use_of_seats(permits, |_| distances.clone()).await;
        assert!(of_best >= 0.95, "{permits} permits: {of_best} of the best");
        assert!(asked <= 2.3, "{permits} permits: {asked} questions for a grant");
    }
}

/// The same where each client has another master a little further away, so that masters see releases in different orders.
#[tokio::test(start_paused = true)]
async fn seats_are_in_use_where_masters_see_releases_in_different_orders() {
    for (permits, nodes) in [(4, 3), (8, 3), (8, 5)] {
        let away = |client: usize| {
            let further = |node| {
                ms(if (client + node) % nodes < nodes / 2 {
                    21
                } else {
                    20
                })
            };
            (0..nodes).map(further).collect::<Vec<_>>()
        };
        let (of_best, asked) = use_of_seats(permits, away).await;
        assert!(of_best >= 0.95, "{permits} permits: {of_best} of the best");
        assert!(asked <= 2.2, "{permits} permits: {asked} questions for a grant");
    }
}

/// Three tasks for each seat, each a client of its own at the `distances` of its number. The share of the least time that they
/// take, and the questions for a grant.
async fn use_of_seats(permits: u32, distances: impl Fn(usize) -> Vec<Duration>) -> (f64, f64) {
    let nodes = distances(0).len();
    let cluster = Cluster::new(nodes);
    let (tasks, times, hold) = (3 * permits, 10, ms(20));
    let inside = Arc::new(Inside::default());
    let mut clients = Vec::new();
    for task in 0..tasks {
        let client = Client::new()
            .seed(u64::from(task))
            .distances(&distances(usize::try_from(task).expect("few")));
        let policy = [Policy::RedLock, Policy::MultiLock][usize::try_from(task % 2).expect("0 or 1")];
        clients.push((connect_as(&cluster, &client).await, policy));
    }
    // The masters have the script after the first permit.
    drop(all(&clients[1].0, permits).await);
    sleep(ms(1000)).await;
    let before: u64 = cluster.iter().map(asked).sum();
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for (masters, policy) in clients {
        let inside = Arc::clone(&inside);
        all.spawn(async move {
            for _ in 0..times {
                let permit = gpu(&masters, permits)
                    .policy(policy)
                    .lock()
                    .await
                    .expect("a seat");
                inside.work(&permit, hold).await;
                permit.unlock().await.expect("released");
            }
        });
    }
    while let Some(one) = all.join_next().await {
        one.expect("no panic");
    }
    let took = begun.elapsed();
    assert!(inside.most.load(Ordering::SeqCst) <= usize::try_from(permits).expect("few"));
    let furthest = (0..3).flat_map(&distances).max().expect("masters");
    let best = (hold + furthest * 2) * tasks * times / permits;
    let questions = u32::try_from(cluster.iter().map(asked).sum::<u64>() - before).expect("few");
    let nodes = u32::try_from(nodes).expect("few");
    let asked = f64::from(questions) / f64::from(nodes * tasks * times);
    (best.as_secs_f64() / took.as_secs_f64(), asked)
}

/// Questions that a master was asked.
fn asked(master: &Master) -> u64 {
    master.executed().get("acquire").copied().unwrap_or_default()
}

/// Waiters come in one after the other, in the order of their arrival.
#[tokio::test(start_paused = true)]
async fn waiters_come_in_in_order() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let mut held = all(&holder, 2).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = Vec::new();
    for number in 0..6 {
        let masters = connect(&cluster).await;
        let order = Arc::clone(&order);
        waiting.push(tokio::spawn(async move {
            let permit = gpu(&masters, 2).lock().await.expect("a seat");
            order.lock().expect("order").push(number);
            sleep(ms(50)).await;
            drop(permit);
        }));
        sleep(ms(20)).await;
    }
    // Both at once: each calls another waiter.
    held.drain(..).for_each(drop);
    for one in waiting {
        timeout(ms(1000), one).await.expect("in time").expect("no panic");
    }
    let order = order.lock().expect("order");
    let pairs: Vec<BTreeSet<i32>> = order
        .chunks(2)
        .map(|pair| pair.iter().copied().collect())
        .collect();
    assert_eq!(pairs, [[0, 1].into(), [2, 3].into(), [4, 5].into()], "{order:?}");
}

/// Starts a waiter, which keeps its permit for the time `hold`, and tells when it was let in.
async fn wait_for(cluster: &Cluster, permits: u32, hold: Duration) -> JoinHandle<Instant> {
    let masters = connect_as(cluster, &Client::new().distances(&[FAR; 3])).await;
    let waiting = tokio::spawn(async move {
        let permit = gpu(&masters, permits).lock().await.expect("a seat");
        let came = Instant::now();
        sleep(hold).await;
        permit.unlock().await.expect("released");
        came
    });
    sleep(ms(200)).await;
    waiting
}

/// Two seats that are given up at once go to two waiters: the second release calls the second one, as the first one has not
/// asked yet.
#[tokio::test(start_paused = true)]
async fn two_releases_call_two_waiters() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let held = all(&holder, 2).await;
    let (first, second) = (
        wait_for(&cluster, 2, ms(800)).await,
        wait_for(&cluster, 2, ms(800)).await,
    );
    let released = Instant::now();
    drop(held);
    for waiting in [first, second] {
        let came = waiting.await.expect("no panic");
        assert!(came - released < FAR * 2, "{:?}", came - released);
    }
}

/// One master answers late, so a waiter that is let in by the others asks it for a seat that it still has. Each of those
/// that are let in calls others for the seats that stay free.
#[tokio::test(start_paused = true)]
async fn as_many_are_called_as_seats_are_free() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    all(&holder, 4).await.into_iter().for_each(MultiLockGuard::leak);
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(wait_for(&cluster, 4, ms(5000)).await);
    }
    // Three seats end without a call.
    let forcing = connect(&cluster).await;
    for master in cluster.iter() {
        let seats = ["DEL", "gpu:seat:1", "gpu:seat:2", "gpu:seat:3"];
        master.command(&seats).expect("deleted");
    }
    let begun = Instant::now();
    gpu(&forcing, 4).force_release().await.expect("forced");
    for one in waiting {
        let came = one.await.expect("no panic");
        assert!(came - begun < FAR * 2, "{:?}", came - begun);
    }
}

/// A newcomer does not take the seat for which another one was called.
#[tokio::test(start_paused = true)]
async fn who_comes_later_waits_behind_those_who_were_called() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let mut held = all(&holder, 2).await;
    let network = Network::new(3);
    (0..3).for_each(|node| network.set_distance(node, ms(20)));
    let far = connect_as(&cluster, &Client::new().network(&network)).await;
    let waiting = tokio::spawn(async move { gpu(&far, 2).lock().await.map(|permit| permit.seat()) });
    sleep(ms(200)).await;
    let freed = held.remove(0);
    let seat = freed.seat();
    freed.unlock().await.expect("released");
    let late = gpu(&holder, 2).try_lock().await;
    assert!(matches!(late, Err(LockError::Contended { .. })), "{late:?}");
    assert_eq!(waiting.await.expect("no panic"), Ok(seat));
}

/// A waiter that was called and does not come lets the next one in once its time is over.
#[tokio::test(start_paused = true)]
async fn a_called_waiter_that_does_not_come_is_passed() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let held = all(&holder, 1).await.remove(0);
    let network = Network::new(3);
    let absent = connect_as(&cluster, &Client::new().network(&network)).await;
    let first = tokio::spawn(async move { gpu(&absent, 1).lock().await.map(MultiLockGuard::leak) });
    sleep(ms(20)).await;
    let masters = connect(&cluster).await;
    let next = tokio::spawn(async move { gpu(&masters, 1).lock().await.map(|permit| permit.seat()) });
    sleep(ms(20)).await;
    (0..3).for_each(|node| network.cut(node, Direction::ToMaster));
    held.unlock().await.expect("released");
    // It asks by itself after 5 s.
    let came = timeout(ms(5100), next).await.expect("in time").expect("no panic");
    assert_eq!(came, Ok(1));
    first.abort();
}

/// Id of the only client.
fn client_id(cluster: &Cluster) -> String {
    let keys = cluster.master(0).command(&["KEYS", "*"]).expect("keys");
    let mut ids = keys
        .iter()
        .filter_map(|key| key.strip_prefix("multilock_client:"));
    let id = ids.next().expect("a label");
    assert_eq!(ids.next(), None, "it is the only client by now");
    id.to_owned()
}

/// Puts waiters of a client into the queue, before all others.
fn queue(cluster: &Cluster, client: &str, waiters: u64) {
    queue_at(cluster, [QUEUE, DEADLINES], client, waiters);
}

/// The same in the queue under these keys.
fn queue_at(cluster: &Cluster, [queue, deadlines]: [&str; 2], client: &str, waiters: u64) {
    for master in cluster.iter() {
        let seconds = master.command(&["TIME"]).expect("a clock").remove(0);
        let now = seconds.parse::<u64>().expect("a number") * 1000;
        for number in 1..=waiters {
            let waiter = format!("{client}:{number}k:1000");
            for (key, score) in [(queue, number), (deadlines, now + 15_000)] {
                master
                    .command(&["ZADD", key, &score.to_string(), &waiter])
                    .expect("added");
            }
        }
    }
}

/// Time until a waiter is let in behind 40 of a process that stands still. `end` ends the holds of the two seats of a name,
/// whose queue has these keys.
async fn passed_after(name: &str, keys: [&str; 2], end: impl Fn(MultiLockGuard<Permit>)) -> Duration {
    let cluster = Cluster::new(3);
    let network = Network::new(3);
    let _absent = connect_as(&cluster, &Client::new().network(&network)).await;
    // The label is stored once the client is connected.
    sleep(ms(20)).await;
    let absent = client_id(&cluster);
    (0..3).for_each(|node| network.cut(node, Direction::ToClient));
    let masters = connect(&cluster).await;
    let seat = || masters.permits(name, 2);
    let held = [seat().lock().await, seat().lock().await].map(|seat| seat.expect("free"));
    queue_at(&cluster, keys, &absent, 40);
    let begun = Instant::now();
    let next = seat();
    let next = tokio::spawn(async move { next.lock().await.map(drop) });
    sleep(ms(20)).await;
    held.into_iter().for_each(end);
    assert_eq!(next.await.expect("no panic"), Ok(()));
    begun.elapsed()
}

/// So are the other waiters of its client: a process that stands still has one for each of its tasks.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_a_process_that_stands_still_are_passed_together() {
    // The releases call two of them. The others are called after 5 s, when the next waiter asks by itself.
    let of_a_tag = ["multilock_queue::{a}gpu:seat", "multilock_deadlines::{a}gpu:seat"];
    for (name, keys) in [("gpu", [QUEUE, DEADLINES]), ("{a}gpu", of_a_tag)] {
        let passed = passed_after(name, keys, drop).await;
        assert!(passed < ms(6500), "{name}: {passed:?}");
    }
}

/// The same where no release calls them.
#[tokio::test(start_paused = true)]
async fn the_waiters_of_a_process_that_stands_still_are_called_once_leases_have_ended() {
    let passed = passed_after("gpu", [QUEUE, DEADLINES], MultiLockGuard::leak).await;
    assert!(passed < ms(7500), "{passed:?}");
}

/// A waiter of a living process that is called to show that it lives keeps its place.
#[tokio::test(start_paused = true)]
async fn waiters_beside_one_that_does_not_come_keep_their_places() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let held = all(&holder, 1).await;
    let (early, late) = (connect(&cluster).await, connect(&cluster).await);
    let (order, mut waiting) = (Arc::<Mutex<Vec<usize>>>::default(), JoinSet::new());
    for (place, masters) in [&early, &early, &early, &late].into_iter().enumerate() {
        let (order, lock) = (Arc::clone(&order), gpu(masters, 1));
        waiting.spawn(async move {
            let permit = lock.lock().await.expect("a seat");
            order.lock().expect("not poisoned").push(place);
            permit.unlock().await.expect("released");
        });
        sleep(ms(20)).await;
    }
    // A waiter of the first client that was called and has not come.
    for master in cluster.iter() {
        let first = master
            .command(&["ZRANGE", QUEUE, "0", "0"])
            .expect("a queue")
            .remove(0);
        let client = first.split_once(':').expect("a waiter").0;
        let lost = format!("{client}:99k:1000");
        for (key, score) in [(QUEUE, "1"), (DEADLINES, "1.5")] {
            master.command(&["ZADD", key, score, &lost]).expect("added");
        }
    }
    drop(held);
    let all_in = async { while waiting.join_next().await.transpose().expect("no panic").is_some() {} };
    timeout(ms(6500), all_in).await.expect("in time");
    assert_eq!(*order.lock().expect("not poisoned"), [0, 1, 2, 3]);
}

/// Id of a client that does not exist.
const ABSENT: &str = "00000000-0000-8000-8000-000000000000";

/// Waiters are called beside one that does not come only if it was called, and belongs to their client. Each asks once here.
#[tokio::test(start_paused = true)]
async fn waiters_are_not_called_for_one_of_another_client_or_one_that_was_never_called() {
    for (is_theirs, deadline) in [(true, "1"), (false, "1.5")] {
        let cluster = Cluster::new(3);
        let (holder, early) = (connect(&cluster).await, connect(&cluster).await);
        let held = all(&holder, 1).await;
        let mut waiting = JoinSet::new();
        for _ in 0..4 {
            let lock = gpu(&early, 1);
            waiting.spawn(async move { lock.lock().await.map(drop) });
            sleep(ms(20)).await;
        }
        for master in cluster.iter() {
            let first = master.command(&["ZRANGE", QUEUE, "0", "0"]).expect("a queue");
            let client = first[0].split_once(':').expect("a waiter").0;
            let waiter = format!("{}:99k:1000", if is_theirs { client } else { ABSENT });
            for (key, score) in [(QUEUE, "1"), (DEADLINES, deadline)] {
                master.command(&["ZADD", key, score, &waiter]).expect("added");
            }
        }
        let before = asked(cluster.master(0));
        drop(held);
        let all_in = async { while waiting.join_next().await.transpose().expect("no panic").is_some() {} };
        timeout(ms(200), all_in).await.expect("in time");
        assert_eq!(asked(cluster.master(0)) - before, 4, "each asks once");
    }
}

/// A waiter of a client that has hung up is in nobody's way: not in that of a try, nor in that of a waiter that a release calls.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_hung_up_costs_nothing() {
    let cluster = Cluster::new(3);
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = all(&holder, 1).await;
    queue(&cluster, ABSENT, 1);
    let waiting = wait_for(&cluster, 1, ms(10)).await;
    queue(&cluster, ABSENT, 3);
    let released = Instant::now();
    drop(held);
    let came = waiting.await.expect("no panic");
    assert!(came - released < FAR * 3, "{:?}", came - released);
    sleep(ms(100)).await;
    queue(&cluster, ABSENT, 3);
    let tried = gpu(&other, 1).try_lock().await.expect("nobody waits");
    tried.unlock().await.expect("released");
}

/// Behind a holder that is gone, only as many waiters ask at the end of its lease as it had seats.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_wakes_as_many_as_it_lets_in() {
    let cluster = Cluster::new(3);
    let crashed = connect(&cluster).await;
    all(&crashed, 1).await.remove(0).leak();
    let begun = Instant::now();
    let mut waiting = JoinSet::new();
    for _ in 0..10 {
        let lock = gpu(&connect(&cluster).await, 1);
        waiting.spawn(async move { lock.lock().await.map(MultiLockGuard::leak) });
        sleep(ms(5)).await;
    }
    sleep(ms(100)).await;
    let before = asked(cluster.master(0));
    sleep_until(begun + LEASE + ms(100)).await;
    assert_eq!(asked(cluster.master(0)) - before, 1, "one is let in");
}

/// The lease of a holder that is gone ends, and a waiter is let in, without a message from anybody.
#[tokio::test(start_paused = true)]
async fn a_seat_is_free_once_its_lease_has_ended() {
    let cluster = Cluster::new(3);
    let crashed = connect(&cluster).await;
    all(&crashed, 2).await.into_iter().for_each(MultiLockGuard::leak);
    let begun = Instant::now();
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let (one, other) = (gpu(&one, 2), gpu(&other, 2));
    let both = timeout(LEASE * 2, futures::future::join(one.lock(), other.lock())).await;
    let (one, other) = both.expect("in time");
    assert_ne!(one.expect("a seat").seat(), other.expect("a seat").seat());
    assert!(begun.elapsed() <= LEASE + ms(200), "{:?}", begun.elapsed());
}

/// Two holders are gone, with leases of different lengths. A waiter comes in as the shorter one ends, whichever seat has it.
#[tokio::test(start_paused = true)]
async fn the_lease_that_ends_first_lets_a_waiter_in() {
    for leases in [[LEASE, ms(1000)], [ms(1000), LEASE]] {
        let cluster = Cluster::new(3);
        let crashed = connect(&cluster).await;
        let begun = Instant::now();
        for lease in leases {
            let permit = gpu(&crashed, 2).lease(lease).lock().await;
            permit.expect("a free seat").leak();
        }
        let waiting = wait_for(&cluster, 2, ms(10)).await;
        let came = waiting.await.expect("no panic");
        assert!(came - begun < ms(1100), "{leases:?}: {:?}", came - begun);
    }
}

/// A waiter does not know the lease of the client that is let in before it. If that lease is short, the waiter is told
/// its end, because its holder may be gone.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_short_lease_is_told() {
    let cluster = Cluster::new(3);
    let (holder, passing) = (connect(&cluster).await, connect(&cluster).await);
    let held = all(&holder, 1).await.remove(0);
    let short = gpu(&passing, 1).lease(ms(1000));
    let first = tokio::spawn(async move { short.lock().await.map(MultiLockGuard::leak) });
    sleep(ms(20)).await;
    let second = wait_for(&cluster, 1, ms(10)).await;
    let released = Instant::now();
    held.unlock().await.expect("released");
    assert_eq!(first.await.expect("no panic"), Ok(()));
    let came = second.await.expect("no panic");
    assert!(came - released < ms(1100), "{:?}", came - released);
}

/// So is whoever is the next one because the waiter ahead gives up, or gets another seat.
#[tokio::test(start_paused = true)]
async fn whoever_moves_up_is_told_the_end_of_a_short_lease() {
    for gives_up in [true, false] {
        let permits = if gives_up { 1 } else { 2 };
        let cluster = Cluster::new(3);
        let (crashed, well) = (connect(&cluster).await, connect(&cluster).await);
        let begun = Instant::now();
        let short = gpu(&crashed, permits).lease(ms(2500));
        short.lock().await.expect("free").leak();
        let held = gpu(&well, permits).try_lock().await.ok();
        assert_eq!(held.is_none(), gives_up);
        let first = gpu(&well, permits).wait(ms(1000));
        let first = tokio::spawn(async move { first.lock().await });
        sleep(ms(20)).await;
        let second = wait_for(&cluster, permits, ms(10)).await;
        sleep(ms(500)).await;
        drop(held);
        let first = first.await.expect("no panic");
        assert_eq!(first.is_err(), gives_up);
        let came = second.await.expect("no panic");
        assert!(came - begun < ms(2600), "{:?}", came - begun);
        drop(first);
    }
}

/// An ordinary lock on a seat does not stand in the queue for permits. A waiter that meets it asks again when its lease ends.
#[tokio::test(start_paused = true)]
async fn a_lock_on_a_seat_is_waited_for() {
    let cluster = Cluster::new(3);
    let (holder, passing) = (connect(&cluster).await, connect(&cluster).await);
    let mut held = all(&holder, 2).await;
    let waiting = wait_for(&cluster, 2, ms(10)).await;
    let seat = held.pop().expect("one");
    let plain = passing
        .red_lock(format!("gpu:seat:{}", seat.seat()))
        .lease(ms(1000));
    let released = Instant::now();
    let (unlocked, _) = tokio::join!(seat.unlock(), plain.lock());
    unlocked.expect("released");
    let came = waiting.await.expect("no panic");
    assert!(came - released < ms(1500), "{:?}", came - released);
}

/// An operator names a seat as any other lock, and the first waiter gets it at once.
#[tokio::test(start_paused = true)]
async fn a_seat_that_is_taken_away_by_its_name_goes_to_the_first_waiter() {
    let cluster = Cluster::new(3);
    let (holder, operator) = (connect(&cluster).await, connect(&cluster).await);
    let held = all(&holder, 2).await;
    let waiting = wait_for(&cluster, 2, ms(10)).await;
    let forced = Instant::now();
    let seat = operator.red_lock(format!("gpu:seat:{}", held[0].seat()));
    assert_eq!(seat.force_release().await.expect("forced").former.len(), 1);
    let came = waiting.await.expect("no panic");
    assert!(came - forced < FAR * 3, "{:?}", came - forced);
}

/// A lock of the same name has nothing to do with the permits: its waiters have a queue of their own. In one queue the
/// first waiter of either kind would keep the waiters of the other kind out, and would take their calls.
#[tokio::test(start_paused = true)]
async fn a_lock_of_the_name_has_a_queue_of_its_own() {
    let cluster = Cluster::new(3);
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    let mut held = all(&holder, 2).await;
    let waiting = wait_for(&cluster, 2, ms(10)).await;
    let plain = other
        .red_lock("gpu")
        .try_lock()
        .await
        .expect("nobody has the lock");
    let next = holder.red_lock("gpu");
    let next = tokio::spawn(async move { next.lock().await.map(drop).map(|()| Instant::now()) });
    sleep(ms(50)).await;
    let released = Instant::now();
    held.pop().expect("one").unlock().await.expect("released");
    let came = waiting.await.expect("no panic");
    assert!(came - released < ms(100), "a permit after {:?}", came - released);
    let released = Instant::now();
    plain.unlock().await.expect("released");
    let came = next.await.expect("no panic").expect("the lock");
    assert!(came - released < ms(100), "the lock after {:?}", came - released);
}

/// Another number is an error that says both, for as long as somebody holds a permit or waits.
#[tokio::test(start_paused = true)]
async fn another_number_is_refused_while_the_first_is_in_use() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = gpu(&one, 4).lock().await.expect("a seat");
    // It is renewed for longer than any lease.
    sleep(LEASE * 10).await;
    let refused = gpu(&other, 5).lock().await.expect_err("another number");
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
    let words = refused.to_string();
    assert!(
        words.contains("gpu has 4 permits") && words.contains("wants 5"),
        "{words}"
    );
    held.unlock().await.expect("released");
    let taken = gpu(&other, 5)
        .try_lock()
        .await
        .expect("nobody has the other number any more");
    taken.unlock().await.expect("released");
    sleep(ms(15_100)).await;
    assert_eq!(keys(&cluster, "multilock_permits"), 0, "nothing stays");
}

/// A waiter has a shorter lease than the holder that is gone, and cannot ask any more. Its number stands for as long as its
/// ticket counts.
#[tokio::test(start_paused = true)]
async fn another_number_is_refused_while_somebody_only_waits() {
    let cluster = Cluster::new(3);
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    let network = Network::new(3);
    let waits = connect_as(&cluster, &Client::new().network(&network)).await;
    let gone = gpu(&holder, 1).lease(ms(16_000)).lock().await;
    gone.expect("a seat").leak();
    sleep(ms(10_000)).await;
    let waiting = tokio::spawn(async move { gpu(&waits, 1).lock().await.map(drop) });
    sleep(ms(100)).await;
    (0..3).for_each(|node| network.cut(node, Direction::Both));
    sleep(ms(8000)).await;
    assert!(
        cluster
            .iter()
            .all(|master| master.fields("gpu:seat:1").is_empty())
    );
    let refused = gpu(&other, 2).try_lock().await.expect_err("another number");
    assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
    sleep(ms(8000)).await;
    let taken = gpu(&other, 2).try_lock().await.expect("nobody waits any more");
    taken.unlock().await.expect("released");
    waiting.abort();
}

/// A client with another number by mistake asks while one master has the seat from a renewal, or from the widening of a
/// grant. The master has the number with the seat, and goes on serving the other clients.
#[tokio::test(start_paused = true)]
async fn the_number_comes_with_the_seat() {
    for rounds in [Rounds::All, Rounds::Thrifty] {
        let cluster = Cluster::new(3);
        let (right, wrong) = (connect(&cluster).await, connect(&cluster).await);
        let builder = Masters::builder()
            .quarantine(Quarantine::Off)
            .lease(LEASE)
            .rounds(rounds);
        let near = Client::new().distances(&[ms(3), ms(1), ms(1)]);
        let holder = cluster.connect_as(&near, builder).await.expect("connects");
        let held = gpu(&holder, 2).lock().await.expect("a seat");
        if rounds == Rounds::All {
            cluster.master(0).restart(Keep::Nothing);
            sleep(LEASE / 2).await;
        } else {
            sleep(ms(50)).await;
        }
        let seat = format!("gpu:seat:{}", held.seat());
        let keys = cluster.master(0).keys();
        assert!(
            keys.contains(&seat),
            "{rounds:?}: the seat is taken there: {keys:?}"
        );
        let refused = gpu(&wrong, 3).try_lock().await.expect_err("another number");
        assert!(matches!(refused, LockError::Misconfigured { .. }), "{refused:?}");
        let other = gpu(&right, 2).policy(Policy::MultiLock).try_lock().await;
        let other = other.unwrap_or_else(|error| panic!("{rounds:?}: {error}"));
        other.unlock().await.expect("released");
        held.unlock().await.expect("released");
    }
}

/// A master far away is asked for the seat twice, at about the same time: the grant is widened, and a renewal finds the seat
/// missing there.
#[tokio::test(start_paused = true)]
async fn a_seat_that_its_owner_has_is_not_refused_to_it() {
    for after in 0..40 {
        let cluster = Cluster::new(3);
        let builder = Masters::builder().quarantine(Quarantine::Off).lease(LEASE);
        let near = Client::new().distances(&[ms(20), ms(1), ms(1)]);
        let holder = cluster.connect_as(&near, builder.rounds(Rounds::Thrifty)).await;
        let holder = holder.expect("connects");
        let held = gpu(&holder, 1).lock().await.expect("a seat");
        sleep(ms(after)).await;
        held.extend(LEASE).await.expect("a quorum");
        sleep(ms(100)).await;
        assert_eq!(held.votes().granted(), 3, "after {after} ms: {}", held.votes());
    }
}

/// A master that is behind names seats that are taken elsewhere. The caller goes by the most.
#[tokio::test(start_paused = true)]
async fn a_master_that_forgot_does_not_decide() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let mut held = all(&one, 4).await;
    let free = held[2].seat();
    cluster.master(0).restart(Keep::Nothing);
    sleep(ms(50)).await;
    drop(held.remove(2));
    sleep(ms(50)).await;
    let taken = timeout(ms(1000), gpu(&other, 4).lock())
        .await
        .expect("in time")
        .expect("a seat");
    assert_eq!(taken.seat(), free);
}

/// An operator looks at all seats, and takes them away.
#[tokio::test(start_paused = true)]
async fn seats_are_shown_and_taken_away() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = all(&one, 2).await;
    let waiter = connect(&cluster).await;
    let waiting = tokio::spawn(async move { gpu(&waiter, 2).lock().await.map(|permit| permit.seat()) });
    sleep(ms(20)).await;
    let shown = gpu(&other, 2).inspect().await.expect("a look");
    let names: Vec<&str> = shown.iter().map(|shown| shown.name.as_str()).collect();
    assert_eq!(names, ["gpu:seat:1", "gpu:seat:2"]);
    for seat in &shown {
        assert_eq!(seat.waiting, 1);
        let held = |(_, state): &(Arc<str>, NodeState)| matches!(state, NodeState::Held { .. });
        assert!(seat.nodes.iter().all(held), "{seat:?}");
    }
    let forced = gpu(&other, 2).force_release().await.expect("forced");
    assert_eq!(forced.former.len(), 2);
    let came = timeout(ms(200), waiting)
        .await
        .expect("it is called")
        .expect("no panic");
    assert!(came.is_ok());
    drop(held);
}

/// A waiter that gives up leaves no queue behind, and passes its call on.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_passes_its_call_on() {
    let cluster = Cluster::new(3);
    let holder = connect(&cluster).await;
    let held = all(&holder, 1).await.remove(0);
    let far = Client::new().distances(&[FAR; 3]);
    let (one, other) = (connect_as(&cluster, &far).await, connect(&cluster).await);
    let impatient = tokio::spawn(async move { gpu(&one, 1).wait(ms(500)).lock().await });
    sleep(ms(90)).await;
    let next = tokio::spawn(async move { gpu(&other, 1).lock().await.map(|permit| permit.seat()) });
    // Its call is under way when it gives up.
    sleep(ms(403)).await;
    held.unlock().await.expect("released");
    assert!(matches!(
        impatient.await.expect("no panic"),
        Err(LockError::TimedOut { .. })
    ));
    assert_eq!(
        timeout(ms(100), next).await.expect("in time").expect("no panic"),
        Ok(1)
    );
    sleep(ms(100)).await;
    assert_eq!(
        keys(&cluster, "multilock_queue") + keys(&cluster, "multilock_deadlines"),
        0
    );
    assert_eq!(keys(&cluster, "gpu"), 0);
}

/// Closing gives permits up.
#[tokio::test(start_paused = true)]
async fn a_closed_client_gives_its_permits_up() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = all(&one, 3).await;
    one.close(Closing::Release).await;
    all(&other, 3).await;
    drop(held);
}

/// Each of two holders cannot reach a master, so that on every master another seat is free, or none. A waiter does not ask
/// again and again.
#[tokio::test(start_paused = true)]
async fn a_waiter_rests_while_no_seat_is_free_on_a_quorum() {
    rests_while_no_seat_is_free(None).await;
}

/// The same while the master without a free seat is down.
#[tokio::test(start_paused = true)]
async fn a_waiter_rests_while_no_seat_is_free_on_the_masters_that_answer() {
    rests_while_no_seat_is_free(Some(2)).await;
}

async fn rests_while_no_seat_is_free(down: Option<usize>) {
    let cluster = Cluster::new(3);
    let mut holders = Vec::new();
    for missing in [1, 0] {
        let network = Network::new(3);
        let masters = connect_as(&cluster, &Client::new().network(&network)).await;
        network.cut(missing, Direction::Both);
        let permit = gpu(&masters, 2).lease(ms(20_000)).lock().await.expect("a seat");
        holders.push((masters, network, permit));
    }
    let waits = connect_as(&cluster, &Client::new().distances(&[ms(2); 3])).await;
    if let Some(down) = down {
        cluster.master(down).crash();
    }
    let before = asked(cluster.master(1));
    let waiter = tokio::spawn(async move { gpu(&waits, 2).lock().await });
    sleep(ms(1000)).await;
    assert!(!waiter.is_finished());
    let questions = asked(cluster.master(1)) - before;
    assert!(questions <= 80, "{questions} questions in a second");
    let (_masters, _network, permit) = holders.pop().expect("two");
    let released = permit.unlock().await;
    assert_eq!(
        released.is_ok(),
        down.is_none(),
        "one master confirms: {released:?}"
    );
    let granted = timeout(ms(200), waiter).await.expect("it asks now and then");
    drop(granted.expect("no panic").expect("a seat"));
}

/// A client without tokens is refused for good where others have tokens. The waiter behind it is called all the same.
#[tokio::test(start_paused = true)]
async fn who_is_refused_for_good_uses_up_no_call() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let held = gpu(&masters, 1).lease(ms(20_000)).lock().await.expect("free");
    let unfenced = tokio::spawn(async move { gpu(&one, 1).fenced(false).lock().await });
    sleep(ms(100)).await;
    let waiter = tokio::spawn(async move { gpu(&other, 1).lock().await });
    sleep(ms(100)).await;
    held.unlock().await.expect("held");
    let refused = timeout(ms(100), unfenced)
        .await
        .expect("called")
        .expect("no panic");
    assert!(
        matches!(refused, Err(LockError::Misconfigured { .. })),
        "{refused:?}"
    );
    let granted = timeout(ms(200), waiter).await.expect("called");
    drop(granted.expect("no panic").expect("a free seat"));
}

/// A permit may stand in a set, which gives it back if another lock is refused.
#[tokio::test(start_paused = true)]
async fn a_permit_in_a_set() {
    let cluster = Cluster::new(3);
    let (one, other) = (connect(&cluster).await, connect(&cluster).await);
    let model = other.red_lock("model").lock().await.expect("free");
    let set = gpu(&one, 1).and(one.red_lock("model"));
    assert!(set.try_lock().await.is_err());
    sleep(ms(100)).await;
    assert_eq!(keys(&cluster, "gpu"), 0, "it was given back");
    let both = tokio::spawn(async move { set.lock().await.map(|set| set.into_guards().len()) });
    sleep(ms(100)).await;
    model.unlock().await.expect("released");
    assert_eq!(
        timeout(ms(500), both).await.expect("in time").expect("no panic"),
        Ok(2)
    );
}
