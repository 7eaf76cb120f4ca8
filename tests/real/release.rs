//! Giving a lock up. `unlock` reports the result on the masters, and an undelivered release is delivered later. A
//! drop is a release, and a hold that an operator takes away stays away.

use std::time::Duration;

use crate::support::{
    Cluster, Keep, Server, WITHIN, acquire, all_executed, connect, extend, field, held_everywhere, patient,
    until, until_free, vote,
};
use multilock::{ExtendError, LockError, Masters, UnlockError, Unlocked, Vote};
use redis::Value;

/// So long that nothing here is freed by its end.
const LONG: Duration = Duration::from_secs(3600);
/// A node deadline that is missed on purpose here, and never by a healthy master.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);

/// Masters with a deadline that is missed on purpose, and with leases that outlast it.
async fn hasty(cluster: &Cluster) -> Masters {
    let builder = patient(cluster.urls()).node_timeout(NODE_TIMEOUT).for_tests(LONG);
    builder.connect().await.expect("masters that can be used")
}

async fn fields(servers: &[Server], name: &str) -> Vec<Option<String>> {
    let mut fields = Vec::new();
    for server in servers {
        fields.push(field(server, name).await);
    }
    fields
}

/// The field under a name that is held on all of the servers.
async fn common_field(servers: &[Server], name: &str) -> String {
    let mut fields = fields(servers, name).await;
    fields.dedup();
    match fields.as_slice() {
        [Some(field)] => field.clone(),
        other => panic!("not the same on every master: {other:?}"),
    }
}

#[tokio::test]
async fn released() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    for lock in [
        masters.red_lock("a"),
        masters.multi_lock("a"),
        masters.red_lock(["a", "b"]),
    ] {
        let guard = lock.try_lock().await.expect("free");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        until_free(cluster.servers(), "a").await;
        until_free(cluster.servers(), "b").await;
    }
}

#[tokio::test]
async fn released_by_a_majority_although_a_minority_had_lost_it() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in &cluster.servers()[..2] {
        server.command(&["DEL", "a"]).await;
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn lost_by_deletion() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in &cluster.servers()[1..4] {
        server.command(&["DEL", "a"]).await;
    }
    assert!(guard.is_valid(), "nobody can know before asking");
    let Err(UnlockError::WasLost { votes }) = guard.unlock().await else {
        panic!("three of five did not have it");
    };
    let gone = votes.iter().filter(|node| node.vote == Vote::NotHeld).count();
    assert_eq!(gone, 3, "{votes}");
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn a_multi_lock_is_lost_with_a_majority_of_its_masters() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    cluster.server(1).command(&["DEL", "a"]).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released), "two still had it");
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    for server in &cluster.servers()[1..] {
        server.command(&["DEL", "a"]).await;
    }
    let Err(UnlockError::WasLost { votes }) = guard.unlock().await else {
        panic!("two did not have it");
    };
    assert_eq!(vote(&votes, 1), Vote::NotHeld);
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn unconfirmed_and_yet_delivered() {
    let cluster = Cluster::start(5).await;
    let masters = hasty(&cluster).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in &cluster.servers()[..3] {
        server.freeze().await;
    }
    let Err(UnlockError::Unconfirmed {
        free_within, votes, ..
    }) = guard.unlock().await
    else {
        panic!("three of five did not answer");
    };
    assert_eq!(free_within, LONG);
    assert_eq!(votes.granted(), 2, "{votes}");
    for place in 0..3 {
        assert!(matches!(vote(&votes, place), Vote::Late { .. }), "{votes}");
    }
    for server in &cluster.servers()[..3] {
        server.thaw().await;
    }
    // An hour before the lease ends.
    until_free(cluster.servers(), "a").await;
    let guard = masters.multi_lock("a").wait(WITHIN).lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn what_is_owed_to_a_dead_master_is_paid_when_it_is_back() {
    let cluster = Cluster::start(5).await;
    let masters = hasty(&cluster).await;
    let (first, second) = (
        held_everywhere(&masters.red_lock("a")).await,
        held_everywhere(&masters.red_lock("b")).await,
    );
    let dead = cluster.server(3);
    assert!(dead.exists("a").await && dead.exists("b").await);
    dead.kill().await;
    assert_eq!(first.unlock().await, Ok(Unlocked::Released));
    drop(second);
    until_free(
        cluster
            .servers()
            .iter()
            .filter(|server| server.port() != dead.port()),
        "b",
    )
    .await;
    // It comes back with both, for another hour.
    dead.restart(Keep::Data).await;
    until_free([dead], "a").await;
    until_free([dead], "b").await;
}

#[tokio::test]
async fn dropping_the_guard_releases() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    drop(held_everywhere(&masters.red_lock("a")).await);
    until_free(cluster.servers(), "a").await;
    drop(masters.red_lock("a").try_lock().await.expect("free"));
    until_free(cluster.servers(), "a").await;
    all_executed(&masters).await;
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn dropping_the_guard_on_a_plain_thread_releases() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let dropping = std::thread::spawn(move || drop(guard));
    until("the thread has ended", async || dropping.is_finished()).await;
    dropping.join().expect("no panic outside a runtime");
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn dropping_the_guard_after_its_runtime_leaves_it_to_the_lease() {
    let cluster = Cluster::start(3).await;
    let urls = cluster.urls();
    let (masters, guard) = tokio::task::spawn_blocking(|| {
        let other = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let held = other.block_on(async {
            let masters = connect(urls).await;
            let guard = masters.multi_lock("a").try_lock().await.expect("free");
            (masters, guard)
        });
        drop(other);
        held
    })
    .await
    .expect("no panic");
    let dropping = std::thread::spawn(move || drop((guard, masters)));
    until("the thread has ended", async || dropping.is_finished()).await;
    dropping.join().expect("no panic after the runtime's end");
    for server in cluster.servers() {
        assert!(
            (1..=30_000).contains(&server.pttl("a").await),
            "still there, but not for ever"
        );
    }
}

#[tokio::test]
async fn taken_away_by_force() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let operator = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a").fenced(false)).await;
    let theirs = common_field(cluster.servers(), "a").await;

    let forced = operator
        .red_lock("a")
        .force_release()
        .await
        .expect("all are well");
    assert_eq!(forced.votes.granted(), 5);
    let [former] = forced.former.as_slice() else {
        panic!("one holder: {forced:?}");
    };
    // Enough to find it in a log, too little to release with it.
    let number = theirs.rsplit_once(':').expect("uuid:number").1;
    let redacted = former.redacted_owner().to_string();
    assert_eq!(redacted, format!("{}…:{number}", &theirs[..8]));
    for server in cluster.servers() {
        assert!(!server.exists("a").await, "free when the call returns");
        assert!((1..=30_000).contains(&server.pttl("multilock_revoked:{a}").await));
    }

    // Somebody new gets in at once.
    let next = operator
        .multi_lock("a")
        .fenced(false)
        .try_lock()
        .await
        .expect("free");
    let new = common_field(cluster.servers(), "a").await;

    // Requests of the former holder that are still on their way come too late, on every master.
    let keys = ["a", "multilock_revoked:{a}"];
    for server in cluster.servers() {
        assert_eq!(acquire(server, &["a"], &theirs, "30000").await, [Value::Int(-1)]);
        // With the force: its time, its operator and its reason.
        let Value::Array(parts) = extend(server, &keys, &theirs, "30000").await else {
            panic!("not revoked")
        };
        assert_eq!((&parts[0], parts.len()), (&Value::Int(-1), 4));
    }
    let error = guard
        .extend(Duration::from_secs(30))
        .await
        .expect_err("taken away");
    let ExtendError::Lost { votes } = &error else {
        panic!("{error}");
    };
    assert!(
        votes.iter().any(|node| matches!(node.vote, Vote::Revoked { .. })),
        "{votes}"
    );
    assert!(!guard.is_valid(), "it has learnt of it");
    assert!(matches!(guard.unlock().await, Err(UnlockError::WasLost { .. })));
    all_executed(&masters).await;
    assert_eq!(
        common_field(cluster.servers(), "a").await,
        new,
        "the new hold is whole"
    );

    assert_eq!(next.unlock().await, Ok(Unlocked::Released));
    // A free name stays free for the former field alone.
    for server in cluster.servers() {
        until_free([server], "a").await;
        assert_eq!(acquire(server, &["a"], &theirs, "30000").await, [Value::Int(-1)]);
        let revoked = extend(server, &keys, &theirs, "30000").await;
        assert!(matches!(revoked, Value::Array(parts) if parts[0] == Value::Int(-1)));
        assert!(!server.exists("a").await);
    }
    // The former holder's process is as welcome as anybody's.
    let again = masters.multi_lock("a").try_lock().await.expect("free");
    assert_eq!(again.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn force_on_what_is_free_or_foreign() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let forced = masters.red_lock("a").force_release().await.expect("all are well");
    assert!(forced.former.is_empty());
    for server in cluster.servers() {
        assert_eq!(
            server.keys().await,
            Vec::<String>::new(),
            "no mark without a holder"
        );
        server.command(&["SET", "a", "theirs"]).await;
    }
    let forced = masters.red_lock("a").force_release().await.expect("all are well");
    assert_eq!(forced.votes.granted(), 3);
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

#[tokio::test]
async fn force_with_too_few_masters_says_so() {
    let cluster = Cluster::start(3).await;
    let masters = hasty(&cluster).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    cluster.server(0).freeze().await;
    cluster.server(1).freeze().await;
    let error = masters
        .red_lock("a")
        .force_release()
        .await
        .expect_err("one of three");
    let LockError::Unreachable { votes } = &error else {
        panic!("{error}");
    };
    assert_eq!(votes.granted(), 0, "{votes}");
    assert!(
        cluster.server(2).exists("a").await,
        "who holds may stand on the others alone: nothing is sent"
    );
    cluster.server(0).thaw().await;
    cluster.server(1).thaw().await;
    until("it can be called again", async || {
        masters.multi_lock("a").force_release().await.is_ok()
    })
    .await;
    until_free(cluster.servers(), "a").await;
    assert!(matches!(guard.unlock().await, Err(UnlockError::WasLost { .. })));
}

/// Other libraries' locks are taken from their visible holders. A key that is no lock is left alone.
#[tokio::test]
async fn force_on_keys_of_every_kind() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let reader = "6c0c2a4e-1111-4222-8333-944455556666:7";
    for server in cluster.servers() {
        server
            .command(&["HSET", "shared", "mode", "read", reader, "1"])
            .await;
        server
            .command(&["SET", "simple", "a secret", "PX", "60000"])
            .await;
        server.command(&["LPUSH", "list", "x"]).await;
        server.command(&["HSET", "data", "colour", "red"]).await;
        server.command(&["XADD", "stream", "*", "k", "v"]).await;
        server.command(&["SADD", "set", "x"]).await;
    }
    let forced = masters
        .red_lock("shared")
        .force_release()
        .await
        .expect("all are well");
    assert_eq!((forced.former.len(), forced.spared.len()), (1, 0), "{forced:?}");
    assert_eq!(forced.former[0].to_string(), "6c0c2a4e…:7");
    let forced = masters
        .red_lock("simple")
        .force_release()
        .await
        .expect("all are well");
    assert_eq!((forced.former.len(), forced.spared.len()), (1, 0), "{forced:?}");
    for (name, kind) in [
        ("list", "list"),
        ("data", "hash"),
        ("stream", "stream"),
        ("set", "set"),
    ] {
        let forced = masters
            .red_lock(name)
            .force_release()
            .await
            .expect("all are well");
        assert!(forced.former.is_empty(), "{forced:?}");
        assert!(
            forced
                .spared
                .iter()
                .all(|spared| spared.name == name && spared.kind == kind)
        );
        assert_eq!(forced.spared.len(), 3, "{forced:?}");
    }
    for server in cluster.servers() {
        let mut keys = server.keys().await;
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "data",
                "list",
                "multilock_forced:{shared}",
                "multilock_forced:{simple}",
                "multilock_revoked:{shared}",
                "set",
                "stream"
            ]
        );
    }
}
