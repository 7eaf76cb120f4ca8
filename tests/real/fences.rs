//! Remains of fencing tokens on servers.

use futures::stream::{self, StreamExt};
use redis::Value;

use crate::support::{Server, clock, connect, until};

const NAMES: i64 = 5_000;

async fn size(server: &Server) -> i64 {
    match server.command(&["DBSIZE"]).await {
        Value::Int(size) => size,
        other => panic!("not a number: {other:?}"),
    }
}

async fn memory(server: &Server) -> i64 {
    let Value::BulkString(info) = server.command(&["INFO", "memory"]).await else {
        panic!("not a text");
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory_dataset:"));
    used.expect("is told").parse().expect("a number")
}

/// Each name is locked once; then the masters' clocks are set three minutes ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_of_names_that_are_used_no_more() {
    let variables = clock::env().unwrap_or_else(|error| panic!("{error:#}"));
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = Server::start_with_env(&["--appendfsync", "no"], &variables).await;
        clock::set(&server, 0).expect("a clock");
        servers.push(server);
    }
    let masters = connect(servers.iter().map(Server::url)).await;
    masters
        .red_lock("the first")
        .lock()
        .await
        .expect("free")
        .unlock()
        .await
        .expect("held");
    let (sizes, before) = (size(&servers[0]).await, memory(&servers[0]).await);
    let fences = async || {
        let mut all = 0;
        for server in &servers {
            all += size(server).await - sizes;
        }
        all
    };
    let pairs = stream::iter(0..NAMES).map(async |n| {
        let guard = masters.red_lock(format!("order:{n}")).lock().await.expect("free");
        guard.unlock().await.expect("held");
    });
    pairs.buffer_unordered(64).collect::<Vec<()>>().await;
    // A master that is late is sent nothing for a while.
    until("a majority has a fence of each", async || {
        fences().await >= 2 * NAMES
    })
    .await;
    for server in &servers {
        clock::set(server, 3 * 60).expect("a clock");
    }
    for server in &servers {
        // The record, and nothing of any name.
        until("fences expire", async || size(server).await < sizes).await;
    }
    let grown = memory(&servers[0]).await - before;
    println!("{NAMES} names have left {grown} bytes");
    assert!(grown < 1_000_000, "{grown} bytes");
}
