//! Servers that cannot write, and keys of others under the names of a read/write lock.

use std::time::Duration;

use multilock::{LockError, UnlockError, Unlocked, Vote};
use redis::Value;

use super::{reading, until_clean, writing};
use crate::support::{Cluster, Server, all_executed, connect, heard_from_all, until, until_free};

async fn limit_memory(cluster: &Cluster, bytes: &str) {
    for server in cluster.servers() {
        server.command(&["CONFIG", "SET", "maxmemory", bytes]).await;
    }
}

#[track_caller]
fn assert_oom(error: &LockError) {
    assert!(matches!(error, LockError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
}

/// Readers that are in stay in and leave. A reader that would be the first gets the reason of its refusal.
#[tokio::test]
async fn readers_come_and_leave_out_of_memory() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let guard = reading(&masters).lock().await.expect("only read");
        heard_from_all(&guard).await;
        readers.push(guard);
    }
    limit_memory(&cluster, "1").await;
    assert!(matches!(
        writing(&masters).try_lock().await,
        Err(LockError::Contended { .. })
    ));
    // One more reader beside them takes a few bytes: it is granted, or refused with the reason.
    if let Err(error) = reading(&masters).try_lock().await {
        assert_oom(&error);
    }
    let last = readers.pop().expect("three");
    last.extend(Duration::from_secs(30)).await.expect("held");
    for reader in readers {
        assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
        last.extend(Duration::from_secs(30)).await.expect("held");
    }
    assert_eq!(last.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;
    assert_oom(
        &reading(&masters)
            .try_lock()
            .await
            .expect_err("nothing can be written"),
    );
    assert_oom(
        &writing(&masters)
            .try_lock()
            .await
            .expect_err("nothing can be written"),
    );
    all_executed_again(&cluster).await;
    limit_memory(&cluster, "0").await;
    let reader = reading(&masters).lock().await.expect("free");
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;
}

/// Refused calls have written nothing.
async fn all_executed_again(cluster: &Cluster) {
    for server in cluster.servers() {
        until("nothing was written", async || server.keys().await.is_empty()).await;
    }
}

/// A writer's downgrade and its readers' renewals need no more memory than it had.
#[tokio::test]
async fn a_writer_is_downgraded_out_of_memory() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let writer = writing(&masters).lock().await.expect("free");
    heard_from_all(&writer).await;
    limit_memory(&cluster, "1").await;
    writer.extend(Duration::from_secs(30)).await.expect("held");
    let reader = writer.downgrade().await;
    for server in cluster.servers() {
        until("it reads", async || {
            server.hgetall("a").await.contains_key("multilock")
        })
        .await;
    }
    reader.extend(Duration::from_secs(30)).await.expect("held");
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;
    limit_memory(&cluster, "0").await;
}

/// A renewal writes nothing new, also where the key lasts for longer than its lease because of somebody else.
#[tokio::test]
async fn a_reader_beside_a_longer_one_is_renewed_out_of_memory() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let long = reading(&masters)
        .lease(Duration::from_secs(30))
        .lock()
        .await
        .expect("free");
    let short = reading(&masters).lease(Duration::from_secs(21)).lock().await;
    let short = short.expect("only read");
    heard_from_all(&long).await;
    heard_from_all(&short).await;
    limit_memory(&cluster, "1").await;
    short.extend(Duration::from_secs(21)).await.expect("held");
    heard_from_all(&short).await;
    assert!(
        short.votes().iter().all(|node| node.vote == Vote::Granted),
        "{}",
        short.votes()
    );
    assert_eq!(long.unlock().await, Ok(Unlocked::Released));
    assert_eq!(short.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;
    limit_memory(&cluster, "0").await;
}

async fn dump(server: &Server, key: &str) -> Value {
    server.command(&["DUMP", key]).await
}

/// It is held by somebody: neither readers nor writers touch it.
#[tokio::test]
async fn a_key_of_another_type_under_the_name() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let kinds: [(&str, &[&str]); 6] = [
        ("string", &["SET", "a", "x"]),
        ("list", &["RPUSH", "a", "x"]),
        ("set", &["SADD", "a", "x"]),
        ("zset", &["ZADD", "a", "1", "x"]),
        ("hash", &["HSET", "a", "x", "y"]),
        ("mode", &["HSET", "a", "mode", "neither", "x", "y"]),
    ];
    for (kind, make) in kinds {
        for server in cluster.servers() {
            server.command(make).await;
        }
        let before = dump(cluster.server(0), "a").await;
        for tried in [
            reading(&masters).try_lock().await.map(drop),
            writing(&masters).try_lock().await.map(drop),
            writing(&masters)
                .wait(Duration::from_millis(50))
                .lock()
                .await
                .map(drop),
        ] {
            let error = tried.expect_err(kind);
            assert!(
                matches!(error, LockError::Contended { .. } | LockError::TimedOut { .. }),
                "{kind}: {error}"
            );
        }
        all_executed(&masters).await;
        for server in cluster.servers() {
            assert_eq!(dump(server, "a").await, before, "{kind} is untouched");
            assert_eq!(server.pttl("a").await, -1, "{kind} is untouched");
            server.command(&["DEL", "a"]).await;
        }
        until_clean(&cluster).await;
    }
}

/// Under the name that is for the readers: it is in nobody's way before anybody reads, nor for writers; and where it comes
/// while somebody reads, nobody gets in beside it, and nothing outlasts the leases.
#[tokio::test]
async fn a_key_of_another_type_under_the_readers() {
    const READERS: &str = "multilock_readers:{a}";
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let put = async || {
        for server in cluster.servers() {
            server.command(&["SET", READERS, "x"]).await;
        }
    };
    put().await;
    let writer = writing(&masters).lock().await.expect("free");
    heard_from_all(&writer).await;
    let reader = writer.downgrade().await;
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;
    put().await;
    let reader = reading(&masters).lock().await.expect("free");
    heard_from_all(&reader).await;
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    until_clean(&cluster).await;

    let reader = reading(&masters).lock().await.expect("free");
    heard_from_all(&reader).await;
    put().await;
    assert!(writing(&masters).try_lock().await.is_err());
    let _ = reading(&masters).try_lock().await.map(drop);
    assert!(reader.is_valid() && writing(&masters).try_lock().await.is_err());
    // The masters do not know it any more.
    let left = reader.unlock().await;
    assert!(matches!(left, Err(UnlockError::WasLost { .. })), "{left:?}");
    until_free(cluster.servers(), "a").await;
}
