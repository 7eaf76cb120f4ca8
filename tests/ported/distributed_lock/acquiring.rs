//! `DistributedLockCoreTestCases.cs`: taking and giving up.

use std::time::Duration;

use futures::future::join_all;
use multilock::sim::Cluster;
use multilock::{CancellationToken, LockError, MultiLock, Unlocked};
use tokio::time::{Instant, timeout};

use crate::memory::{connect, executed, ms, queues, settle};
use crate::steps::{Room, clients, is_contended, is_timed_out, locks, wait_in_vain, waiting};

/// `BasicTest`: by dropping guards, the counterpart of a synchronous `Dispose`.
#[tokio::test(start_paused = true)]
async fn basic_test() {
    let masters = connect(&Cluster::new(3)).await;
    let (lock, other) = (masters.red_lock("BasicTest"), masters.red_lock("BasicTest2"));
    let guard = lock.try_lock().await.expect("free");
    assert!(is_contended(&lock.try_lock().await), "it is not re-entrant");
    drop(other.try_lock().await.expect("another lock"));
    drop(guard);
    drop(lock.try_lock().await.expect("free again at once"));
}

/// `BasicAsyncTest`: by `unlock`, under both policies.
#[tokio::test(start_paused = true)]
async fn basic_async_test() {
    let masters = connect(&Cluster::new(3)).await;
    let both = |name| [masters.red_lock(name), masters.multi_lock(name)];
    for (lock, other) in both("BasicAsyncTest").into_iter().zip(both("BasicAsyncTest2")) {
        let guard = lock.try_lock().await.expect("free");
        assert!(is_contended(&lock.try_lock().await));
        let second = other.try_lock().await.expect("another lock");
        assert_eq!(second.unlock().await, Ok(Unlocked::Released));
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        let again = lock.try_lock().await.expect("free again");
        assert_eq!(again.unlock().await, Ok(Unlocked::Released));
    }
}

/// Whether an option of this name is refused, before any master is asked.
async fn is_refused(lock: MultiLock, option: &str) -> bool {
    let names_it = |error: LockError| matches!(error, LockError::Invalid(invalid) if invalid.field == option);
    lock.try_lock().await.is_err_and(names_it) && lock.lock().await.is_err_and(names_it)
}

/// `TestBadArguments`. A `Duration` is never negative, and the longest wait is as good as one without an end.
#[tokio::test(start_paused = true)]
async fn test_bad_arguments() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = || masters.red_lock("TestBadArguments");
    assert!(is_refused(lock().lease(Duration::ZERO), "lease").await);
    assert!(is_refused(lock().lease(Duration::MAX), "lease").await);
    assert!(is_refused(lock().min_validity(Duration::MAX), "min_validity").await);
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
    let guard = lock().wait(Duration::MAX).lock().await.expect("free");
    let waits = waiting(lock().wait(Duration::MAX));
    settle().await;
    assert!(!waits.is_finished(), "it waits");
    drop(guard);
    drop(waits.await.expect("no panic").expect("free again"));
}

/// `TestDisposeHandleIsIdempotent`. `unlock` consumes the guard, so a second end is that of a hold that is gone already.
#[tokio::test(start_paused = true)]
async fn test_dispose_handle_is_idempotent() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("TestDisposeHandleIsIdempotent").wait(ms(30_000));
    let gone = lock.lock().await.expect("free");
    lock.force_release().await.expect("all answer");
    let held = lock.lock().await.expect("free again");
    drop(gone);
    settle().await;
    assert!(held.is_valid(), "the end of the first concerns the first alone");
    assert!(is_contended(&lock.try_lock().await));
    assert_eq!(held.unlock().await, Ok(Unlocked::Released));
    drop(lock.try_lock().await.expect("free again"));
}

/// `TestTimeouts`: waits of 0.2 s end in time, in the same process and in another.
#[tokio::test(start_paused = true)]
async fn test_timeouts() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let _held = here.red_lock("lock").lock().await.expect("free");
    for masters in [&here, &there] {
        let begun = Instant::now();
        let tried = masters.red_lock("lock").try_lock().await;
        assert!(is_contended(&tried) && begun.elapsed() < ms(50));
        for lock in [masters.red_lock("lock"), masters.multi_lock("lock")] {
            let begun = Instant::now();
            let waited = wait_in_vain(lock.wait(ms(200))).await;
            assert!(is_timed_out(&waited), "{waited:?}");
            let elapsed = begun.elapsed();
            assert!((ms(200)..ms(300)).contains(&elapsed), "{elapsed:?}");
        }
    }
}

/// `CancellationTest`: a wait is cancelled, and a wait that is cancelled before it begins.
#[tokio::test(start_paused = true)]
async fn cancellation_test() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let held = here.red_lock("lock").lock().await.expect("free");
    let cancel = CancellationToken::new();
    let (lock, is_cancelled) = (there.red_lock("lock"), cancel.clone());
    let blocked = tokio::spawn(async move { is_cancelled.run_until_cancelled(lock.lock()).await.is_none() });
    tokio::time::sleep(ms(100)).await;
    assert!(!blocked.is_finished() && queues(&cluster) > 0, "it waits");
    cancel.cancel();
    assert!(blocked.await.expect("no panic"), "it was cancelled");
    settle().await;
    assert_eq!(queues(&cluster), 0, "it has left the queues");
    drop(held);
    settle().await;
    assert!(
        locks(&cluster).is_empty(),
        "nobody is granted what nobody waits for"
    );
    assert!(
        cancel
            .run_until_cancelled(there.red_lock("lock").lock())
            .await
            .is_none()
    );
}

/// `TestCanceledAlreadyThrowsForSyncAndDoesNotThrowForAsync`: a call that is cancelled before it begins asks no master.
#[tokio::test(start_paused = true)]
async fn test_canceled_already_throws_for_sync_and_does_not_throw_for_async() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let lock = masters.red_lock("already-canceled");
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    assert!(cancelled.run_until_cancelled(lock.lock()).await.is_none());
    assert!(cancelled.run_until_cancelled(lock.try_lock()).await.is_none());
    settle().await;
    assert_eq!(executed(&cluster, "acquire"), 0);
    drop(lock.try_lock().await.expect("free"));
}

/// `TestParallelism`: a hundred tasks, of ten clients, one inside at a time, all of them within 30 s.
#[tokio::test(start_paused = true)]
async fn test_parallelism() {
    let cluster = Cluster::new(3);
    let (clients, room) = (clients(&cluster, 10).await, Room::default());
    let tasks = (0..100).map(|task| {
        let lock = clients[task % clients.len()].red_lock("parallel_test");
        let room = &room;
        async move {
            let guard = lock.lock().await.expect("in the end");
            assert_eq!(room.visit(ms(10)).await, 1, "alone inside");
            drop(guard);
        }
    });
    timeout(ms(30_000), join_all(tasks)).await.expect("in time");
    assert_eq!((room.visits(), room.most(), room.inside()), (100, 1, 0));
}
