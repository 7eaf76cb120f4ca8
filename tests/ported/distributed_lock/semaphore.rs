//! `DistributedSemaphoreCoreTestCases.cs`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use multilock::LockError;
use multilock::sim::Cluster;
use tokio::time::timeout;

use crate::memory::{connect, ms, settle};
use crate::steps::{Room, clients, is_contended, locks};

/// `TestMaxCount`: as many get in as the semaphore says, and not one more.
#[tokio::test(start_paused = true)]
async fn test_max_count() {
    let masters = connect(&Cluster::new(3)).await;
    for count in [5, 23] {
        let semaphore = masters.permits(format!("of {count}"), count);
        let mut permits = Vec::new();
        for _ in 0..count {
            permits.push(semaphore.try_lock().await.expect("one is left"));
        }
        let last = semaphore.try_lock().await;
        assert!(is_contended(&last), "{last:?}");
    }
}

/// `TestConcurrencyHandling`: ten clients take one of three permits 25 times each. One, two and three are seen inside.
#[tokio::test(start_paused = true)]
async fn test_concurrency_handling() {
    let cluster = Cluster::new(3);
    let (clients, room) = (clients(&cluster, 10).await, Room::default());
    let seen = Mutex::new(BTreeSet::new());
    let tasks = clients.iter().map(|masters| {
        let semaphore = masters.permits("lock", 3).wait(ms(5000));
        let (room, seen) = (&room, &seen);
        async move {
            for _ in 0..25 {
                let permit = semaphore.lock().await.expect("in time");
                let inside = room.visit(ms(10)).await;
                seen.lock().expect("not poisoned").insert(inside);
                drop(permit);
            }
        }
    });
    join_all(tasks).await;
    let seen = seen.into_inner().expect("not poisoned");
    assert_eq!(seen, BTreeSet::from([1, 2, 3]));
    assert_eq!(room.visits(), 250);
}

/// `TestDrain`: two clients share four permits, until none is left.
#[tokio::test(start_paused = true)]
async fn test_drain() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let (one, two) = (here.permits("lock", 4).wait(ms(5000)), there.permits("lock", 4));
    let mut permits = vec![one.lock().await.expect("free")];
    drop(two.lock().await.expect("three are left"));
    while permits.len() < 4 {
        permits.push(one.lock().await.expect("one is left"));
    }
    assert!(is_contended(&two.try_lock().await) && is_contended(&one.try_lock().await));
    drop(permits.remove(0));
    drop(two.lock().await.expect("one is left"));
    drop(permits);
    settle().await;
    let left = locks(&cluster);
    assert!(left.is_empty(), "{left:?}");
}

/// `TestHighTicketCount`: a long name, and the largest number of permits. Here that is 64, and more are refused.
#[tokio::test(start_paused = true)]
async fn test_high_ticket_count() {
    let masters = connect(&Cluster::new(3)).await;
    let name = format!("s{} many tickets!", "o".repeat(1000));
    let too_many = masters.permits(&name, u32::MAX).lock().await;
    assert!(matches!(too_many, Err(LockError::Invalid(_))), "{too_many:?}");
    let semaphore = masters.permits(&name, 64).wait(ms(5000));
    let permits = join_all((0..64).map(|_| semaphore.lock())).await;
    let seats: BTreeSet<u32> = permits
        .iter()
        .map(|permit| permit.as_ref().expect("free").seat())
        .collect();
    assert_eq!(seats, (1..=64).collect());
    assert!(is_contended(&semaphore.try_lock().await));
}

/// `TestSemaphoreParallelism`: a hundred tasks and ten permits. All of them are used, and nobody waits for long.
#[tokio::test(start_paused = true)]
async fn test_semaphore_parallelism() {
    const MAX_COUNT: u32 = 10;
    let cluster = Cluster::new(3);
    let (clients, room) = (clients(&cluster, 4).await, Room::default());
    let tasks = (0..100).map(|task| {
        let semaphore = clients[task % clients.len()].permits("lock", MAX_COUNT);
        let room = &room;
        async move {
            let _permit = semaphore.lock().await.expect("in the end");
            room.visit(ms(30)).await;
        }
    });
    let in_time = timeout(Duration::from_secs(30), join_all(tasks)).await;
    assert_eq!(in_time.expect("in time").len(), 100);
    assert_eq!((room.visits(), room.inside(), room.most()), (100, 0, 10));
}
