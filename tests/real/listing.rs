//! A long list of locks on real servers.

use std::time::{Duration, Instant};

use crate::support::{Server, patient, start};
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use redis::Value;

const LOCKS: usize = 10_000;
/// Longer than the test takes, so that nothing is renewed beside it.
const LEASE: Duration = Duration::from_secs(600);

/// Durations of the script calls of a server that took longer than a tenth of a millisecond, in microseconds.
async fn durations_of_calls(server: &Server) -> Vec<i64> {
    let Value::Array(entries) = server.command(&["SLOWLOG", "GET", "-1"]).await else {
        panic!("a list");
    };
    let mut durations = Vec::new();
    for entry in entries {
        let Value::Array(parts) = entry else {
            panic!("an entry")
        };
        let (Value::Int(us), Value::Array(words)) = (&parts[2], &parts[3]) else {
            panic!("a duration and a command");
        };
        if matches!(&words[0], Value::BulkString(word) if word.eq_ignore_ascii_case(b"evalsha")) {
            durations.push(*us);
        }
    }
    durations
}

/// Ten thousand locks beside as many other keys are all there, by calls for a part of them each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_locks_are_listed() {
    let servers = start(5, &["--appendonly", "no", "--slowlog-max-len", "4096"]).await;
    let builder = patient(servers.iter().map(Server::url));
    let masters = builder
        .for_tests(LEASE)
        .lease(LEASE)
        .connect()
        .await
        .expect("connects");
    for server in &servers {
        let fill = "for n = 1, ARGV[1] do redis.call('hset', 'user:' .. n, 'name', 'Ada') end";
        server.command(&["EVAL", fill, "0", &LOCKS.to_string()]).await;
    }
    let locking = stream::iter(0..LOCKS).map(|n| {
        let lock = masters.red_lock(format!("name-{n}"));
        async move { lock.lock().await }
    });
    let guards: Vec<_> = locking.buffer_unordered(64).try_collect().await.expect("free");
    for server in &servers {
        server
            .command(&["CONFIG", "SET", "slowlog-log-slower-than", "100"])
            .await;
        server.reset_stats().await;
    }
    let begun = Instant::now();
    let listed: Vec<_> = masters.held("name-*").try_collect().await.expect("all tell");
    let took = begun.elapsed();
    assert_eq!(listed.len(), LOCKS);
    assert!(
        listed
            .iter()
            .all(|lock| lock.agreed.is_some() && lock.fence.is_some())
    );
    let mut calls = Vec::new();
    for server in &servers {
        calls.extend(durations_of_calls(server).await);
        let ran = server.commandstats().await;
        let count = |command: &str| ran.get(command).copied().unwrap_or_default();
        // A part is about 400 keys. There are three keys for each lock: its own, its fence and a user.
        assert!(count("scan") >= 3 * LOCKS as u64 / 400, "{ran:?}");
        assert!(count("evalsha") >= count("scan"), "a part in a call: {ran:?}");
    }
    let (longest, count) = (calls.iter().max().expect("some"), calls.len());
    println!(
        "list: locks={LOCKS} took_ms={} slower_than_100_us={count} longest_us={longest}",
        took.as_millis()
    );
    drop(guards);
}
