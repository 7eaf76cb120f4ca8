//! Permits on real servers: never too many holders, also while masters are killed, and users that may not do everything.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use multilock::{LockError, Masters, Policy, Quarantine, UnlockError};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Cluster, all_executed, called_before, connect, patient, within};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn client(cluster: &Cluster) -> Masters {
    let builder = Masters::builder().nodes(cluster.urls());
    let connecting = builder.quarantine(Quarantine::Off).lease(ms(2000)).connect();
    connecting.await.expect("connects")
}

/// Sixteen tasks of four clients share three permits, while one master after the other is stopped for longer than a call
/// waits. Nobody has the seat of another, and everybody gets one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_seat_is_held_twice_while_masters_stop() {
    const PERMITS: u32 = 3;
    let cluster = Cluster::start(3).await;
    let clients = join_all((0..4).map(|_| client(&cluster))).await;
    let (held, most, grants) = (Mutex::new(BTreeSet::new()), AtomicU32::new(0), AtomicU32::new(0));
    let working = |masters: Masters| {
        let (held, most, grants) = (&held, &most, &grants);
        async move {
            for _ in 0..12 {
                let permit = masters.permits("gpu", PERMITS).lock().await.expect("a seat");
                let inside = {
                    let mut held = held.lock().expect("not poisoned");
                    assert!(held.insert(permit.seat()), "seat {} is held twice", permit.seat());
                    u32::try_from(held.len()).expect("few")
                };
                most.fetch_max(inside, Ordering::Relaxed);
                sleep(ms(5)).await;
                permit.ensure_valid().expect("it is renewed");
                held.lock().expect("not poisoned").remove(&permit.seat());
                // Where one master is stopped and another late, its release goes on in the background.
                match permit.unlock().await {
                    Ok(_) | Err(UnlockError::Unconfirmed { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                grants.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let stopping = async {
        for server in cluster.servers().iter().cycle().take(6) {
            server.freeze().await;
            sleep(ms(150)).await;
            server.thaw().await;
            sleep(ms(100)).await;
        }
    };
    let tasks = (0..16).map(|task| working(clients[task % 4].clone()));
    let all = futures::future::join(join_all(tasks), stopping);
    timeout(ms(60_000), all).await.expect("in time");
    assert_eq!(grants.load(Ordering::Relaxed), 16 * 12);
    assert_eq!(most.load(Ordering::Relaxed), PERMITS, "all of them are in use");
}

/// A process that is gone keeps its seats until its leases end, and waiters come in then, under either policy.
#[tokio::test]
async fn seats_of_a_process_that_is_gone_are_free_after_the_lease() {
    let cluster = Cluster::start(3).await;
    // As long a deadline as two fit into the lease.
    let builder = patient(cluster.urls()).node_timeout(ms(900)).lease(ms(2000));
    let gone = builder.connect().await.expect("connects");
    let one = connect(cluster.urls()).await;
    // A waiter asks again by itself after five seconds.
    called_before(ms(5000), async || {
        let begun = Instant::now();
        for _ in 0..2 {
            let permit = Box::pin(gone.permits("port", 2).lock()).await;
            permit.expect("a seat").leak();
        }
        let (any, all) = (
            one.permits("port", 2),
            one.permits("port", 2).policy(Policy::MultiLock),
        );
        let both = futures::future::join(Box::pin(any.lock()), Box::pin(all.lock()));
        let (first, second) = within("both get a seat", both).await;
        let took = begun.elapsed();
        // Neither lease began before this clock was read.
        assert!(took > ms(1900), "{took:?}");
        let (first, second) = (first.expect("a seat"), second.expect("a seat"));
        assert_eq!(
            BTreeSet::from([first.seat(), second.seat()]),
            BTreeSet::from([1, 2])
        );
        took
    })
    .await;
}

/// After the last one only the number stays on a master, and ends by itself. Every master grants, also one that is connected a
/// moment after the others.
#[tokio::test]
async fn the_number_alone_is_left_once_nobody_has_a_permit() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let permit = masters
        .permits("{gpu}:1", 2)
        .policy(Policy::MultiLock)
        .fenced(false)
        .lock()
        .await
        .expect("a seat");
    let other = masters.permits("{gpu}:1", 3).lock().await;
    let Err(LockError::Misconfigured { votes }) = &other else {
        panic!("{other:?}")
    };
    assert!(votes.to_string().contains("{gpu}:1 has 2 permits"), "{votes}");
    permit.unlock().await.expect("released");
    all_executed(&masters).await;
    for server in cluster.servers() {
        let of_permits = |key: &String| key.contains("gpu");
        let left: Vec<String> = server.keys().await.into_iter().filter(of_permits).collect();
        assert_eq!(left, ["multilock_permits::{gpu}:1:seat"], "on {}", server.url());
        let ends_in = server.pttl(&left[0]).await;
        assert!((0..=30_000).contains(&ends_in), "{ends_in}");
    }
}
