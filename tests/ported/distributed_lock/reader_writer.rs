//! `DistributedReaderWriterLockCoreTestCases.cs`.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{LockError, MultiLock, Shared};

use crate::memory::{connect, executed, ms, settle};
use crate::steps::{is_contended, waiting};

/// `TestMultipleReadersSingleWriter`: two readers, a writer that waits for both, and nobody beside it.
#[tokio::test(start_paused = true)]
async fn test_multiple_readers_single_writer() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let first = here.red_lock("lock").read().try_lock().await.expect("free");
    let second = there.red_lock("lock").read().try_lock().await.expect("only read");
    let write = || there.red_lock("lock").write();
    assert!(is_contended(&write().try_lock().await));
    let writer = waiting(write());
    tokio::time::sleep(ms(50)).await;
    assert!(!writer.is_finished());
    drop(first);
    tokio::time::sleep(ms(50)).await;
    assert!(!writer.is_finished(), "one reader is left");
    drop(second);
    settle().await;
    assert!(writer.is_finished(), "called by the last reader");
    let writer = writer.await.expect("no panic").expect("free");
    assert!(is_contended(&here.red_lock("lock").write().try_lock().await));
    drop(writer);
    drop(write().try_lock().await.expect("free"));
}

/// `TestWriterTrumpsReader`: readers do not overtake a writer that waits.
#[tokio::test(start_paused = true)]
async fn test_writer_trumps_reader() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let reader = here.red_lock("lock").read().lock().await.expect("free");
    let writer = waiting(there.red_lock("lock").write());
    tokio::time::sleep(ms(200)).await;
    assert!(!writer.is_finished());
    for masters in [&here, &there] {
        let second = masters.red_lock("lock").read().try_lock().await;
        assert!(is_contended(&second), "a writer waits");
    }
    drop(reader);
    settle().await;
    assert!(writer.is_finished(), "called by the reader");
    drop(writer.await.expect("no panic").expect("free"));
}

async fn is_refused<M: multilock::Mode>(lock: MultiLock<M>) -> bool {
    let is_invalid = |error| matches!(error, LockError::Invalid(_));
    lock.try_lock().await.is_err_and(is_invalid) && lock.lock().await.is_err_and(is_invalid)
}

/// `TestReaderWriterLockBadArguments`: as `TestBadArguments`, in both modes.
#[tokio::test(start_paused = true)]
async fn test_reader_writer_lock_bad_arguments() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let read = || -> MultiLock<Shared> { masters.red_lock("lock").read() };
    let write = || masters.red_lock("lock").write();
    for lease in [Duration::ZERO, Duration::MAX] {
        assert!(is_refused(read().lease(lease)).await && is_refused(write().lease(lease)).await);
    }
    assert!(is_refused(read().min_validity(Duration::MAX)).await);
    assert!(is_refused(write().min_validity(Duration::MAX)).await);
    assert_eq!(executed(&cluster, "acquire"), 0, "no master was asked");
    drop(read().wait(Duration::MAX).lock().await.expect("free"));
    drop(write().wait(Duration::MAX).lock().await.expect("free"));
}
