//! The stand-in of `RReadWriteLock` by itself: row by row, the effects of the original on a server.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::support::foreign::Lock;
use crate::support::foreign::read_write::Client;
use crate::support::{Server, WITHIN, until};

const WATCHDOG_MS: i64 = 30_000;
/// Time that may pass between a command and a look, on a busy machine.
const PASSED_MS: i64 = 8_000;

async fn start() -> (Server, Client) {
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let client = Client::connect(server.url()).await;
    (server, client)
}

async fn fields(server: &Server) -> Vec<(String, String)> {
    server.hgetall("a").await.into_iter().collect()
}

fn pair(field: &str, value: &str) -> (String, String) {
    (field.into(), value.into())
}

/// About that long: only time has passed.
#[track_caller]
fn assert_about(left: i64, ms: i64) {
    assert!((ms - PASSED_MS..=ms).contains(&left), "{left} of {ms}");
}

async fn listeners(server: &Server) -> usize {
    let answer = server.command(&["PUBSUB", "NUMSUB", "redisson_rwlock:{a}"]).await;
    let (_, count): (String, usize) = redis::from_redis_value(answer).expect("a channel and its listeners");
    count
}

#[tokio::test]
async fn a_reader_is_a_count_with_a_key_for_each_entry() {
    let (server, client) = start().await;
    let read = client.read("a");
    let first = read.lock(None).await.expect("free");
    let short = read.clone().leasing(Duration::from_secs(10));
    let second = short.lock(None).await.expect("its own");
    assert_eq!(
        fields(&server).await,
        [pair(&read.field(), "2"), pair("mode", "read")]
    );
    let timeout_of = |entry| format!("{{a}}:{}:rwlock_timeout:{entry}", read.field());
    assert_about(server.pttl(&timeout_of(1)).await, WATCHDOG_MS);
    assert_about(server.pttl(&timeout_of(2)).await, 10_000);
    assert_about(server.pttl("a").await, WATCHDOG_MS);
    let other = client.read("a").leasing(Duration::from_secs(60));
    let third = other.lock(Some(Duration::ZERO)).await.expect("only read");
    assert!(server.pttl("a").await > WATCHDOG_MS, "raised");
    assert!(client.write("a").lock(Some(Duration::ZERO)).await.is_none());
    assert!(other.unlock(third).await, "held");
    assert_about(server.pttl("a").await, WATCHDOG_MS);
    assert!(short.unlock(second).await, "held twice");
    assert!(!server.exists(&timeout_of(2)).await);
    assert!(read.unlock(first).await, "held once");
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_writer_is_a_count_whose_leases_add_up() {
    let (server, client) = start().await;
    let write = client.write("a");
    let first = write.lock(None).await.expect("free");
    let second = write.lock(None).await.expect("its own");
    assert!(write.field().ends_with(":write"));
    assert_eq!(
        fields(&server).await,
        [pair(&write.field(), "2"), pair("mode", "write")]
    );
    assert_about(server.pttl("a").await, 2 * WATCHDOG_MS);
    for other in [client.read("a"), client.write("a")] {
        assert!(other.lock(Some(Duration::ZERO)).await.is_none());
    }
    assert!(write.renew().await);
    assert_about(server.pttl("a").await, WATCHDOG_MS);
    assert!(write.unlock(second).await, "held twice");
    assert!(write.unlock(first).await, "held once");
    assert_eq!(server.keys().await, Vec::<String>::new());
    assert!(!write.renew().await);
}

/// A writer may read its own name, and goes on reading. No message tells of that.
#[tokio::test]
async fn a_writer_that_reads_leaves_a_reader() {
    let (server, client) = start().await;
    let (read, write) = client.lock("a");
    let (writing, reading) = (
        write.lock(None).await.expect("free"),
        read.lock(None).await.expect("its own"),
    );
    let other = client.read("a");
    assert!(other.lock(Some(Duration::ZERO)).await.is_none(), "written");
    assert!(write.unlock(writing).await, "held");
    assert_eq!(
        fields(&server).await,
        [pair(&read.field(), "1"), pair("mode", "read")]
    );
    let beside = other.lock(Some(Duration::ZERO)).await.expect("only read");
    assert!(read.unlock(reading).await && other.unlock(beside).await);
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_renewal_sets_what_is_left() {
    let (server, client) = start().await;
    let long = client.read("a").leasing(Duration::from_secs(90));
    long.lock(None).await.expect("free");
    let read = client.read("a");
    read.lock(None).await.expect("only read");
    assert_about(server.pttl("a").await, 90_000);
    assert!(read.renew().await);
    assert_about(server.pttl("a").await, WATCHDOG_MS);
}

#[tokio::test]
async fn messages_wake_those_who_wait() {
    let (server, client) = start().await;
    let write = client.write("a");
    let held = write.lock(None).await.expect("free");
    let spawn = |lock: crate::support::foreign::read_write::Half| {
        tokio::spawn(async move {
            let held = lock.lock(None).await.expect("in the end");
            sleep(Duration::from_millis(50)).await;
            assert!(lock.unlock(held).await, "held");
        })
    };
    let readers = [spawn(client.read("a")), spawn(client.read("a"))];
    until("they listen", async || listeners(&server).await == 1).await;
    assert!(write.unlock(held).await, "held");
    for reader in readers {
        timeout(WITHIN, reader).await.expect("woken").expect("no panic");
    }
    let read = client.read("a");
    let held = read.lock(None).await.expect("free");
    let writer = spawn(client.write("a"));
    until("it listens", async || listeners(&server).await == 1).await;
    assert!(read.unlock(held).await, "held");
    timeout(WITHIN, writer).await.expect("woken").expect("no panic");
    until("nobody listens", async || listeners(&server).await == 0).await;
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn each_is_forced_by_its_own_lock() {
    let (server, client) = start().await;
    let (read, write) = client.lock("a");
    read.lock(None).await.expect("free");
    assert!(!write.force().await && read.force().await);
    assert!(!server.exists("a").await);
    write.lock(None).await.expect("free");
    assert!(!read.force().await && write.force().await);
    assert!(!server.exists("a").await);
}
