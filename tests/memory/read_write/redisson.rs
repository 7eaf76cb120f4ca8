//! Behaviours of leases from Redisson's suites of its read/write lock, for this crate's read/write locks. Each test
//! has the name of a test of `RedissonReadWriteLockTest` or `RedissonLockExpirationRenewalTest`, without `test`.
//! Behaviours of holds and their owners are in `redisson_holds.rs`.
//!
//! | there | here |
//! | --- | --- |
//! | `testWriteLockExpiration` | a writer that enters again makes its hold last for the longest lease; there the leases add up |
//! | `testReadLockLeaseTimeoutDiffThreads…` | the lease belongs to the hold, and each owner has one; there each entry has its own |
//! | `testMultiInstanceZombieReadLockPerformance` | by the scripts that are run; its time on a server: `tests/real/read_write.rs` |

use std::time::Duration;

use super::{is_clean, is_contended, reading, writing};
use crate::support::{Apart, connect, executed, get_ahead, ms, settle};
use multilock::sim::{Cluster, Master};
use multilock::{Masters, NodeState, Owner, Unlocked};
use tokio::time::{Instant, sleep, timeout};

const NODES: usize = 3;
const LEASE: Duration = Duration::from_secs(30);

async fn states(masters: &Masters) -> Vec<NodeState> {
    let inspections = reading(masters).inspect().await.expect("looks");
    let nodes = inspections.into_iter().flat_map(|inspection| inspection.nodes);
    nodes.map(|(_, state)| state).collect()
}

/// Waited until such a lease had ended: a little less, where its own process gave it up when the validity was over; and the
/// round itself longer.
#[track_caller]
fn assert_lasted(waited: Duration, lease: Duration) {
    let bounds = (lease * 49 / 50).saturating_sub(ms(5))..=lease + ms(10);
    assert!(bounds.contains(&waited), "{waited:?} for {lease:?}");
}

/// Checks the time to live of the key, on every master.
#[track_caller]
fn assert_left(cluster: &Cluster, expected: Duration) {
    for master in cluster.iter() {
        let left = master.time_left("a").expect("held");
        assert!(left <= expected && left + ms(2) >= expected, "{left:?}");
    }
}

/// A process with readers that stay in until it is killed.
fn readers_apart(cluster: &Cluster, readers: usize) -> Apart {
    Apart::after(cluster, move |masters| async move {
        for _ in 0..readers {
            let guard = reading(&masters).lock().await.expect("only read");
            tokio::spawn(async move { guard.lost().await });
        }
    })
}

#[tokio::test(start_paused = true)]
async fn read_lock_is_locked() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    assert!(states(&there).await.iter().all(|state| *state == NodeState::Free));
    let reader = reading(&here).lock().await.expect("free");
    for state in states(&there).await {
        let NodeState::Read { holders, remaining } = state else {
            panic!("{state:?}");
        };
        assert_eq!(holders, [reader.holder()]);
        assert!(remaining.is_some_and(|left| left <= LEASE), "{remaining:?}");
    }
    reader.unlock().await.expect("held");
    assert!(states(&there).await.iter().all(|state| *state == NodeState::Free));
}

/// Each of some readers is renewed for as long as it stays, and no longer.
#[tokio::test(start_paused = true)]
async fn read_lock_expiration_renewal() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let mut readers = Vec::new();
    for number in 0..4 {
        let masters = if number % 2 == 0 { &here } else { &there };
        readers.push(reading(masters).lock().await.expect("only read"));
        sleep(ms(7_000)).await;
    }
    while let Some(reader) = readers.pop() {
        sleep(LEASE * 2).await;
        assert!(reader.is_valid() && readers.iter().all(multilock::MultiLockGuard::is_valid));
        assert!(is_contended(&writing(&here).try_lock().await));
        assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    }
    settle().await;
    assert!(is_clean(&cluster));
}

/// A writer that enters again never adds its lease to the remaining lease.
#[tokio::test(start_paused = true)]
async fn write_lock_expiration() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let lock = writing(&masters).owner(&Owner::new()).lease(ms(2_000));
    let begun = Instant::now();
    let outer = lock.lock().await.expect("free");
    sleep(ms(1_500)).await;
    let inner = lock.lock().await.expect("its own");
    let expected = outer.validity();
    assert!(expected <= ms(2_000) && inner.validity() == expected);
    let writer = writing(&other).lock().await.expect("when the lease has ended");
    let waited = begun.elapsed();
    assert_lasted(waited, ms(3_500));
    assert!(!outer.is_valid() && !inner.is_valid());
    drop(writer);
}

/// A writer reads twice inside, for longer each time. The hold that it leaves to its last reading entry lasts as long
/// as the longest lease, and others read beside it.
#[tokio::test(start_paused = true)]
async fn read_lock_lease_timeout_diff_threads_wrr() {
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let me = Owner::new();
    let writer = writing(&here)
        .owner(&me)
        .lease(ms(1_000))
        .lock()
        .await
        .expect("free");
    let first = reading(&here)
        .owner(&me)
        .lease(ms(2_000))
        .lock()
        .await
        .expect("its own");
    let second = reading(&here)
        .owner(&me)
        .lease(ms(10_000))
        .lock()
        .await
        .expect("its own");
    let begun = Instant::now();
    assert!(is_contended(&reading(&there).try_lock().await), "it still writes");
    assert_eq!(writer.unlock().await, Ok(Unlocked::Downgraded));
    assert_eq!(first.unlock().await, Ok(Unlocked::StillHeld(1)));
    let beside = reading(&there)
        .lease(ms(500))
        .try_lock()
        .await
        .expect("only read");
    assert!(second.is_valid() && beside.is_valid());
    second.leak();
    let writer = writing(&there).lock().await.expect("when both leases have ended");
    let waited = begun.elapsed();
    assert_lasted(waited, ms(10_000));
    drop((beside, writer));
}

/// A reader that enters again for longer lasts for longer; for less it lasts as long as it did.
#[tokio::test(start_paused = true)]
async fn read_lock_lease_timeout() {
    let cluster = Cluster::new(NODES);
    let masters = connect(&cluster).await;
    let lock = reading(&masters).owner(&Owner::new());
    let outer = lock.clone().lease(ms(5_000)).lock().await.expect("free");
    let inner = lock.clone().lease(ms(1_000)).lock().await.expect("its own");
    assert_left(&cluster, ms(5_000));
    assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    let inner = lock.lease(ms(9_000)).lock().await.expect("its own");
    settle().await;
    assert_left(&cluster, ms(8_995));
    sleep(ms(8_000)).await;
    assert!(inner.is_valid() && outer.is_valid());
    sleep(ms(1_000)).await;
    assert!(!inner.is_valid() && !outer.is_valid());
    settle().await;
    assert!(is_clean(&cluster));
}

/// A process that reads or writes dies. Its lease ends, and a waiter of the other kind gets in.
#[tokio::test(start_paused = true)]
async fn auto_expire() {
    get_ahead().await;
    for writes in [false, true] {
        let cluster = Cluster::new(NODES);
        let masters = connect(&cluster).await;
        let dying = Apart::after(&cluster, move |masters| async move {
            if writes {
                let guard = writing(&masters).lock().await.expect("free");
                tokio::spawn(async move { guard.lost().await });
            } else {
                let guard = reading(&masters).lock().await.expect("free");
                tokio::spawn(async move { guard.lost().await });
            }
        });
        settle().await;
        dying.kill();
        let begun = Instant::now();
        if writes {
            drop(reading(&masters).lock().await.expect("when the lease has ended"));
        } else {
            drop(writing(&masters).lock().await.expect("when the lease has ended"));
        }
        assert_lasted(begun.elapsed(), LEASE);
        settle().await;
        assert!(is_clean(&cluster));
    }
}

#[tokio::test(start_paused = true)]
async fn read_lock_after_timeout() {
    let cluster = Cluster::new(NODES);
    let (masters, other) = (connect(&cluster).await, connect(&cluster).await);
    let lock = reading(&masters).owner(&Owner::new());
    let over = lock.clone().lease(ms(3_000)).lock().await.expect("free");
    // Another client keeps the key, and in it the expired reader.
    let beside = reading(&other).lock().await.expect("only read");
    sleep(ms(3_100)).await;
    let renewed = lock.lock().await.expect("only read");
    sleep(LEASE * 4).await;
    assert!(renewed.is_valid() && beside.is_valid() && !over.is_valid());
    assert!(over.unlock().await.is_err());
    beside.unlock().await.expect("held");
    assert!(
        is_contended(&writing(&other).try_lock().await),
        "not given up by it"
    );
    assert_eq!(renewed.unlock().await, Ok(Unlocked::Released));
    settle().await;
    assert!(is_clean(&cluster));
}

/// Processes die with readers in, while a living process reads on. The dead readers keep a writer out for their
/// leases and no longer.
#[tokio::test(start_paused = true)]
async fn multi_instance_read_lock_zombie_cleanup() {
    get_ahead().await;
    let cluster = Cluster::new(NODES);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let living = reading(&here).lock().await.expect("free");
    let zombies: Vec<_> = (0..3).map(|_| readers_apart(&cluster, 2)).collect();
    settle().await;
    for zombie in zombies {
        zombie.kill();
    }
    let readers = |master: &Master| {
        let counted = master.command(&["ZCARD", "multilock_readers:{a}"]);
        counted.expect("a set").remove(0)
    };
    for master in cluster.iter() {
        assert_eq!(readers(master), "7");
    }
    sleep(LEASE * 2).await;
    // A new reader with the longest lease takes out the expired readers.
    reading(&there)
        .lock()
        .await
        .expect("only read")
        .unlock()
        .await
        .expect("held");
    settle().await;
    for master in cluster.iter() {
        assert_eq!(readers(master), "1", "the one that lives");
    }
    assert!(living.is_valid());
    living.unlock().await.expect("held");
    timeout(ms(1), writing(&there).lock())
        .await
        .expect("nobody is in")
        .expect("free")
        .unlock()
        .await
        .expect("held");
    settle().await;
    assert!(is_clean(&cluster));
}

/// Sixty dead readers cost a writer the rest of their leases, and no more scripts than one of them does.
#[tokio::test(start_paused = true)]
async fn multi_instance_zombie_read_lock_performance() {
    get_ahead().await;
    let asked_beside = async |zombies: usize| {
        let cluster = Cluster::new(NODES);
        let masters = connect(&cluster).await;
        let dead = readers_apart(&cluster, zombies);
        settle().await;
        dead.kill();
        let begun = Instant::now();
        let writer = writing(&masters)
            .lock()
            .await
            .expect("when the leases have ended");
        let waited = begun.elapsed();
        assert_lasted(waited, LEASE);
        writer.unlock().await.expect("held");
        settle().await;
        assert!(is_clean(&cluster));
        executed(&cluster, "acquire") - (zombies * NODES) as u64
    };
    let (one, sixty) = (asked_beside(1).await, asked_beside(60).await);
    assert!(sixty <= one + NODES as u64, "{sixty} instead of {one}");
}
