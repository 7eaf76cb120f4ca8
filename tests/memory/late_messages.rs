//! Messages that come late, and a client or a master that did not run meanwhile. The other schedules that refuted weaker
//! protocols are in `tests/simulation/directed`, each by its name, and some of them in `tests/real/stale_sockets.rs`.

use std::pin::pin;
use std::time::Duration;

use crate::support::{connect_by_default, ms, settle};
use futures::poll;
use multilock::LockError;
use multilock::sim::Cluster;
use tokio::time::{advance, sleep};

/// 4: both grants are read only after the lease, because the client did not run meanwhile.
///
/// Rule: validity is checked after the last needed answer.
#[tokio::test(start_paused = true)]
async fn late_answers() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    let lock = masters.red_lock("a").lease(ms(200));
    let mut attempt = pin!(lock.try_lock());
    assert!(poll!(&mut attempt).is_pending());
    // Every master grants at once and answers; the client is paused beyond the lease.
    settle().await;
    assert!(cluster.iter().all(|master| !master.fields("a").is_empty()));
    advance(ms(250)).await;
    match attempt.await {
        Err(LockError::TooLate { validity, votes }) => {
            assert_eq!(validity, Duration::ZERO);
            assert!(votes.granted() >= 2, "{votes}");
        }
        other => panic!("{other:?}"),
    }
    // And a hold that would begin with too little is none, either.
    for master in cluster.iter() {
        master.set_delay(ms(20), ms(20));
    }
    let picky = masters.red_lock("a").lease(ms(200)).min_validity(ms(190));
    let refused = picky.try_lock().await;
    assert!(matches!(refused, Err(LockError::TooLate { .. })), "{refused:?}");
    sleep(ms(100)).await;
    assert!(
        cluster.iter().all(|master| master.locks().is_empty()),
        "rolled back"
    );
}

/// A master is frozen for longer than the lease while an acquire is on its way to it. When it thaws, it executes the
/// acquire, although nobody has wanted it for long.
///
/// Rule: a release stays pending until the master has confirmed it, after any time.
#[tokio::test(start_paused = true)]
async fn orphan_after_thaw() {
    let cluster = Cluster::new(3);
    let masters = connect_by_default(&cluster).await;
    cluster.master(0).keep_abandoned(true);
    cluster.master(0).freeze();
    for _ in 0..4 {
        let guard = masters
            .red_lock("a")
            .lease(ms(1000))
            .try_lock()
            .await
            .expect("1 and 2 grant");
        guard.unlock().await.expect("held");
        sleep(ms(60)).await;
    }
    sleep(ms(5000)).await;
    // The old socket is read before anything that arrives later.
    assert!(
        cluster.master(0).deliver_abandoned() > 0,
        "the schedule needs a late acquire"
    );
    cluster.master(0).thaw();
    sleep(ms(600)).await;
    assert_eq!(cluster.master(0).locks(), Vec::<String>::new());
}
