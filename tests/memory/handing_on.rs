//! What a process passes on among its own tasks, as its callers see it: at once, without a word to any master.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Closing, LockError, Masters, MultiLock, MultiLockGuard, Owner, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{connect, executed, ms, queues, settle, slow_down};

async fn three() -> (Cluster, Masters) {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    let masters = connect(&cluster).await;
    (cluster, masters)
}

type Waiter = JoinHandle<Result<MultiLockGuard, LockError>>;

/// One that stands in line by now.
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
    let scripts = ["acquire", "extend", "release", "leave"];
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
        lock.clone().fenced(false),
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

/// Whoever waits in vain is passed over.
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
