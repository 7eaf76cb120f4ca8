//! Very many holds on real servers: given up at once, they leave nothing behind, and no call for many of
//! them blocks a server for long.

use std::time::{Duration, Instant};

use crate::support::{PATIENT, Server, patient, three, until};
use futures::stream::{FuturesUnordered, StreamExt};
use multilock::{Closing, Masters, MultiLockGuard};
use redis::Value;
use tokio::time::sleep;

const HOLDS: usize = 20_000;
/// None of them has to survive anything.
const ARGS: &[&str] = &["--appendonly", "no"];
/// Longer than the tests take.
const LEASE: Duration = Duration::from_secs(600);
/// Long beside the time that giving up takes on a machine with other work, and short beside the lease.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(180);

async fn connect_leasing(servers: &[Server], lease: Duration) -> Masters {
    let builder = patient(servers.iter().map(Server::url)).node_timeout(PATIENT.min(lease / 3));
    builder
        .for_tests(LEASE)
        .lease(lease)
        .connect()
        .await
        .expect("masters that can be used")
}

/// Takes this number of holds, not fenced, so that every key is a lock.
async fn hold(masters: &Masters, holds: usize) -> Vec<MultiLockGuard> {
    let mut guards = Vec::with_capacity(holds);
    let mut under_way = FuturesUnordered::new();
    let mut names = 0..holds;
    while guards.len() < holds {
        for n in names.by_ref().take(64 - under_way.len()) {
            let lock = masters.red_lock(format!("name-{n}")).fenced(false);
            under_way.push(async move { lock.lock().await });
        }
        if let Some(guard) = under_way.next().await {
            guards.push(guard.expect("free"));
        }
    }
    guards
}

async fn keys(servers: &[Server]) -> Vec<i64> {
    let mut keys = Vec::new();
    for server in servers {
        match server.command(&["DBSIZE"]).await {
            Value::Int(count) => keys.push(count),
            other => panic!("{other:?}"),
        }
    }
    keys
}

/// But for the number of masters, and the label of the client, which lives.
async fn until_nothing_is_left(servers: &[Server]) {
    let begun = Instant::now();
    while keys(servers).await != [2, 2, 2] {
        assert!(
            begun.elapsed() < GIVEN_UP_WITHIN,
            "left: {:?}",
            keys(servers).await
        );
        sleep(Duration::from_millis(20)).await;
    }
    println!("nothing is left after {:?}", begun.elapsed());
}

/// The longest script of a server in µs, among the scripts of a millisecond or more.
async fn longest_script(server: &Server) -> i64 {
    let Value::Array(entries) = server.command(&["SLOWLOG", "GET", "1000"]).await else {
        panic!("a list");
    };
    let took = |entry: Value| match entry {
        Value::Array(parts) => match parts[2] {
            Value::Int(took) => took,
            _ => 0,
        },
        _ => 0,
    };
    entries.into_iter().map(took).max().unwrap_or(0)
}

async fn log_slow_scripts(servers: &[Server]) {
    for server in servers {
        server
            .command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"])
            .await;
        server.command(&["SLOWLOG", "RESET"]).await;
    }
}

fn holds() -> usize {
    let set = std::env::var("MASS_HOLDS").ok();
    set.and_then(|holds| holds.parse().ok()).unwrap_or(HOLDS)
}

/// On one thread, so that nothing is sent before all have been dropped.
#[tokio::test]
async fn guards_that_are_dropped_at_once_leave_nothing() {
    let servers = three(ARGS).await;
    let masters = connect_leasing(&servers, LEASE).await;
    let guards = hold(&masters, holds()).await;
    sleep(Duration::from_millis(500)).await;
    log_slow_scripts(&servers).await;
    drop(guards);
    until_nothing_is_left(&servers).await;
    println!("longest script: {} µs", longest_script(&servers[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_leaves_nothing() {
    let servers = three(ARGS).await;
    let masters = connect_leasing(&servers, LEASE).await;
    let _guards = hold(&masters, holds()).await;
    sleep(Duration::from_millis(500)).await;
    log_slow_scripts(&servers).await;
    let begun = Instant::now();
    let closed = masters.close(Closing::Release).await;
    println!("closed in {:?}: {closed:?}", begun.elapsed());
    assert_eq!((closed.released, closed.unconfirmed), (holds() as u64, 0));
    assert_eq!(closed.left, []);
    // The number of masters alone.
    assert_eq!(keys(&servers).await, [1, 1, 1]);
    println!("longest script: {} µs", longest_script(&servers[0]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_on_many_names_are_renewed_a_few_at_a_time() {
    let servers = three(ARGS).await;
    let masters = connect_leasing(&servers, Duration::from_secs(12)).await;
    let (holds, names) = (192, 64);
    let mut guards = Vec::new();
    for hold in 0..holds {
        let names: Vec<String> = (0..names).map(|n| format!("hold-{hold}-name-{n}")).collect();
        guards.push(masters.red_lock(names).lock().await.expect("free"));
    }
    log_slow_scripts(&servers).await;
    servers[0].reset_stats().await;
    let stats = async || servers[0].commandstats().await;
    until("each name is renewed twice", async || {
        stats()
            .await
            .get("pexpire")
            .is_some_and(|calls| *calls >= 2 * holds * names)
    })
    .await;
    println!("longest script: {} µs", longest_script(&servers[0]).await);
    // How long one of them takes depends on the machine: one hold in a call.
    let stats = stats().await;
    let (calls, renewed) = (stats["evalsha"], stats["pexpire"]);
    assert!(calls * names >= renewed, "{calls} calls for {renewed} names");
    assert!(guards.iter().all(MultiLockGuard::is_valid));
}
