//! `DistributedLockCoreTestCases.cs`: names. They are used as they are, so no two become one.

use multilock::LockError;
use multilock::sim::Cluster;

use crate::memory::connect;

/// `TestGetSafeName`: long names and odd ones can be locked. An empty one is refused, and no name is changed.
#[tokio::test(start_paused = true)]
async fn test_get_safe_name() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let empty = masters.red_lock("").lock().await;
    assert!(matches!(empty, Err(LockError::Invalid(_))), "{empty:?}");
    for name in ["a".repeat(1000), r"\\\\\".to_owned(), r"\".repeat(1000)] {
        let guard = masters.red_lock(&name).lock().await.expect("free");
        let is_stored = |master: &multilock::sim::Master| master.locks().contains(&name);
        assert!(cluster.iter().all(is_stored), "{name} as it is");
        guard.unlock().await.expect("held");
    }
}

/// `TestGetSafeLockNameIsCaseSensitive`: long names that differ in their last letter.
#[tokio::test(start_paused = true)]
async fn test_get_safe_lock_name_is_case_sensitive() {
    let masters = connect(&Cluster::new(3)).await;
    let lower = "a".repeat(1000);
    let upper = "a".repeat(999) + "A";
    let _lower = masters.red_lock(&lower).try_lock().await.expect("free");
    drop(masters.red_lock(&upper).try_lock().await.expect("another lock"));
}

/// `TestLockNamesAreCaseSensitive`: short names.
#[tokio::test(start_paused = true)]
async fn test_lock_names_are_case_sensitive() {
    let masters = connect(&Cluster::new(3)).await;
    let _lower = masters.red_lock("6DF2A1_a").try_lock().await.expect("free");
    drop(
        masters
            .red_lock("6DF2A1_A")
            .try_lock()
            .await
            .expect("another lock"),
    );
}
