//! Errors of waits that ran out of time. They name the holder, or the reason why it is unknown, also behind tasks of
//! their own process.

use std::time::Duration;

use futures::future::join_all;
use multilock::sim::{Cluster, Master};
use multilock::{LockError, LockSetError, Masters, MultiLock, OnceError, Quarantine, RunError, RunSetError};
use tokio::time::sleep;

use crate::support::{connect, ms, settle, slow_down};

async fn connect_as(cluster: &Cluster, label: &str) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off).client_label(label);
    cluster.connect(builder).await.expect("connects")
}

/// Why a wait ended that was for nothing.
#[track_caller]
fn cause(error: LockError) -> LockError {
    let LockError::TimedOut { last: Some(last), .. } = error else {
        panic!("{error}");
    };
    *last
}

async fn refusal<M: multilock::Mode>(lock: &MultiLock<M>, wait: Duration) -> LockError {
    lock.clone().wait(wait).lock().await.expect_err("held")
}

/// Hint for a task that waits for itself.
const HINT: &str = "this process holds it; a task enters its own hold again by MultiLock::owner";

/// The lock is held by `label` for about so long, and every error says so by its class.
#[track_caller]
fn assert_held(error: &LockError, label: &str, left: std::ops::Range<Duration>) {
    assert!(
        error.is_contended() && !error.is_unreachable() && !error.is_permanent(),
        "{error}"
    );
    assert_eq!(error.holder(), Some(label), "{error}");
    let retry_after = error.retry_after().expect("known");
    assert!(left.contains(&retry_after), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_its_own_process_is_named() {
    let cluster = Cluster::new(3);
    let masters = connect_as(&cluster, "web-1").await;
    let lock = masters.red_lock("a");
    let guard = lock.lock().await.expect("free");
    sleep(ms(4000)).await;
    let error = refusal(&lock, ms(1000)).await;
    assert_held(&error, "web-1", ms(24_000)..ms(25_000));
    assert!(
        error
            .to_string()
            .contains("held by web-1, worth trying again in 24"),
        "{error}"
    );
    assert!(error.to_string().contains(HINT), "{error}");
    let LockError::Contended { votes, .. } = cause(error) else {
        panic!("not contended");
    };
    assert_eq!(votes, guard.votes(), "those of its grant");
    assert!(votes.granted() >= 2, "{votes}");
    // The names are held, also while all masters are down.
    cluster.iter().for_each(Master::crash);
    assert_held(&refusal(&lock, ms(1000)).await, "web-1", ms(20_000)..ms(25_000));
}

/// A hold that passes from task to task is held by this process all the time.
#[tokio::test(start_paused = true)]
async fn a_hold_that_passes_on_is_held_by_this_process() {
    let cluster = Cluster::new(3);
    let masters = connect_as(&cluster, "web-1").await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    let second = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    settle().await;
    drop(first);
    let second = second.await.expect("no panic").expect("handed on");
    assert_held(&refusal(&lock, ms(1000)).await, "web-1", ms(20_000)..ms(31_000));
    drop(second);
}

/// A task that left a moment ago counts as this process, and so does a task that is about to have the lock. Neither
/// is an outage.
#[tokio::test(start_paused = true)]
async fn between_two_holds_of_this_process_it_is_no_outage() {
    let cluster = Cluster::new(3);
    let masters = connect_as(&cluster, "web-1").await;
    let lock = masters.red_lock("a");
    let first = lock.lock().await.expect("free");
    // For longer than a hold is handed on.
    sleep(ms(1100)).await;
    slow_down(&cluster, 20);
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    let last = tokio::spawn({
        let lock = lock.clone();
        async move { refusal(&lock, ms(10)).await }
    });
    settle().await;
    drop(first);
    assert_held(&last.await.expect("no panic"), "web-1", ms(1)..ms(100));
    drop(next.await.expect("no panic").expect("in the end"));
}

#[tokio::test(start_paused = true)]
async fn behind_a_waiter_of_its_process_the_last_refusal_of_that_one_is_told() {
    let cluster = Cluster::new(3);
    let (masters, others) = (
        connect_as(&cluster, "web-1").await,
        connect_as(&cluster, "web-2").await,
    );
    let lock = masters.red_lock("a");
    let held = others.red_lock("a").lock().await.expect("free");
    let front = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    settle().await;
    let error = refusal(&lock, ms(1000)).await;
    assert_held(&error, "web-2", ms(20_000)..ms(31_000));
    assert!(!error.to_string().contains(HINT), "{error}");
    // In an outage the one in front is told of that, and so are those behind it.
    cluster.iter().take(2).for_each(Master::crash);
    sleep(ms(6000)).await;
    let error = refusal(&lock, ms(1000)).await;
    assert!(error.is_unreachable() && !error.is_contended(), "{error}");
    assert_eq!((error.retry_after(), error.holder()), (None, None));
    assert!(matches!(cause(error), LockError::Unreachable { .. }));
    front.abort();
    drop(held);
}

/// The tasks come together, so the time of the last one ends in its first question: no master has answered that one.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_too_late_is_told_of_the_refusal_before_it() {
    for tasks in [2, 10] {
        let cluster = Cluster::new(3);
        slow_down(&cluster, 2);
        let (here, there) = (
            connect_as(&cluster, "web-1").await,
            connect_as(&cluster, "web-2").await,
        );
        let held = there.red_lock("a").lock().await.expect("free");
        let lock = here.red_lock("a");
        let waits = (0..tasks).map(|_| refusal(&lock, ms(4000)));
        for error in join_all(waits).await {
            assert_held(&error, "web-2", ms(20_000)..ms(31_000));
        }
        drop(held);
    }
}

/// A waiter that has asked no master yet, with no task of its process ahead, knows the known state of the masters.
#[tokio::test(start_paused = true)]
async fn before_any_round_has_ended_masters_are_told_as_they_are() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    cluster.master(0).crash();
    settle().await;
    cluster.iter().skip(1).for_each(Master::freeze);
    for error in [
        refusal(&masters.red_lock("a"), ms(20)).await,
        refusal(&masters.red_lock("b").read(), ms(20)).await,
    ] {
        assert!(error.is_unreachable(), "{error}");
        let votes = error.votes().expect("what is known").clone();
        let said: Vec<String> = votes.iter().map(|node| node.vote.to_string()).collect();
        assert!(said[0].starts_with("not sent"), "{votes}");
        assert_eq!(said[1..], ["not waited for", "not waited for"], "{votes}");
    }
    let set = masters.red_lock("a").and(masters.red_lock("b"));
    let error = set.wait(ms(20)).lock().await.expect_err("nobody answers");
    assert!(error.is_unreachable() && error.error.votes().is_some(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn readers_and_sets_are_told_as_well() {
    let cluster = Cluster::new(3);
    let masters = connect_as(&cluster, "web-1").await;
    let writing = masters.red_lock("a").write().lock().await.expect("free");
    let reading = masters.red_lock("a").read();
    assert_held(
        &refusal(&reading, ms(1000)).await,
        "web-1",
        ms(20_000)..ms(31_000),
    );
    // Behind a reader that was refused.
    let front = tokio::spawn({
        let reading = reading.clone();
        async move { reading.lock().await }
    });
    settle().await;
    assert_held(&refusal(&reading, ms(3)).await, "web-1", ms(20_000)..ms(31_000));
    let set = masters.red_lock("b").and(masters.red_lock("a").write());
    let error = set.wait(ms(1000)).lock().await.expect_err("held");
    assert_eq!(error.index, 1);
    assert_held(&error.error, "web-1", ms(20_000)..ms(31_000));
    front.abort();
    drop(writing);
}

/// The error of a body that did not run has the class of the lock that was refused.
#[tokio::test(start_paused = true)]
async fn what_runs_a_body_tells_of_the_lock_that_it_did_not_get() {
    let cluster = Cluster::new(3);
    let masters = connect_as(&cluster, "web-1").await;
    let lock = masters.red_lock("a");
    let _held = lock.lock().await.expect("free");
    let error: RunError<()> = lock
        .clone()
        .wait(ms(10))
        .run(async |_| ())
        .await
        .expect_err("held");
    assert!(error.is_contended() && !error.is_unreachable() && !error.is_permanent());
    assert_eq!(error.holder(), Some("web-1"));
    assert!(error.retry_after().is_some_and(|left| left > ms(29_000)));
    let job = lock.clone().wait(ms(10)).once(ms(60_000));
    let error: OnceError<()> = job.run(async |_| Ok(())).await.expect_err("held");
    assert!(error.is_contended() && !error.is_unreachable() && !error.is_permanent());
    assert_eq!(error.holder(), Some("web-1"));
    assert!(!OnceError::Body(()).is_contended());
    let set = masters.red_lock("b").and(lock).wait(ms(10));
    let error: RunSetError<()> = set.run(async |_| ()).await.expect_err("held");
    assert!(error.is_contended() && !error.is_unreachable() && !error.is_permanent());
    assert_eq!(error.holder(), Some("web-1"));
    let RunSetError::Lock(error) = error else {
        panic!("{error}");
    };
    let told = |error: &LockSetError| (error.index, error.is_contended(), error.holder() == Some("web-1"));
    assert_eq!(told(&error), (1, true, true));
    assert_eq!(error.votes(), error.error.votes());
    assert!(error.votes().is_some());
    assert!(error.retry_after().is_some_and(|left| left > ms(29_000)));
}
