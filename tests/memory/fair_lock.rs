//! Behaviours from Redisson's suite of its fair lock, for this crate's locks with `.fair()`. Each test has the name
//! of a test of `RedissonFairLockTest`, without `test`. Other tests of that suite have equivalents in
//! `contention.rs`. There a dead waiter costs milliseconds and a frozen one seconds, while Redisson's tests allow
//! five minutes for each. The tests of any lock have equivalents in the other files here and in
//! `tests/simulation/directed`.
//!
//! | there | here |
//! | --- | --- |
//! | `testAcquireFailedNotCalledOnRedisTimeout` | in `tests/real/waiting.rs`: servers pause their writes |
//! | `testNameMapper` | nothing: names are not mapped |
//! | `…_Descrete` | `…_discrete` |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Apart, connect, get_ahead, ms, queues, settle, slow_down};
use futures::future::join_all;
use multilock::sim::Cluster;
use multilock::{LockError, Masters, MultiLock, MultiLockGuard, NodeState, Owner, UnlockError, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;
/// Time in ms for which a ticket counts after its waiter has asked.
const TICKET_MS: f64 = 15_000.0;
const TICKET: Duration = Duration::from_secs(15);
/// A release, a call, an acquire and its answer on their way, each for 1 ms; and the rounding of leases.
const HAND_OFF: Duration = Duration::from_millis(6);

fn fair(masters: &Masters) -> MultiLock {
    masters.red_lock("a").fair()
}

type Waiter = JoinHandle<Result<MultiLockGuard, LockError>>;

/// A waiter that has its place.
async fn waiter(lock: MultiLock) -> Waiter {
    let waiter = tokio::spawn(async move { lock.lock().await });
    sleep(ms(10)).await;
    assert!(!waiter.is_finished(), "somebody holds");
    waiter
}

async fn within(bound: Duration, waiter: Waiter) -> MultiLockGuard {
    let got = timeout(bound, waiter).await;
    got.unwrap_or_else(|_| panic!("no turn within {bound:?}"))
        .expect("no panic")
        .expect("granted")
}

async fn anybody_holds(masters: &Masters) -> bool {
    let inspections = fair(masters).inspect().await.expect("looks");
    let nodes = inspections.iter().flat_map(|inspection| &inspection.nodes);
    let mut states = nodes.map(|(_, state)| state);
    states.any(|state| *state != NodeState::Free)
}

/// No ticket counts for longer than the ticket of a waiter that has just asked, and no part of a queue is kept for
/// longer.
#[track_caller]
fn assert_no_drift(cluster: &Cluster) {
    for master in cluster.iter() {
        let time = master.command(&["TIME"]).expect("told");
        let part = |at: usize| time[at].parse::<f64>().expect("a number");
        let now = part(0) * 1000.0 + part(1) / 1000.0;
        let deadlines = master
            .command(&["ZRANGE", "multilock_deadlines:{a}", "0", "-1", "WITHSCORES"])
            .expect("a sorted set, or nothing");
        for deadline in deadlines.chunks(2) {
            let until: f64 = deadline[1].parse().expect("a score");
            // The half is the mark of a waiter that has been called.
            assert!(
                until <= now + TICKET_MS + 0.5,
                "{} ms too late",
                until - now - TICKET_MS
            );
        }
        for key in ["multilock_queue:{a}", "multilock_deadlines:{a}"] {
            let left = master.time_left(key);
            let is_kept = master.keys().iter().any(|other| other == key);
            assert!(
                !is_kept || left.is_some_and(|left| left <= TICKET),
                "{key}: {left:?}"
            );
        }
    }
}

/// Nobody waits, and nobody holds.
async fn assert_over(cluster: &Cluster) {
    sleep(ms(100)).await;
    let locks: Vec<_> = cluster.iter().flat_map(multilock::sim::Master::locks).collect();
    assert_eq!((locks, queues(cluster)), (vec![], 0));
}

/// Eight come after each other, each holds until its lease ends, and they are served in order; when each got in.
async fn lease_timeout_of(processes: usize) -> Vec<Duration> {
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..processes {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let (begun, entered) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let lock = fair(&clients[number % processes]).lease(ms(1000));
        let entered = Arc::clone(&entered);
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.expect("its turn comes");
            entered
                .lock()
                .expect("not poisoned")
                .push((number, begun.elapsed()));
            guard.leak();
        }));
        sleep(ms(100)).await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let entered = std::mem::take(&mut *entered.lock().expect("not poisoned"));
    println!("{processes} processes: {entered:?}");
    let (order, at): (Vec<_>, Vec<_>) = entered.into_iter().unzip();
    assert_eq!(order, (0..8).collect::<Vec<_>>(), "{processes} processes");
    at
}

#[tokio::test(start_paused = true)]
async fn lease_timeout() {
    // The next in line asks as soon as it is, and knows when the lease ends.
    let at = lease_timeout_of(1).await;
    let due = |at: &[Duration]| at[0] + ms(1000) + HAND_OFF;
    assert!(at.windows(2).all(|at| at[1] <= due(at)), "{at:?}");
    // The next process is no later: the first waiter is awake when a lease ends.
    let at = lease_timeout_of(8).await;
    assert!(at.windows(2).all(|at| at[1] <= due(at)), "{at:?}");
}

/// Five hundred tasks of one process.
#[tokio::test(start_paused = true)]
async fn multiple_locks() {
    const TASKS: u32 = 500;
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    slow_down(&cluster, 1);
    let begun = Instant::now();
    let tasks = (0..TASKS).map(|_| {
        let lock = fair(&masters).lease(ms(5000));
        tokio::spawn(async move {
            let guard = lock.lock().await.expect("its turn comes");
            sleep(ms(200)).await;
            guard.unlock().await.expect("held")
        })
    });
    for done in join_all(tasks).await {
        let left = done.expect("no panic");
        assert!(
            matches!(left, Unlocked::HandedOn | Unlocked::Released),
            "{left:?}"
        );
    }
    let elapsed = begun.elapsed();
    let turns = ms(200) * TASKS..=(ms(200) + HAND_OFF) * TASKS;
    assert!(turns.contains(&elapsed), "{elapsed:?}");
    assert_over(&cluster).await;
}

/// Each task of each process takes the name `iterations` times without a break, for `held` each time.
async fn concurrency(processes: u64, tasks: u64, iterations: u64, held: Duration) {
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..processes {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let (inside, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, mut working) = (Instant::now(), Vec::new());
    for masters in &clients {
        for _ in 0..tasks {
            let lock = fair(masters);
            let (inside, granted) = (Arc::clone(&inside), Arc::clone(&granted));
            working.push(tokio::spawn(async move {
                for _ in 0..iterations {
                    let guard = lock.lock().await.expect("its turn comes");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    sleep(held).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    granted.fetch_add(1, Ordering::SeqCst);
                    guard.unlock().await.expect("held");
                }
            }));
        }
    }
    for task in working {
        task.await.expect("no panic");
    }
    let elapsed = begun.elapsed();
    let wanted = processes * tasks * iterations;
    assert_eq!(granted.load(Ordering::SeqCst) as u64, wanted);
    let bound = (held + HAND_OFF) * u32::try_from(wanted).expect("small");
    assert!(elapsed <= bound, "{elapsed:?}, at most {bound:?}");
    assert_over(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_single_instance() {
    concurrency(1, 15, 1, Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_loop_multi_instance() {
    concurrency(16, 1, 40, ms(10)).await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance() {
    concurrency(100, 1, 1, Duration::ZERO).await;
}

/// The same three tasks ask again and again, with little patience and for long leases.
#[tokio::test(start_paused = true)]
async fn wait_timeout_drift() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let (mut tasks, others) = (Vec::new(), connect(&cluster).await);
    let granted = Arc::new(AtomicUsize::new(0));
    for task in 0..3 {
        let lock = fair(if task == 0 { &masters } else { &others });
        let lock = lock.wait(ms(500)).lease(ms(30_000));
        let granted = Arc::clone(&granted);
        tasks.push(tokio::spawn(async move {
            for _ in 0..17 {
                if let Ok(guard) = lock.lock().await {
                    granted.fetch_add(1, Ordering::SeqCst);
                    sleep(ms(10_000)).await;
                    guard.unlock().await.expect("held");
                }
            }
        }));
        sleep(ms(50)).await;
    }
    while tasks.iter().any(|task| !task.is_finished()) {
        assert_no_drift(&cluster);
        sleep(ms(100)).await;
    }
    assert!(
        granted.load(Ordering::SeqCst) > 1,
        "some got in, and others waited"
    );
    // One more, which dies before it can leave.
    let guard = fair(&masters).lock().await.expect("free");
    let last = Apart::waiting(&cluster, "a", 1);
    settle().await;
    last.kill();
    assert_no_drift(&cluster);
    fair(&others).force_release().await.expect("all answer");
    assert!(!anybody_holds(&others).await);
    guard.unlock().await.expect_err("taken away");
    let guard = fair(&others).wait(HAND_OFF).lock().await.expect("free");
    guard.unlock().await.expect("held");
    settle().await;
    assert_eq!(queues(&cluster), 0, "nobody waits");
}

/// A long lease ahead makes no place in the queue last longer, and a waiter that gets in moves no other back.
#[tokio::test(start_paused = true)]
async fn lock_acquired_timeout_drift_discrete() {
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let lock = |client: usize| fair(&clients[client]).lease(ms(30_000));
    let guard = lock(0).lock().await.expect("free");
    let first = waiter(lock(1)).await;
    let second = waiter(lock(2)).await;
    assert_no_drift(&cluster);
    let (_, first) = tokio::join!(guard.unlock(), within(HAND_OFF, first));
    let third = waiter(lock(3)).await;
    // They ask again meanwhile.
    for _ in 0..12 {
        sleep(ms(1000)).await;
        assert_no_drift(&cluster);
    }
    let (_, second) = tokio::join!(first.unlock(), within(HAND_OFF, second));
    let (_, third) = tokio::join!(second.unlock(), within(HAND_OFF, third));
    third.unlock().await.expect("held");
    assert_over(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn force_unlock() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let guard = fair(&masters).lock().await.expect("free");
    let waiting = waiter(fair(&other)).await;
    let forced = fair(&masters).force_release().await.expect("all answer");
    assert_eq!(forced.former, [guard.holder()]);
    // And the first waiter is called.
    within(HAND_OFF, waiting).await.unlock().await.expect("held");
    assert!(!anybody_holds(&masters).await && !anybody_holds(&other).await);
}

/// A hold that is not renewed ends with its lease, and the next one gets in then.
#[tokio::test(start_paused = true)]
async fn expire() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    for other in [masters.clone(), connect(&cluster).await] {
        let guard = fair(&masters).lease(ms(2000)).lock().await.expect("free");
        let begun = Instant::now();
        let next = fair(&other).lock().await.expect("its turn comes");
        let elapsed = begun.elapsed();
        assert!(elapsed <= ms(2000) + HAND_OFF, "{elapsed:?}");
        next.unlock().await.expect("held");
        let error = guard.unlock().await.expect_err("over");
        assert!(matches!(error, UnlockError::WasLost { .. }), "{error}");
    }
}

/// The holder enters again past the waiter behind it.
#[tokio::test(start_paused = true)]
async fn get_hold_count() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let mine = fair(&masters).owner(&Owner::new());
    let guard = mine.lock().await.expect("free");
    assert_eq!(guard.hold_count(), 1);
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let outer = mine.lock().await.expect("free");
    let waiting = waiter(fair(&other)).await;
    let inner = mine.lock().await.expect("enters");
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    assert_eq!(outer.hold_count(), 1);
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
    within(HAND_OFF, waiting).await.unlock().await.expect("held");
}
