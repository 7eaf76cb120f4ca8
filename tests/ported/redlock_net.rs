//! Cases of RedLock.net's (github.com/samcook/RedLock.net, `RedLockNet.Tests/RedLockTests.cs`).

use futures::future::join_all;
use multilock::sim::{Client, Cluster, Master};
use multilock::{LockError, Masters, Quarantine};
use tokio::time::{Instant, sleep};

use crate::memory::{connect, connect_leasing, executed, ms, settle};
use crate::steps::{is_contended, locks, waiting};

/// Three clients ask five masters at the same moment, each nearest to another one. Returns how many get the lock.
async fn race(seed: u64) -> usize {
    const DISTANCES: [[u64; 5]; 3] = [[1, 2, 3, 3, 2], [3, 1, 2, 2, 3], [2, 3, 1, 1, 1]];
    let cluster = Cluster::new(5);
    let mut clients = Vec::new();
    for (number, distances) in (0..).zip(DISTANCES) {
        let client = Client::new()
            .seed(3 * seed + number)
            .distances(&distances.map(ms));
        let builder = Masters::builder().quarantine(Quarantine::Off);
        clients.push(cluster.connect_as(&client, builder).await.expect("connects"));
    }
    let tasks = clients.iter().map(|masters| {
        let lock = masters.red_lock("testredislock").wait(ms(1500));
        async move {
            let tried = lock.lock().await;
            if let Ok(guard) = tried {
                // For long enough that the others give up.
                sleep(ms(2000)).await;
                guard.unlock().await.expect("held");
                return true;
            }
            assert!(matches!(tried, Err(LockError::TimedOut { .. })), "{tried:?}");
            false
        }
    });
    let acquired = join_all(tasks).await;
    settle().await;
    assert!(locks(&cluster).is_empty(), "parts of a quorum are given back");
    acquired.into_iter().filter(|acquired| *acquired).count()
}

/// `TestRaceForQuorum`.
#[tokio::test(start_paused = true)]
async fn test_race_for_quorum() {
    assert_eq!(race(0).await, 1);
}

/// `TestRaceForQuorumMultiple`: the race again and again. Twice in the original, thirty times here.
#[tokio::test(start_paused = true)]
async fn test_race_for_quorum_multiple() {
    for seed in 1..=30 {
        assert_eq!(race(seed).await, 1, "seed {seed}");
    }
}

/// `TestContendedExtendCancellation`: two tasks hold for as long as the lease, one after the other. Each is renewed,
/// and no renewal comes after its end.
#[tokio::test(start_paused = true)]
async fn test_contended_extend_cancellation() {
    let cluster = Cluster::new(1);
    let masters = connect_leasing(&cluster, ms(2000)).await;
    let lock = masters.red_lock("testcontendedlock");
    let first = lock.lock().await.expect("free");
    sleep(ms(1990)).await;
    // Just before the end of the lease that was not renewed: it has to wait for its turn.
    let second = waiting(lock.clone());
    sleep(ms(10)).await;
    assert!(first.is_valid() && !second.is_finished());
    let renewed = executed(&cluster, "extend");
    assert!(renewed >= 1);
    first.unlock().await.expect("held");
    let begun = Instant::now();
    let second = second.await.expect("no panic").expect("its turn");
    assert!(begun.elapsed() < ms(5));
    sleep(ms(2000)).await;
    assert!(second.is_valid() && executed(&cluster, "extend") > renewed);
    assert!(is_contended(
        &connect(&cluster)
            .await
            .red_lock("testcontendedlock")
            .try_lock()
            .await
    ));
    second.unlock().await.expect("held");
    let renewed = executed(&cluster, "extend");
    sleep(ms(10_000)).await;
    assert_eq!(executed(&cluster, "extend"), renewed);
    assert!(cluster.iter().all(|master: &Master| master.locks().is_empty()));
}
