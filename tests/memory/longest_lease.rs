//! The longest lease of any client, and the record by which masters hold all clients to it. A client that asks for
//! more, or for a part of a millisecond, or spoils the record costs the others nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use multilock::sim::{Cluster, Keep, Master};
use multilock::{ConnectError, ExtendError, LockError, Masters, MastersBuilder, Unfit};
use tokio::time::{Instant, sleep};

use crate::support::{connect_by_default, ms, settle, slow_down};

const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const SET: &str = "multilock_set";

/// A cluster with messages that take time, so that the clock shows each question to a master.
fn cluster() -> Cluster {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 1);
    cluster
}

/// Scripts that each master has run.
fn executed(cluster: &Cluster) -> Vec<BTreeMap<&'static str, u64>> {
    cluster.iter().map(Master::executed).collect()
}

fn records(cluster: &Cluster) -> Vec<Vec<String>> {
    let get = |master: &Master| master.command(&["GET", SET]).expect("a string");
    cluster.iter().map(get).collect()
}

/// Masters that have run for two minutes, a hold that is renewed, and a client of another service that wants more than there is.
#[tokio::test(start_paused = true)]
async fn who_asks_for_more_ends_nobodys_hold() {
    let cluster = cluster();
    for master in cluster.iter() {
        master.crash();
        master.restart(Keep::Data);
    }
    let holder = connect_by_default(&cluster).await;
    sleep(Duration::from_secs(120)).await;
    let held = holder.red_lock("a").lock().await.expect("free");
    let other = cluster.connect(Masters::builder().namespace("other")).await;
    let other = other.expect("connects");
    settle().await;
    let (begun, before) = (Instant::now(), executed(&cluster));
    for more in [Duration::from_millis(30_001), HOUR, YEAR] {
        let connected = cluster.connect(Masters::builder().namespace("other").lease(more));
        let connected = connected.await;
        assert!(
            matches!(connected, Err(ConnectError::Invalid(_))),
            "{connected:?}"
        );
        for lock in [
            other.red_lock("b").lease(more),
            other.red_lock("b").at_least(more),
        ] {
            let refused = lock.lock().await;
            assert!(matches!(refused, Err(LockError::Invalid(_))), "{refused:?}");
        }
        let extended = held.extend(more).await;
        assert!(matches!(extended, Err(ExtendError::Invalid(_))), "{extended:?}");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "no master was waited for");
    settle().await;
    assert_eq!(executed(&cluster), before, "no master was asked");
    let told = records(&cluster);
    let for_tests = Masters::builder().namespace("other").for_tests(HOUR);
    let refused = cluster.connect(for_tests).await;
    let Err(ConnectError::Unfit {
        reason: Unfit::OtherSet { .. },
        ..
    }) = refused
    else {
        panic!("{refused:?}");
    };
    sleep(ms(500)).await;
    assert_eq!(records(&cluster), told, "it stores nothing");
    for _ in 0..120 {
        let guard = holder.red_lock("c").try_lock().await.expect("free");
        guard.unlock().await.expect("held");
        sleep(ms(1000)).await;
        assert!(held.is_valid(), "it is renewed");
    }
    held.unlock().await.expect("held");
}

/// Scripts that the masters run while two clients do nothing for ten minutes, and then lock once each.
async fn idle(builder: impl Fn() -> MastersBuilder) -> Vec<BTreeMap<&'static str, u64>> {
    let cluster = cluster();
    cluster.iter().for_each(Master::flush_all);
    let first = cluster.connect(builder()).await.expect("connects");
    let second = cluster.connect(builder()).await.expect("connects");
    sleep(Duration::from_secs(600)).await;
    for masters in [first, second] {
        let guard = masters.red_lock("a").lock().await.expect("free");
        assert!(guard.is_valid());
        guard.unlock().await.expect("held");
    }
    settle().await;
    executed(&cluster)
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_millisecond_costs_no_call() {
    let whole = Duration::from_secs(20);
    for part in [Duration::from_micros(500), Duration::from_nanos(1)] {
        let lease = |lease| move || Masters::builder().lease(lease);
        assert_eq!(idle(lease(whole + part)).await, idle(lease(whole)).await);
        let for_tests = |longest| move || Masters::builder().for_tests(longest).lease(longest);
        assert_eq!(idle(for_tests(whole + part)).await, idle(for_tests(whole)).await);
    }
}

/// Somebody has put another key where the record was.
fn spoil(master: &Master) {
    master.command(&["DEL", SET]).expect("deleted");
    master.command(&["ZADD", SET, "1", "a"]).expect("added");
}

fn all_have_records(cluster: &Cluster) -> bool {
    records(cluster).iter().all(|record| record[0].starts_with("3 "))
}

/// A record of another type is no record: it is made again, and the master's memory counts from then on.
#[tokio::test(start_paused = true)]
async fn a_record_of_another_type_is_made_anew() {
    for strict in [false, true] {
        let cluster = cluster();
        cluster.iter().take(2).for_each(spoil);
        let masters = cluster.connect(Masters::builder().strict(strict)).await;
        let masters = masters.expect("connects");
        let refused = masters.red_lock("a").try_lock().await;
        assert!(
            matches!(refused, Err(LockError::Unreachable { .. })),
            "{refused:?}"
        );
        assert!(all_have_records(&cluster));
        let again = masters.red_lock("a").wait(ms(40_000)).lock().await;
        again.expect("after the quarantine").unlock().await.expect("held");
    }
}

/// A client that is connected does not look at it without `strict`, and takes it with `strict` for a wiped memory.
#[tokio::test(start_paused = true)]
async fn a_record_that_is_spoilt_later_is_a_wiped_memory() {
    for strict in [false, true] {
        let cluster = cluster();
        let masters = cluster.connect(Masters::builder().strict(strict)).await;
        let masters = masters.expect("connects");
        let held = masters.red_lock("held").lock().await.expect("free");
        settle().await;
        spoil(cluster.master(0));
        for _ in 0..120 {
            let guard = masters.red_lock("a").try_lock().await.expect("free");
            guard.unlock().await.expect("held");
            sleep(ms(500)).await;
        }
        let voting = masters.status().voting();
        assert_eq!((voting, held.is_valid()), (3, true), "{strict}");
        held.unlock().await.expect("held");
        if strict {
            assert!(all_have_records(&cluster));
        }
    }
}
