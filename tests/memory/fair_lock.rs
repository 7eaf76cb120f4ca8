//! What Redisson's suite of its fair lock shows, as behaviours of this crate's locks with `.fair()`: each test has the
//! name of one of `RedissonFairLockTest`, without `test`. A waiter that is dead costs milliseconds here and one that
//! is frozen seconds, where the tests there allow five minutes for each.
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
use multilock::{
    LockError, LossCause, Masters, MultiLock, MultiLockGuard, NodeState, Owner, UnlockError, Unlocked,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;
/// For so many ms a ticket counts after its waiter has asked.
const TICKET_MS: f64 = 15_000.0;
/// A waiter that was called has so long to come, and everybody asks again after so long.
const CALLED: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_secs(5);
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

/// No ticket counts for longer than one whose waiter has just asked, and nothing of a queue is kept for longer.
#[track_caller]
fn assert_no_drift(cluster: &Cluster) {
    for master in cluster.iter() {
        let time = master.command(&["TIME"]).expect("told");
        let part = |at: usize| time[at].parse::<f64>().expect("a number");
        let now = part(0) * 1000.0 + part(1) / 1000.0;
        let beats = master
            .command(&["ZRANGE", "multilock_deadlines:{a}", "0", "-1", "WITHSCORES"])
            .expect("a sorted set, or nothing");
        for beat in beats.chunks(2) {
            let until: f64 = beat[1].parse().expect("a score");
            // The half is the mark of one that has been called.
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
    // Nor is the next process later: whoever stands first when a lease ends is awake then.
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

/// Gets in, notes its number, and stays for so long.
async fn serve(lock: MultiLock, number: usize, held: Duration, order: Arc<Mutex<Vec<usize>>>) {
    let guard = lock.lock().await.expect("its turn comes");
    order.lock().expect("not poisoned").push(number);
    sleep(held).await;
    guard.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance_ordering() {
    const PROCESSES: usize = 8;
    let cluster = Cluster::new(NODES);
    slow_down(&cluster, 1);
    let (mut tasks, order) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    let mut clients = Vec::new();
    for _ in 0..PROCESSES {
        clients.push(connect(&cluster).await);
    }
    let begun = Instant::now();
    for (number, masters) in clients.iter().enumerate() {
        tasks.push(tokio::spawn(serve(
            fair(masters),
            number,
            ms(1000),
            Arc::clone(&order),
        )));
        sleep(ms(10)).await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let (elapsed, bound) = (begun.elapsed(), (ms(1000) + HAND_OFF) * 8);
    assert!(elapsed <= bound, "{elapsed:?}");
    assert_eq!(
        *order.lock().expect("not poisoned"),
        (0..PROCESSES).collect::<Vec<_>>()
    );
}

/// So many tasks of each of so many processes take the name so often, each time for so long, without a break.
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
    concurrency(16, 1, 100, ms(10)).await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance() {
    concurrency(100, 1, 1, Duration::ZERO).await;
}

/// Who has given up is in nobody's way.
#[tokio::test(start_paused = true)]
async fn try_lock_non_delayed() {
    let cluster = Cluster::new(NODES);
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let guard = fair(&holder).wait(Duration::ZERO).lock().await.expect("free");
    sleep(ms(200)).await;
    let error = fair(&other).wait(ms(200)).lock().await.expect_err("held");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    sleep(ms(600)).await;
    guard.unlock().await.expect("held");
    let guard = fair(&holder).wait(Duration::ZERO).lock().await.expect("free");
    guard.unlock().await.expect("held");
    assert_over(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_wait() {
    let cluster = Cluster::new(NODES);
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    slow_down(&cluster, 1);
    let _guard = fair(&holder).lock().await.expect("free");
    let begun = Instant::now();
    let error = fair(&other).wait(ms(3000)).lock().await.expect_err("held");
    let elapsed = begun.elapsed();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    assert!(elapsed >= ms(3000) && elapsed <= ms(3002), "{elapsed:?}");
}

/// The first of those who wait dies, and with it one in the middle.
#[tokio::test(start_paused = true)]
async fn first_thread_death_timeout_drift() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let (holder, second, fourth) = (
        connect(&cluster).await,
        connect(&cluster).await,
        connect(&cluster).await,
    );
    let guard = fair(&holder).lock().await.expect("free");
    let first = Apart::waiting(&cluster, "a", 1);
    settle().await;
    let second = waiter(fair(&second)).await;
    let third = Apart::waiting(&cluster, "a", 1);
    settle().await;
    let fourth = waiter(fair(&fourth)).await;
    first.kill();
    third.kill();
    slow_down(&cluster, 1);
    assert_no_drift(&cluster);
    let (unlocked, second) = tokio::join!(guard.unlock(), within(HAND_OFF, second));
    unlocked.expect("held");
    assert_no_drift(&cluster);
    let (unlocked, fourth) = tokio::join!(second.unlock(), within(HAND_OFF, fourth));
    unlocked.expect("held");
    fourth.unlock().await.expect("held");
    assert_over(&cluster).await;
}

/// Two wait and never ask again, while their connections stand.
#[tokio::test(start_paused = true)]
async fn abandoned_timeout_drift_discrete() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let (holder, third) = (connect(&cluster).await, connect(&cluster).await);
    let guard = fair(&holder).lease(ms(500)).lock().await.expect("free");
    let mut abandoned = Vec::new();
    for _ in 0..2 {
        abandoned.push(Apart::waiting(&cluster, "a", 1));
        settle().await;
    }
    let third = waiter(fair(&third)).await;
    guard.leak();
    slow_down(&cluster, 1);
    assert_no_drift(&cluster);
    let begun = Instant::now();
    // The first is called by whoever asks when nobody holds any more, and dropped when somebody asks after that.
    let third = within((TICKET + BEAT).min(BEAT + (CALLED + BEAT) * 2), third).await;
    println!("two that never ask again cost {:?}", begun.elapsed());
    third.unlock().await.expect("held");
    for process in abandoned {
        process.kill();
    }
}

/// The same three tasks ask again and again, with little patience and for long leases.
#[tokio::test(start_paused = true)]
async fn wait_timeout_drift() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let (mut tasks, others) = (Vec::new(), connect(&cluster).await);
    for task in 0..3 {
        let lock = fair(if task == 0 { &masters } else { &others });
        let lock = lock.wait(ms(500)).lease(ms(30_000));
        tasks.push(tokio::spawn(async move {
            for _ in 0..17 {
                if let Ok(guard) = lock.lock().await {
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

/// Three tasks that have patience enough, one after the other, and one more that dies.
#[tokio::test(start_paused = true)]
async fn lock_acquired_timeout_drift() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..3 {
        let lock = fair(&connect(&cluster).await).wait(ms(3000)).lease(ms(30_000));
        tasks.push(tokio::spawn(serve(lock, number, ms(100), Arc::clone(&order))));
        sleep(ms(50)).await;
    }
    let last = Apart::waiting(&cluster, "a", 1);
    settle().await;
    while tasks.iter().any(|task| !task.is_finished()) {
        assert_no_drift(&cluster);
        sleep(ms(10)).await;
    }
    assert_eq!(*order.lock().expect("not poisoned"), [0, 1, 2]);
    last.kill();
    assert_no_drift(&cluster);
    let masters = connect(&cluster).await;
    let guard = fair(&masters).wait(HAND_OFF).lock().await.expect("free");
    guard.unlock().await.expect("held");
    assert_over(&cluster).await;
}

/// A long lease ahead makes nobody's place last longer, and who gets in moves nobody back.
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

/// The second of those who wait is gone when the lease of the first one ends.
#[tokio::test(start_paused = true)]
async fn lock_acquired_boolean_timeout_drift_discrete() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(&cluster).await);
    }
    let lock = |client: usize| fair(&clients[client]).lease(ms(500));
    let guard = lock(0).lock().await.expect("free");
    let first = waiter(lock(1)).await;
    let second = Apart::waiting(&cluster, "a", 1);
    settle().await;
    slow_down(&cluster, 1);
    let (_, first) = tokio::join!(guard.unlock(), within(HAND_OFF, first));
    first.leak();
    let third = waiter(lock(2)).await;
    second.kill();
    assert_no_drift(&cluster);
    // Nobody releases, and only the first in the queue wakes when a lease ends: this one asks again after a beat.
    let third = within(BEAT + HAND_OFF, third).await;
    third.unlock().await.expect("held");
    assert_over(&cluster).await;
}

/// One of four gives up: the others keep their places, and wait for no longer than before.
#[tokio::test(start_paused = true)]
async fn acquire_failed_timeout_drift_discrete() {
    let cluster = Cluster::new(NODES);
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(connect(&cluster).await);
    }
    slow_down(&cluster, 1);
    let guard = fair(&clients[0]).lease(ms(30_000)).lock().await.expect("free");
    let first = waiter(fair(&clients[1])).await;
    let second = waiter(fair(&clients[2]).wait(ms(5000))).await;
    let third = waiter(fair(&clients[3])).await;
    let fourth = waiter(fair(&clients[4])).await;
    let error = second.await.expect("no panic").expect_err("gives up");
    let LockError::TimedOut { last: Some(last), .. } = &error else {
        panic!("{error}");
    };
    let LockError::Contended { retry_after, .. } = **last else {
        panic!("{last}");
    };
    assert!(retry_after <= ms(30_000), "{retry_after:?}");
    settle().await;
    for master in cluster.iter() {
        assert_eq!(
            master.command(&["ZCARD", "multilock_queue:{a}"]),
            Ok(vec!["3".into()])
        );
    }
    assert_no_drift(&cluster);
    let (_, first) = tokio::join!(guard.unlock(), within(HAND_OFF, first));
    let (_, third) = tokio::join!(first.unlock(), within(HAND_OFF, third));
    assert_no_drift(&cluster);
    let (_, fourth) = tokio::join!(third.unlock(), within(HAND_OFF, fourth));
    fourth.unlock().await.expect("held");
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
    // And the first of those who wait is called.
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

/// A hold whose process dies ends with its lease.
#[tokio::test(start_paused = true)]
async fn auto_expire() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let dying = Apart::after(&cluster, |masters| async move {
        let guard = fair(&masters).lock().await.expect("free");
        tokio::spawn(async move { guard.lost().await });
    });
    settle().await;
    dying.kill();
    assert!(anybody_holds(&masters).await);
    let begun = Instant::now();
    let guard = fair(&masters).lock().await.expect("its turn comes");
    let elapsed = begun.elapsed();
    assert!(
        elapsed >= ms(29_000) && elapsed <= ms(30_000) + HAND_OFF,
        "{elapsed:?}"
    );
    guard.unlock().await.expect("held");
    assert!(!anybody_holds(&masters).await);
}

/// Nobody else's hold can be given up: who holds no more is told so, and the other one holds on.
#[tokio::test(start_paused = true)]
async fn unlock_fail() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let stale = fair(&masters).lock().await.expect("free");
    fair(&other).force_release().await.expect("all answer");
    let guard = fair(&other).lock().await.expect("free");
    let error = stale.unlock().await.expect_err("somebody else's");
    assert!(matches!(error, UnlockError::WasLost { .. }), "{error}");
    assert!(anybody_holds(&masters).await && guard.is_valid());
    guard.extend(ms(30_000)).await.expect("held");
    guard.unlock().await.expect("held");
}

#[tokio::test(start_paused = true)]
async fn lock_unlock() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    for _ in 0..2 {
        let guard = fair(&masters).lock().await.expect("free");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    }
    assert_over(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn reentrancy() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let (me, other) = (Owner::new(), Owner::new());
    let mine = fair(&masters).owner(&me);
    let outer = mine.try_lock().await.expect("free");
    let inner = mine.try_lock().await.expect("enters");
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    // Also after it has been renewed.
    sleep(Duration::from_secs(60)).await;
    let error = fair(&masters).owner(&other).try_lock().await.expect_err("held");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
}

/// The first one waits, and enters again past those who wait behind it.
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

/// Who holds, as everybody sees it.
async fn agreed(masters: &Masters) -> Option<multilock::Holder> {
    let inspections = fair(masters).inspect().await.expect("looks");
    inspections.into_iter().next().expect("one name").agreed
}

#[tokio::test(start_paused = true)]
async fn is_held_by_current_thread() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    assert_eq!(agreed(&masters).await, None);
    let guard = fair(&masters).lock().await.expect("free");
    assert_eq!(agreed(&masters).await, Some(guard.holder()));
    assert!(guard.is_valid());
    guard.unlock().await.expect("held");
    assert_eq!(agreed(&masters).await, None);
}

/// Another owner is not the one who holds, in the same process or another.
#[tokio::test(start_paused = true)]
async fn is_held_by_current_thread_other_thread() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let guard = fair(&masters).owner(&Owner::new()).lock().await.expect("free");
    for masters in [&masters, &other] {
        let error = fair(masters).owner(&Owner::new()).try_lock().await;
        assert!(matches!(error, Err(LockError::Contended { .. })), "{error:?}");
    }
    guard.unlock().await.expect("held");
    let theirs = fair(&other).lock().await.expect("free");
    assert_eq!(agreed(&masters).await, Some(theirs.holder()));
}

#[tokio::test(start_paused = true)]
async fn is_locked() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    assert!(!anybody_holds(&masters).await);
    let guard = fair(&masters).lock().await.expect("free");
    assert!(anybody_holds(&masters).await);
    guard.unlock().await.expect("held");
    assert!(!anybody_holds(&masters).await);
}

#[tokio::test(start_paused = true)]
async fn is_locked_other_thread() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let guard = fair(&masters).lock().await.expect("free");
    assert!(anybody_holds(&other).await);
    let cause = async { guard.lost().await.cause };
    fair(&other).force_release().await.expect("all answer");
    assert!(!anybody_holds(&other).await);
    assert_eq!(timeout(ms(11_000), cause).await, Ok(LossCause::TakenAway));
}
