//! Hand-offs among the tasks of one process, as its callers see them: at once, without a message to any master.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Closing, LockError, Masters, MultiLock, MultiLockGuard, Owner, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::journal::Journal;
use crate::support::{connect, executed, ms, queues, settle, slow_down};

async fn three() -> (Cluster, Masters) {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    let masters = connect(&cluster).await;
    (cluster, masters)
}

type Waiter = JoinHandle<Result<MultiLockGuard, LockError>>;

/// A waiter that is in the line by now.
async fn waiter(lock: MultiLock) -> Waiter {
    let waiter = tokio::spawn(async move { lock.lock().await });
    tokio::task::yield_now().await;
    waiter
}

async fn passed(waiter: Waiter) -> MultiLockGuard {
    let begun = Instant::now();
    let guard = waiter.await.expect("no panic").expect("granted");
    assert_eq!(begun.elapsed(), Duration::ZERO, "at once");
    guard
}

fn scripts(cluster: &Cluster) -> u64 {
    let scripts = ["acquire", "extend", "release", "withdraw"];
    scripts.map(|script| executed(cluster, script)).into_iter().sum()
}

#[tokio::test(start_paused = true)]
async fn unlock_says_who_has_it() {
    let (cluster, masters) = three().await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    let (second, third) = (waiter(lock.clone()).await, waiter(lock).await);
    settle().await;
    let before = scripts(&cluster);
    let token = first.fencing_token();
    assert_eq!(first.unlock().await.expect("held"), Unlocked::HandedOn);
    let second = passed(second).await;
    assert!(second.fencing_token() > token);
    drop(second);
    let third = passed(third).await;
    assert_eq!(third.hold_count(), 1);
    assert_eq!(scripts(&cluster), before, "no master was asked");
    assert_eq!(third.unlock().await.expect("held"), Unlocked::Released);
    settle().await;
    assert_eq!(queues(&cluster), 0);
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_passed_to_like_any_other() {
    let (cluster, masters) = three().await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    let run = lock.clone();
    let body = tokio::spawn(async move { run.run(async |guard| guard.fencing_token()).await });
    tokio::task::yield_now().await;
    let last = waiter(lock).await;
    settle().await;
    let before = scripts(&cluster);
    let token = first.fencing_token();
    drop(first);
    let its = body.await.expect("no panic").expect("it comes to its end");
    let last = passed(last).await;
    assert!(token < its && its < last.fencing_token());
    assert_eq!(scripts(&cluster), before);
}

#[tokio::test(start_paused = true)]
async fn other_terms_are_asked_for() {
    let (_cluster, masters) = three().await;
    let lock = masters.red_lock("a");
    let others = [
        masters.multi_lock("a"),
        masters.red_lock(["a", "b"]),
        lock.clone().lease(ms(5000)),
        lock.clone().min_validity(ms(1)),
        lock.clone().fair(),
    ];
    for other in others {
        let first = lock.lock().await.expect("free");
        let next = waiter(other).await;
        settle().await;
        assert_eq!(first.unlock().await.expect("held"), Unlocked::Released);
        let next = next.await.expect("no panic").expect("granted");
        next.unlock().await.expect("held");
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_guard_passes_nothing_on() {
    let (_cluster, masters) = three().await;
    let me = Owner::new();
    let mine = masters.red_lock("a").owner(&me);
    let outer = mine.lock().await.expect("free");
    let inner = mine.lock().await.expect("it is inside");
    let next = waiter(masters.red_lock("a")).await;
    settle().await;
    assert_eq!(inner.unlock().await.expect("held"), Unlocked::StillHeld(1));
    settle().await;
    assert!(!next.is_finished());
    assert_eq!(outer.unlock().await.expect("held"), Unlocked::HandedOn);
    let next = passed(next).await;
    // The owner that had it is outside.
    let refused = mine.try_lock().await.expect_err("somebody else has it");
    assert!(matches!(refused, LockError::Contended { .. }), "{refused}");
    assert_eq!(next.hold_count(), 1);
}

/// A guard that was passed to may be entered again by its own owner.
#[tokio::test(start_paused = true)]
async fn what_was_passed_on_is_entered_again() {
    let (_cluster, masters) = three().await;
    let me = Owner::new();
    let mine = masters.red_lock("a").owner(&me);
    let first = masters.red_lock("a").lock().await.expect("free");
    let next = waiter(mine.clone()).await;
    settle().await;
    drop(first);
    let outer = passed(next).await;
    let inner = mine.try_lock().await.expect("it is inside");
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    assert_eq!(outer.hold_count(), 2);
    assert_eq!(inner.unlock().await.expect("held"), Unlocked::StillHeld(1));
    assert_eq!(outer.unlock().await.expect("held"), Unlocked::Released);
}

#[tokio::test(start_paused = true)]
async fn a_leaked_hold_is_not_passed_on() {
    let (cluster, masters) = three().await;
    let lock = masters.red_lock("a").lease(ms(2000));
    let first = lock.lock().await.expect("free");
    let next = waiter(lock).await;
    settle().await;
    let begun = Instant::now();
    first.leak();
    let next = next.await.expect("no panic").expect("granted");
    assert!(begun.elapsed() > ms(1900), "{:?}", begun.elapsed());
    next.unlock().await.expect("held");
    settle().await;
    assert!(cluster.iter().all(|master| master.locks().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_passes_nothing_on() {
    let (cluster, masters) = three().await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    let next = waiter(lock.clone()).await;
    settle().await;
    let closing = tokio::spawn({
        let masters = masters.clone();
        async move { masters.close(Closing::Leave).await }
    });
    tokio::task::yield_now().await;
    assert!(first.is_valid(), "it keeps what it has");
    let left = first.unlock().await;
    assert!(!matches!(left, Ok(Unlocked::HandedOn)), "{left:?}");
    let refused = next.await.expect("no panic").expect_err("closed");
    assert!(matches!(refused, LockError::Closed), "{refused}");
    closing.await.expect("no panic");
    let rival = connect(&cluster).await;
    let guard = rival.red_lock("a").lock().await.expect("free in the end");
    drop(guard);
}

/// A waiter that has given up is passed over.
#[tokio::test(start_paused = true)]
async fn who_has_given_up_is_passed_over() {
    let (_cluster, masters) = three().await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    let tired = waiter(lock.clone().wait(ms(3))).await;
    let next = waiter(lock).await;
    sleep(ms(5)).await;
    tired.await.expect("no panic").expect_err("held all the time");
    assert_eq!(first.unlock().await.expect("held"), Unlocked::HandedOn);
    drop(passed(next).await);
}

/// A waiter that gives up the lock as soon as it has it.
async fn visitor(lock: MultiLock) -> JoinHandle<()> {
    let visitor = tokio::spawn(async move { drop(lock.lock().await.expect("granted")) });
    tokio::task::yield_now().await;
    visitor
}

/// A waiter that is polled once, and then no more.
async fn unpolled(
    lock: MultiLock,
) -> std::pin::Pin<Box<impl Future<Output = Result<MultiLockGuard, LockError>>>> {
    let mut waiting = Box::pin(async move { lock.lock().await });
    let polled = tokio::time::timeout(ms(20), &mut waiting).await;
    assert!(polled.is_err(), "it is held");
    waiting
}

/// A call of `lock()` that is polled once.
async fn polled_once(
    lock: MultiLock,
) -> std::pin::Pin<Box<impl Future<Output = Result<MultiLockGuard, LockError>>>> {
    let mut waiting = Box::pin(async move { lock.lock().await });
    assert!(futures::poll!(waiting.as_mut()).is_pending(), "masters are away");
    waiting
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_taken_goes_on_within_a_second() {
    for held in [100, 1000, 3000] {
        let (cluster, masters) = three().await;
        let other = connect(&cluster).await;
        let holder = masters.red_lock("a").lock().await.expect("free");
        let next = unpolled(masters.red_lock("a")).await;
        let third = visitor(masters.red_lock("a")).await;
        let elsewhere = visitor(other.red_lock("a")).await;
        sleep(ms(held)).await;
        let begun = Instant::now();
        // The next one came before the one elsewhere.
        assert_eq!(holder.unlock().await.expect("held"), Unlocked::HandedOn);
        for others in [third, elsewhere] {
            others.await.expect("granted");
            assert!(
                begun.elapsed() < ms(1200),
                "{:?} after {held} ms",
                begun.elapsed()
            );
        }
        // It comes again where it is polled at last.
        drop(next.await.expect("granted"));
        settle().await;
        assert_eq!(queues(&cluster), 0);
    }
}

/// The first caller is not polled any more while its own round is under way.
#[tokio::test(start_paused = true)]
async fn who_asks_first_and_is_not_polled_keeps_its_process_for_a_second() {
    let (cluster, masters) = three().await;
    let first = polled_once(masters.red_lock("a").lease(ms(5000))).await;
    let begun = Instant::now();
    let second = visitor(masters.red_lock("a").lease(ms(5000))).await;
    second.await.expect("granted");
    // A grant to the first caller meanwhile lasts as long as its lease.
    assert!(begun.elapsed() < ms(6100), "{:?}", begun.elapsed());
    drop(first);
    settle().await;
    assert_eq!(queues(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_called_and_not_polled_keeps_others_for_a_second() {
    let (cluster, masters) = three().await;
    let (other, third) = (connect(&cluster).await, connect(&cluster).await);
    let holder = masters.red_lock("a").lock().await.expect("free");
    let next = unpolled(other.red_lock("a")).await;
    let behind_it = visitor(other.red_lock("a")).await;
    let elsewhere = visitor(third.red_lock("a")).await;
    sleep(ms(100)).await;
    let begun = Instant::now();
    holder.unlock().await.expect("held");
    for others in [behind_it, elsewhere] {
        others.await.expect("granted");
    }
    assert!(begun.elapsed() < ms(1200), "{:?}", begun.elapsed());
    drop(next.await.expect("granted"));
    settle().await;
    assert_eq!(queues(&cluster), 0);
}

/// An answer may take longer than a task has once it is woken. So the time of the task begins where the answer is due, also
/// if a master calls it shortly after it has asked.
#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_late_answer_keeps_its_turn() {
    for held in [22_000, 30_000] {
        let cluster = Cluster::new(3);
        let slow = || Masters::builder().node_timeout(ms(12_000));
        let (near, far) = (cluster.connect(slow()).await, cluster.connect(slow()).await);
        let (near, far) = (near.expect("connects"), far.expect("connects"));
        let holder = near.red_lock("a").lock().await.expect("free");
        slow_down(&cluster, 5700);
        let (journal, _installed) = Journal::begin();
        let tasks = [visitor(far.red_lock("a")).await, visitor(far.red_lock("a")).await];
        sleep(ms(held)).await;
        holder.unlock().await.expect("held");
        for task in tasks {
            task.await.expect("granted");
        }
        let unpolled = journal.of("a task that waits for a lock is not polled");
        assert!(unpolled.is_empty(), "{unpolled:?} after {held} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_taken_late_is_asked_for_again() {
    let (cluster, masters) = three().await;
    let brief = cluster
        .connect(Masters::builder().lease(ms(1200)))
        .await
        .expect("in memory");
    let fixed = masters.red_lock("fixed").lease(ms(1500));
    let long = masters.red_lock("long").lease(ms(1500)).min_validity(ms(1400));
    let kept = brief.red_lock("kept").at_least(ms(900));
    // What is left would do for one that comes in time. The task of the next one is busy for less than its time to come.
    for (lock, held, busy, needed) in [
        (fixed, 20, 950, 1350),
        (long, 20, 80, 1400),
        (kept, 910, 250, 900),
    ] {
        let first = lock.lock().await.expect("free");
        let mut next = Box::pin(lock.lock());
        assert!(tokio::time::timeout(ms(held), &mut next).await.is_err());
        assert_eq!(first.unlock().await.expect("held"), Unlocked::HandedOn);
        sleep(ms(busy)).await;
        let guard = next.await.expect("granted");
        assert!(guard.validity() > ms(needed), "{:?}", guard.validity());
    }
}
