//! Cost of a lock, counted by the masters: one script call each to take it, one each to give it up, and none in
//! between.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{
    Cluster, Server, all_executed, connect, heard_from_all, held_everywhere, patient, until, until_free,
};
use multilock::{Masters, Owner, Policy, Rounds, Unlocked};
use tokio::time::sleep;

type Counts = BTreeMap<String, u64>;

/// Commands run, without those of the test itself and of a container's health check.
async fn counts(server: &Server) -> Counts {
    let mut counts = server.commandstats().await;
    for own in ["info", "ping", "config|resetstat", "config", "client|kill"] {
        counts.remove(own);
    }
    counts
}

/// From here on everything counts.
async fn start_counting(cluster: &Cluster) {
    for server in cluster.servers() {
        server.reset_stats().await;
        assert_eq!(counts(server).await, Counts::new());
    }
}

/// On each master exactly this was run since; a command that a script runs counts, too.
async fn assert_counts(cluster: &Cluster, expected: &[(&str, u64)]) {
    let expected: Counts = expected
        .iter()
        .map(|(name, calls)| ((*name).to_owned(), *calls))
        .collect();
    for server in cluster.servers() {
        // The last answers may still be on their way; more than this must not come.
        until("all has arrived", async || {
            let counts = counts(server).await;
            expected
                .iter()
                .all(|(name, calls)| counts.get(name).is_some_and(|seen| seen >= calls))
        })
        .await;
        assert_eq!(counts(server).await, expected, "on {}", server.port());
    }
}

async fn five() -> (Cluster, Masters) {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    (cluster, masters)
}

/// Inside acquire: the server's clock, one look at the key, the mark and the queue, the field, its time to live.
const ACQUIRE: [(&str, u64); 5] = [
    ("evalsha", 1),
    ("time", 1),
    ("exists", 1),
    ("hset", 1),
    ("pexpire", 1),
];
/// Inside release: take the owner's field away, look whether anybody waits.
const BOTH: [(&str, u64); 6] = [
    ("evalsha", 2),
    ("time", 1),
    ("exists", 2),
    ("hset", 1),
    ("pexpire", 1),
    ("hdel", 1),
];

#[tokio::test]
async fn one_call_to_take_it_and_one_to_give_it_up() {
    let (cluster, masters) = five().await;
    for policy in [Policy::RedLock, Policy::MultiLock, Policy::AtLeast(4)] {
        start_counting(&cluster).await;
        let lock = masters.lock("a", policy).fenced(false);
        let guard = lock.try_lock().await.expect("free");
        assert_counts(&cluster, &ACQUIRE).await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        assert_counts(&cluster, &BOTH).await;
    }
    // As many for a waiter that need not wait, and for a guard that is dropped. The first `lock()` of a client also
    // begins to listen for calls.
    drop(masters.red_lock("b").lock().await.expect("free"));
    all_executed(&masters).await;
    start_counting(&cluster).await;
    let lock = masters.red_lock("a").fenced(false);
    drop(lock.lock().await.expect("free"));
    assert_counts(&cluster, &BOTH).await;
}

/// A fencing token travels with the grant: no call more when the masters agree, and without fencing
/// none of its commands either.
#[tokio::test]
async fn a_fencing_token_costs_no_call() {
    let (cluster, masters) = five().await;
    start_counting(&cluster).await;
    let guard = masters.red_lock("a").try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // Stored with the grant. A name without a fence is recognised by the look at all keys.
    let first = [BOTH.as_slice(), &[("set", 1)]].concat();
    assert_counts(&cluster, &first).await;
    start_counting(&cluster).await;
    let guard = masters.red_lock("a").try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let again = [BOTH.as_slice(), &[("get", 1), ("set", 1)]].concat();
    assert_counts(&cluster, &again).await;
}

/// A thrifty pair costs two of five masters nothing. A hold that lasts is taken on all masters, and released there.
#[tokio::test]
async fn a_thrifty_pair_asks_three_of_five() {
    let cluster = Cluster::start(5).await;
    let masters = patient(cluster.urls()).rounds(Rounds::Thrifty);
    let masters = masters.connect().await.expect("masters that can be used");
    start_counting(&cluster).await;
    let lock = masters.red_lock("a").fenced(false);
    let guard = lock.try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let mut asked = 0;
    for server in cluster.servers() {
        asked += usize::from(counts(server).await.contains_key("hset"));
    }
    assert!((3..=5).contains(&asked), "{asked}");
    let guard = lock.try_lock().await.expect("free");
    until("it is taken on the others", async || guard.votes().granted() == 5).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn several_names_cost_no_more_calls() {
    let (cluster, masters) = five().await;
    start_counting(&cluster).await;
    let guard = masters
        .multi_lock(["a", "b", "c"])
        .try_lock()
        .await
        .expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    for server in cluster.servers() {
        until("all has arrived", async || {
            counts(server).await.get("hdel") == Some(&3)
        })
        .await;
        assert_eq!(counts(server).await["evalsha"], 2);
    }
}

#[tokio::test]
async fn idling_costs_nothing() {
    let (cluster, masters) = five().await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // An unlock waits for a quorum, and the other releases are on their way.
    all_executed(&masters).await;
    start_counting(&cluster).await;
    sleep(Duration::from_secs(1)).await;
    assert_counts(&cluster, &[]).await;
    // A hold that is far from the end of its lease costs nothing either.
    let guard = held_everywhere(&masters.red_lock("a")).await;
    start_counting(&cluster).await;
    sleep(Duration::from_secs(1)).await;
    assert!(guard.is_valid());
    assert_counts(&cluster, &[]).await;
    drop(guard);
}

#[tokio::test]
async fn reentry_costs_nothing() {
    let (cluster, masters) = five().await;
    let me = Owner::new();
    let lock = masters.red_lock("a").owner(&me);
    let outer = held_everywhere(&lock).await;
    start_counting(&cluster).await;
    for _ in 0..10 {
        let inner = lock.try_lock().await.expect("entered");
        let shorter = lock
            .clone()
            .lease(Duration::from_secs(21))
            .lock()
            .await
            .expect("entered");
        assert_eq!(outer.hold_count(), 3);
        drop(shorter);
        assert_eq!(inner.unlock().await, Ok(Unlocked::StillHeld(1)));
    }
    assert_eq!((outer.is_valid(), outer.hold_count()), (true, 1));
    assert_counts(&cluster, &[]).await;
    // Half a second later still nothing.
    sleep(Duration::from_millis(500)).await;
    assert_counts(&cluster, &[]).await;
    assert_eq!(outer.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn refusals_and_extensions_cost_one_call() {
    let (cluster, masters) = five().await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    start_counting(&cluster).await;
    guard.extend(Duration::from_secs(30)).await.expect("held");
    heard_from_all(&guard).await;
    for server in cluster.servers() {
        until("it has arrived", async || {
            counts(server).await.contains_key("hset")
        })
        .await;
        let counts = counts(server).await;
        assert_eq!(counts["evalsha"], 1, "{counts:?}");
        assert!(!counts.contains_key("publish"), "{counts:?}");
    }
    start_counting(&cluster).await;
    masters.red_lock("a").try_lock().await.expect_err("held");
    // A client that was refused by all has nothing to take back. A master that was not waited for gets the rollback.
    for server in cluster.servers() {
        until("it has arrived", async || {
            counts(server).await.contains_key("evalsha")
        })
        .await;
        let counts = counts(server).await;
        assert!((1..=2).contains(&counts["evalsha"]), "{counts:?}");
        for never in ["hset", "pexpire", "del", "publish"] {
            assert!(!counts.contains_key(never), "{counts:?}");
        }
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}
