//! Names that are kept although the job is done, on real servers: as long as was asked for, and no longer.

use std::time::Duration;

use crate::support::{Cluster, connect, until_free};
use multilock::{LockError, Unlocked};
use tokio::time::Instant;

/// Long beside the time that a loaded machine needs for a handful of questions.
const KEPT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn names_are_kept_as_long_as_was_asked_for() {
    let cluster = Cluster::start(5).await;
    let (here, there) = (connect(cluster.urls()).await, connect(cluster.urls()).await);
    let lock = here.red_lock(["a", "{b}:1"]).at_least(KEPT);
    // Before the grant, from which the time counts.
    let begun = Instant::now();
    let guard = lock.lock().await.expect("free");
    let waiter = {
        let lock = there.red_lock("{b}:1");
        tokio::spawn(async move { (lock.lock().await.expect("in the end"), Instant::now()) })
    };
    let unlocked = guard.unlock().await.expect("held");
    let Unlocked::KeptFor(rest) = unlocked else {
        panic!("{unlocked:?}");
    };
    assert!(rest <= KEPT, "{rest:?}");
    let mut kept = 0;
    for server in cluster.servers() {
        // The rest with the drift, no longer the rest of the lease. A master that answered late has given back.
        let left = server.pttl("a").await;
        assert!(left <= 10_110, "{left}");
        kept += usize::from(left > 0);
    }
    assert!(kept > cluster.servers().len() / 2, "kept on {kept} masters");
    let refused = there.red_lock("a").try_lock().await.expect_err("kept");
    assert!(matches!(refused, LockError::Contended { .. }), "{refused}");
    let (second, at) = waiter.await.expect("no panic");
    assert!(at - begun >= KEPT, "after {:?} already", at - begun);
    // Before the lease would have ended: the names were given back.
    assert!(at - begun < KEPT * 5 / 2, "after {:?} only", at - begun);
    assert_eq!(second.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "{b}:1").await;
}
