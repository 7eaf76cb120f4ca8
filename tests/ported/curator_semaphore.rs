//! Cases of Curator's `TestInterProcessSemaphore` (github.com/apache/curator, `curator-recipes/src/test/java/org/apache/curator/framework/recipes/locks/TestInterProcessSemaphore.java`).

use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use multilock::sim::{Cluster, Keep, Master};
use multilock::{Closing, LockError, Masters, NodeState};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use crate::memory::{connect, connect_leasing, ms, queues, settle};
use crate::steps::{Room, clients, is_timed_out, wait_in_vain, waiting};

const WAITING: Duration = Duration::from_secs(10);

/// `testAcquireAfterLostServer`: ten tasks take the only permit in turns. They go on after an outage of all masters.
#[tokio::test(start_paused = true)]
async fn test_acquire_after_lost_server() {
    let cluster = Cluster::new(3);
    let (acquired, mut counted) = mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    let room = std::sync::Arc::new(Room::default());
    for _ in 0..10 {
        let masters = connect_leasing(&cluster, ms(2000)).await;
        let (acquired, room) = (acquired.clone(), room.clone());
        tasks.spawn(async move {
            loop {
                let _ = masters
                    .permits("/test", 1)
                    .run(async |_| {
                        let _ = acquired.send(());
                        room.visit(ms(100)).await;
                    })
                    .await;
            }
        });
    }
    sleep(ms(1000)).await;
    cluster.iter().for_each(Master::crash);
    sleep(ms(5000)).await;
    while counted.try_recv().is_ok() {}
    cluster.iter().for_each(|master| master.restart(Keep::Data));
    for _ in 0..10 {
        timeout(WAITING, counted.recv()).await.expect("it goes on");
    }
    assert_eq!(room.most(), 1);
}

/// `testThreadedLeaseIncrease`: the number of permits is raised while somebody waits. Here all clients have to agree on
/// it, so a larger one is refused until nobody has a permit.
#[tokio::test(start_paused = true)]
async fn test_threaded_lease_increase() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let first = here.permits("/test", 1).lock().await.expect("free");
    let second = waiting(here.permits("/test", 1));
    settle().await;
    let raised = there.permits("/test", 2).lock().await;
    assert!(
        matches!(raised, Err(LockError::Misconfigured { .. })),
        "{raised:?}"
    );
    assert!(!second.is_finished());
    drop(first);
    drop(second.await.expect("no panic").expect("free"));
    sleep(ms(60_000)).await;
    let raised = there.permits("/test", 2);
    let both = (raised.lock().await, raised.lock().await);
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
}

/// `testClientClose`: a client that is closed releases its permits.
#[tokio::test(start_paused = true)]
async fn test_client_close() {
    let cluster = Cluster::new(3);
    let (one, two) = (connect(&cluster).await, connect(&cluster).await);
    let other = two.permits("/test", 1).wait(WAITING);
    drop(other.lock().await.expect("free"));
    let held = one.permits("/test", 1).wait(WAITING).lock().await.expect("free");
    assert!(is_timed_out(&wait_in_vain(other.clone().wait(ms(100))).await));
    let closed = one.close(Closing::Release).await;
    assert_eq!((closed.released, closed.unconfirmed), (1, 0));
    assert!(!held.is_valid());
    other
        .try_lock()
        .await
        .expect("free at once")
        .unlock()
        .await
        .expect("held");
}

/// Takes some permits at a time, as many as are `available`, twenty times.
async fn take_several(
    masters: Masters,
    max: u32,
    seed: u64,
    available: &Semaphore,
    room: &Mutex<(u32, u32)>,
) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..20 {
        let quantity =
            random.random_range(1..=u32::try_from(available.available_permits()).expect("few").max(1));
        let reserved = available.acquire_many(quantity).await.expect("open");
        let semaphore = masters.permits("/test", max).wait(WAITING);
        let permits = join_all((0..quantity).map(|_| semaphore.lock())).await;
        let permits: Vec<_> = permits
            .into_iter()
            .map(|permit| permit.expect("in time"))
            .collect();
        {
            let mut room = room.lock().expect("not poisoned");
            room.0 += quantity;
            room.1 = room.1.max(room.0);
        }
        sleep(ms(random.random_range(0..25))).await;
        assert!(permits.iter().all(multilock::MultiLockGuard::is_valid));
        room.lock().expect("not poisoned").0 -= quantity;
        for permit in permits {
            permit.unlock().await.expect("held");
        }
        drop(reserved);
    }
}

/// `testMaxPerSession`: ten clients take several permits at a time. Never more are held than there are.
#[tokio::test(start_paused = true)]
async fn test_max_per_session() {
    const MAX: u32 = 40;
    let cluster = Cluster::new(3);
    let available = Semaphore::new(MAX as usize);
    let room = Mutex::new((0, 0));
    let clients = clients(&cluster, 10).await;
    let tasks = clients
        .into_iter()
        .zip(1..)
        .map(|(masters, seed)| take_several(masters, MAX, seed, &available, &room));
    join_all(tasks).await;
    let (inside, most) = room.into_inner().expect("not poisoned");
    assert_eq!(inside, 0);
    assert!((2..=MAX).contains(&most), "{most}");
}

/// `testRelease1AtATime`: ten clients and five permits. Everybody gets one, and all are in use.
#[tokio::test(start_paused = true)]
async fn test_release_1_at_a_time() {
    let cluster = Cluster::new(3);
    let (clients, room) = (clients(&cluster, 10).await, Room::default());
    let tasks = clients.iter().map(|masters| {
        let semaphore = masters.permits("/test", 5).wait(WAITING);
        let room = &room;
        async move {
            let permit = semaphore.lock().await.expect("in time");
            room.visit(ms(1000)).await;
            permit.unlock().await.expect("held");
        }
    });
    join_all(tasks).await;
    assert_eq!((room.visits(), room.most()), (10, 5));
}

/// `testReleaseInChunks`: a hundred tasks, eleven permits, which are given back some at a time.
#[tokio::test(start_paused = true)]
async fn test_release_in_chunks() {
    const TASKS: usize = 100;
    let cluster = Cluster::new(3);
    let (clients, room) = (clients(&cluster, 4).await, Room::default());
    let (step, mut random) = (Semaphore::new(0), StdRng::seed_from_u64(11));
    let tasks = (0..TASKS).map(|task| {
        let semaphore = clients[task % clients.len()]
            .permits("/test", 11)
            .wait(ms(60_000));
        let (room, step) = (&room, &step);
        async move {
            let permit = semaphore.lock().await.expect("in time");
            room.visit(ms(1)).await;
            step.acquire().await.expect("open").forget();
            assert!(permit.is_valid());
            permit.unlock().await.expect("held")
        }
    });
    let steps = async {
        let mut remaining = TASKS;
        while remaining > 0 {
            let times = random.random_range(1..=5).min(remaining);
            step.add_permits(times);
            remaining -= times;
            sleep(ms(random.random_range(1..=100))).await;
        }
    };
    tokio::join!(join_all(tasks), steps);
    assert_eq!((room.visits(), room.inside()), (TASKS, 0));
    assert!((1..=11).contains(&room.most()), "{}", room.most());
}

/// `testThreads`: ten tasks take the only permit in turns, within 10 s.
#[tokio::test(start_paused = true)]
async fn test_threads() {
    let masters = connect(&Cluster::new(3)).await;
    let (semaphore, room) = (masters.permits("/test", 1), Room::default());
    let tasks = (0..10).map(|_| async {
        let permit = semaphore.lock().await.expect("in the end");
        room.visit(ms(1)).await;
        drop(permit);
    });
    timeout(WAITING, join_all(tasks)).await.expect("in time");
    assert_eq!((room.visits(), room.most()), (10, 1));
}

/// `testSimple`: the only permit is not given twice.
#[tokio::test(start_paused = true)]
async fn test_simple() {
    let masters = connect(&Cluster::new(3)).await;
    let semaphore = masters.permits("/test", 1).wait(WAITING);
    let _held = semaphore.lock().await.expect("free");
    let second = wait_in_vain(semaphore).await;
    assert!(is_timed_out(&second), "{second:?}");
}

/// `testSimple2`: of three permits the fourth is granted once one is given back.
#[tokio::test(start_paused = true)]
async fn test_simple_2() {
    let masters = connect(&Cluster::new(3)).await;
    let semaphore = || masters.permits("/test", 3).wait(WAITING);
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(semaphore().lock().await.expect("free"));
    }
    assert!(is_timed_out(&wait_in_vain(semaphore()).await));
    let seat = permits[0].seat();
    permits.remove(0).unlock().await.expect("held");
    assert_eq!(semaphore().lock().await.expect("one is free").seat(), seat);
}

/// `testGetParticipantNodes`: each permit that is held is shown, with its holder.
#[tokio::test(start_paused = true)]
async fn test_get_participant_nodes() {
    let masters = connect(&Cluster::new(3)).await;
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(masters.permits("/test", 3).lock().await.expect("free"));
    }
    for permit in &permits {
        let seat = masters.red_lock(format!("/test:seat:{}", permit.seat()));
        let seen = seat.inspect().await.expect("all answer").remove(0);
        assert_eq!(seen.agreed, Some(permit.holder()));
        let is_held = |(_, state): &(_, NodeState)| matches!(state, NodeState::Held { .. });
        assert_eq!(seen.nodes.iter().filter(|node| is_held(node)).count(), 3);
    }
}

/// `testNoOrphanedNodes`: the entry of a waiter is deleted. It gets the permit all the same, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn test_no_orphaned_nodes() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let held = here.permits("/test", 1).lock().await.expect("free");
    let waits = waiting(there.permits("/test", 1).wait(2 * WAITING));
    settle().await;
    assert!(queues(&cluster) > 0);
    for master in cluster.iter() {
        for key in master.keys() {
            let is_entry = key.starts_with("multilock_queue:") || key.starts_with("multilock_deadlines:");
            assert!(!is_entry || master.evict(&key));
        }
    }
    held.unlock().await.expect("held");
    let permit = waits.await.expect("no panic").expect("in time");
    permit.unlock().await.expect("held");
    settle().await;
    let left: Vec<_> = cluster.iter().flat_map(Master::locks).collect();
    assert!(left.is_empty(), "{left:?}");
    drop(here.permits("/test", 1).try_lock().await.expect("free"));
}

/// `testInterruptAcquire`: a waiter that is cancelled leaves nothing behind, and is passed over.
#[tokio::test(start_paused = true)]
async fn test_interrupt_acquire() {
    let cluster = Cluster::new(3);
    let clients = clients(&cluster, 3).await;
    let first = clients[0].permits("/test", 1).lock().await.expect("free");
    let second = waiting(clients[1].permits("/test", 1));
    settle().await;
    assert!(queues(&cluster) > 0 && !second.is_finished());
    second.abort();
    settle().await;
    assert_eq!(queues(&cluster), 0);
    first.unlock().await.expect("held");
    drop(
        clients[2]
            .permits("/test", 1)
            .try_lock()
            .await
            .expect("free at once"),
    );
}
