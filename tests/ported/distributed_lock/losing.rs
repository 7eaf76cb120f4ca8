//! `DistributedLockCoreTestCases.cs`: handles that are lost or abandoned.

use multilock::sim::{Cluster, Master};
use tokio::time::{Instant, sleep, timeout};

use crate::memory::{connect, connect_leasing, ms, settle};

/// `TestHandleLostTriggersCorrectly`: not by an unlock; and when the masters have lost the key.
#[tokio::test(start_paused = true)]
async fn test_handle_lost_triggers_correctly() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(2000)).await;
    let lock = masters.red_lock("lock");
    let guard = lock.lock().await.expect("free");
    let token = guard.cancellation_token();
    assert!(!token.is_cancelled());
    guard.unlock().await.expect("held");
    sleep(ms(10_000)).await;
    assert!(!token.is_cancelled(), "giving it up is no loss");

    let guard = lock.lock().await.expect("free");
    let token = guard.cancellation_token();
    sleep(ms(50)).await;
    assert!(!token.is_cancelled());
    cluster.iter().for_each(Master::crash);
    let begun = Instant::now();
    timeout(ms(10_000), token.cancelled()).await.expect("it is told");
    assert!(
        !guard.is_valid() && begun.elapsed() <= ms(2000),
        "{:?}",
        begun.elapsed()
    );
}

/// `TestHandleLostReturnsAlreadyCanceledIfHandleAlreadyLost`.
#[tokio::test(start_paused = true)]
async fn test_handle_lost_returns_already_canceled_if_handle_already_lost() {
    let cluster = Cluster::new(3);
    let masters = connect_leasing(&cluster, ms(2000)).await;
    let guard = masters.red_lock("lock").lock().await.expect("free");
    cluster.iter().for_each(Master::crash);
    sleep(ms(3000)).await;
    // Nobody has asked for a token before.
    let token = guard.cancellation_token();
    timeout(ms(1), token.cancelled()).await.expect("at once");
    timeout(ms(1), guard.lost()).await.expect("at once");
}

/// `TestCanSafelyDisposeWhileMonitoring`: the guard is dropped while a task waits for its loss.
#[tokio::test(start_paused = true)]
async fn test_can_safely_dispose_while_monitoring() {
    let masters = connect(&Cluster::new(3)).await;
    let lock = masters.red_lock("lock");
    let guard = lock.lock().await.expect("free");
    let token = guard.cancellation_token();
    let monitor = tokio::spawn({
        let token = token.clone();
        async move { token.cancelled().await }
    });
    sleep(ms(50)).await;
    assert!(!monitor.is_finished());
    drop(guard);
    drop(lock.try_lock().await.expect("free at once"));
    sleep(ms(60_000)).await;
    assert!(!monitor.is_finished() && !token.is_cancelled(), "it was not lost");
    monitor.abort();
}

/// `TestLockAbandonment`: the handle goes with the task that had it, and the lock is free.
#[tokio::test(start_paused = true)]
async fn test_lock_abandonment() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let lock = here.red_lock("lock");
    let abandoned = tokio::spawn(async move {
        let _held = lock.lock().await.expect("free");
        std::future::pending::<()>().await;
    });
    settle().await;
    assert!(there.red_lock("lock").try_lock().await.is_err(), "it is held");
    abandoned.abort();
    settle().await;
    drop(there.red_lock("lock").try_lock().await.expect("free"));
}
