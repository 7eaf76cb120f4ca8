//! Others on the same masters: Redisson in exactly its layout, libraries that lock by `SET NX PX`, and keys that are
//! no locks at all. No client gets in while another is in, and no foreign key is touched.

use std::time::Duration;

use crate::support::{
    self, Cluster, Server, WITHIN, all_executed, connect, connect_beside, held_everywhere, until, until_free,
};
use futures::StreamExt;
use multilock::{LockError, NodeState, Unlocked, Vote};
use redis::Value;
use tokio::time::timeout;

const LEASE: Duration = Duration::from_secs(30);

/// A listener on a channel, as Redisson's waiters are.
async fn subscribe(server: &Server, channel: &str) -> redis::aio::PubSub {
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut listener = client.get_async_pubsub().await.expect("a connection");
    listener.subscribe(channel).await.expect("subscribed");
    listener
}

async fn next_message(listener: &mut redis::aio::PubSub) -> String {
    let message = timeout(WITHIN, listener.on_message().next()).await;
    let message = message.expect("a message in time").expect("a connection");
    message.get_payload().expect("text")
}

/// Contended on behalf of a key that lives for `left`, or for ever.
#[track_caller]
fn assert_contended(error: &LockError, left: Option<Duration>) {
    let LockError::Contended {
        retry_after, votes, ..
    } = error
    else {
        panic!("{error}");
    };
    let expected = left.unwrap_or(LEASE);
    // About that long: a little has passed, but never more than the machine may need.
    assert!(
        (expected / 2..=expected).contains(retry_after),
        "{retry_after:?} of {expected:?}"
    );
    for node in votes {
        match &node.vote {
            Vote::Refused { remaining } => assert_eq!(remaining.is_some(), left.is_some(), "{votes}"),
            // Free there, or not waited for.
            Vote::Granted | Vote::Pending => {}
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn set_nx_px_excludes_us_and_we_exclude_it() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    for server in &cluster.servers()[..3] {
        server
            .command(&["SET", "a", "their secret", "NX", "PX", "20000"])
            .await;
    }
    for lock in [masters.red_lock("a"), masters.multi_lock("a")] {
        let error = lock.try_lock().await.expect_err("theirs");
        assert_contended(&error, Some(Duration::from_secs(20)));
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
    let error = masters
        .red_lock("a")
        .wait(Duration::from_millis(100))
        .lock()
        .await
        .expect_err("theirs");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    let inspection = masters.red_lock("a").inspect().await.expect("a report").remove(0);
    assert_eq!(inspection.agreed, None);
    let foreign = inspection.nodes.iter().filter(|(_, state)| match state {
        NodeState::Foreign { kind, remaining } => kind == "string" && remaining.is_some(),
        _ => false,
    });
    assert_eq!(foreign.count(), 3, "{inspection:?}");
    all_executed(&masters).await;
    for server in &cluster.servers()[..3] {
        let value = server.command(&["GET", "a"]).await;
        assert_eq!(value, Value::BulkString(b"their secret".to_vec()));
        assert!(
            (1..=20_000).contains(&server.pttl("a").await),
            "neither longer nor for ever"
        );
        server.command(&["DEL", "a"]).await;
    }
    until_free(cluster.servers(), "a").await;

    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in cluster.servers() {
        let theirs = server
            .command(&["SET", "a", "their secret", "NX", "PX", "20000"])
            .await;
        assert_eq!(theirs, Value::Nil, "ours");
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(cluster.servers(), "a").await;
    let theirs = cluster
        .server(0)
        .command(&["SET", "a", "their secret", "NX", "PX", "20000"])
        .await;
    assert_eq!(theirs, Value::Okay);
}

#[tokio::test]
async fn keys_that_are_no_locks_are_held_by_somebody() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let kinds: [(&str, &[&str]); 7] = [
        ("string", &["SET", "string", "x"]),
        ("list", &["RPUSH", "list", "x"]),
        ("set", &["SADD", "set", "x"]),
        ("zset", &["ZADD", "zset", "1", "x"]),
        ("stream", &["XADD", "stream", "*", "x", "y"]),
        ("hash", &["HSET", "hash", "x", "y"]),
        ("hashes", &["HSET", "hashes", "x", "1", "y", "2"]),
    ];
    for (name, make) in kinds {
        let mut before = Vec::new();
        for server in cluster.servers() {
            server.command(make).await;
            before.push(server.command(&["DUMP", name]).await);
        }
        for lock in [masters.red_lock(name), masters.multi_lock(name)] {
            let error = lock.try_lock().await.expect_err(name);
            assert_contended(&error, None);
        }
        all_executed(&masters).await;
        for (server, before) in cluster.servers().iter().zip(before) {
            assert_eq!(
                server.command(&["DUMP", name]).await,
                before,
                "{name} is untouched"
            );
            assert_eq!(server.pttl(name).await, -1, "{name} is untouched");
            // With an end it is held until then.
            server.command(&["PEXPIRE", name, "25000"]).await;
        }
        let error = masters.red_lock(name).try_lock().await.expect_err(name);
        assert_contended(&error, Some(Duration::from_secs(25)));
        for server in cluster.servers() {
            assert!(
                (1..=25_000).contains(&server.pttl(name).await),
                "{name} is untouched"
            );
        }
    }
}

#[tokio::test]
async fn the_layout_is_redissons() {
    let cluster = Cluster::start(3).await;
    let masters = connect_beside(cluster.urls()).await;
    for (name, channel) in [
        ("order", "redisson_lock__channel:{order}"),
        ("{order}:7", "redisson_lock__channel:{order}:7"),
        ("a b\u{e9}\u{2713}", "redisson_lock__channel:{a b\u{e9}\u{2713}}"),
    ] {
        let mut listeners = Vec::new();
        for server in cluster.servers() {
            listeners.push(subscribe(server, channel).await);
        }
        let guard = held_everywhere(&masters.red_lock(name)).await;
        for server in cluster.servers() {
            let kind: String = redis::from_redis_value(server.command(&["TYPE", name]).await).expect("text");
            assert_eq!(kind, "hash");
            let fields = server.hgetall(name).await;
            let [(field, count)] = fields
                .into_iter()
                .collect::<Vec<_>>()
                .try_into()
                .expect("one field");
            assert_eq!(count, "1");
            let (uuid, number) = field.split_once(':').expect("uuid:number");
            assert_eq!(uuid.len(), 36, "{field}");
            assert_eq!(
                uuid.split('-').map(str::len).collect::<Vec<_>>(),
                [8, 4, 4, 4, 12],
                "{field}"
            );
            assert!(uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()), "{field}");
            assert!(number.parse::<i64>().is_ok_and(|number| number > 0), "{field}");
            let left = server.pttl(name).await;
            assert!((1..=30_000).contains(&left), "{left}");
        }
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        for listener in &mut listeners {
            assert_eq!(next_message(listener).await, "0");
        }
    }
}

#[tokio::test]
async fn redisson_excludes_us_and_we_exclude_it() {
    const FIELD: &str = "285475da-9152-4c83-822a-67ee2f116a79:52";
    let cluster = Cluster::start(3).await;
    let masters = connect_beside(cluster.urls()).await;
    // As Redisson takes a lock.
    for server in cluster.servers() {
        server.command(&["HINCRBY", "a", FIELD, "1"]).await;
        server.command(&["HINCRBY", "a", FIELD, "1"]).await;
        server.command(&["PEXPIRE", "a", "20000"]).await;
    }
    let error = masters.red_lock("a").try_lock().await.expect_err("theirs");
    assert_contended(&error, Some(Duration::from_secs(20)));
    let inspection = masters.red_lock("a").inspect().await.expect("a report").remove(0);
    assert_eq!(inspection.agreed.expect("one holder").to_string(), "285475da…:52");
    for (_, state) in &inspection.nodes {
        assert!(matches!(state, NodeState::Held { count: 2, .. }), "{state:?}");
    }
    all_executed(&masters).await;
    for server in cluster.servers() {
        assert_eq!(
            server.hgetall("a").await,
            [(FIELD.to_owned(), "2".to_owned())].into()
        );
        assert!((1..=20_000).contains(&server.pttl("a").await));
    }
    // As it gives it up.
    for server in cluster.servers() {
        server.command(&["DEL", "a"]).await;
        server
            .command(&["PUBLISH", "redisson_lock__channel:{a}", "0"])
            .await;
    }
    // Its waiter, on any of the masters, is woken by us.
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in cluster.servers() {
        assert!(server.exists("a").await, "Redisson's first look");
        let theirs: i64 =
            redis::from_redis_value(server.command(&["HEXISTS", "a", FIELD]).await).expect("a number");
        assert_eq!(theirs, 0, "and its second");
    }
    let mut waiter = subscribe(cluster.server(1), "redisson_lock__channel:{a}").await;
    drop(guard);
    assert_eq!(next_message(&mut waiter).await, "0");
    until_free([cluster.server(1)], "a").await;

    // A read lock and a write lock of Redisson's are holders, too.
    for (name, mode) in [("r", "read"), ("w", "write")] {
        for server in cluster.servers() {
            server.command(&["HSET", name, "mode", mode, FIELD, "1"]).await;
            server.command(&["PEXPIRE", name, "20000"]).await;
        }
        let error = masters.red_lock(name).try_lock().await.expect_err("theirs");
        assert_contended(&error, Some(Duration::from_secs(20)));
        for server in cluster.servers() {
            assert_eq!(server.hgetall(name).await.len(), 2);
        }
    }
}

/// A waiter may have met a rolled-back attempt on enough masters to take it for a holder. It gets a message.
#[tokio::test]
async fn a_rollback_tells_the_waiters_whom_it_kept_out() {
    let cluster = Cluster::start(3).await;
    let masters = connect_beside(cluster.urls()).await;
    cluster.server(0).command(&["SET", "a", "x", "PX", "20000"]).await;
    let mut waiter = subscribe(cluster.server(1), "redisson_lock__channel:{a}").await;
    masters.multi_lock("a").try_lock().await.expect_err("theirs");
    assert_eq!(next_message(&mut waiter).await, "0");
}

#[tokio::test]
async fn the_scripts_by_hand() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let (keys, me, you) = (["a", "multilock_revoked:{a}"], "me:1", "you:1");
    let channel = "redisson_lock__channel:{a}";
    let granted = [Value::Int(1)];
    let acquire = async |owner: &str, lease: &str| support::acquire(server, &["a"], owner, lease).await;
    let extend = async |owner: &str, lease: &str| support::extend(server, &keys, owner, lease).await;
    let release = async |owner: &str| {
        match support::release(server, "a", owner).await {
            // Every name was released, and 2 where others listen for that.
            Value::Int(1 | 2) => Value::Int(1),
            Value::Array(mut names) => names.remove(0),
            other => panic!("no answer of release: {other:?}"),
        }
    };

    assert_eq!(extend(me, "60000").await, Value::Int(2), "absent");
    assert_eq!(release(me).await, Value::Int(0));
    assert_eq!(
        server.keys().await,
        Vec::<String>::new(),
        "neither creates anything"
    );

    // The reply may be lost: a client that asks again is granted again, and once.
    for _ in 0..2 {
        assert_eq!(acquire(me, "60000").await, granted);
        assert_eq!(
            server.hgetall("a").await,
            [(me.to_owned(), "1".to_owned())].into()
        );
    }
    // Shorter is not shorter, longer is longer.
    assert_eq!(acquire(me, "1000").await, granted);
    assert_eq!(extend(me, "1000").await, Value::Int(1));
    assert!(server.pttl("a").await > 30_000);
    assert_eq!(extend(me, "600000").await, Value::Int(1));
    assert!(server.pttl("a").await > 300_000);

    let Value::Array(extended) = extend(you, "600000").await else {
        panic!("refused");
    };
    for parts in [acquire(you, "600000").await, extended] {
        assert!(
            matches!(parts[..], [Value::Int(0), Value::Int(300_001..=600_000), _, ..]),
            "{parts:?}"
        );
    }
    assert_eq!(release(you).await, Value::Int(0));
    assert_eq!(
        server.hgetall("a").await,
        [(me.to_owned(), "1".to_owned())].into(),
        "mine"
    );

    let mut waiter = subscribe(server, channel).await;
    assert_eq!(release(me).await, Value::Int(1));
    assert_eq!(next_message(&mut waiter).await, "0");
    assert_eq!(release(me).await, Value::Int(0));
    assert_eq!(extend(me, "60000").await, Value::Int(2), "too late");
    assert_eq!(server.keys().await, Vec::<String>::new());

    // Two names, one of them another's: neither is taken.
    server.command(&["SET", "b", "x", "PX", "60000"]).await;
    let answer = support::acquire(server, &["a", "b"], me, "60000").await;
    assert_eq!(answer[0], Value::Int(0), "{answer:?}");
    assert_eq!(server.keys().await, ["b"]);
    until("nothing follows", async || server.keys().await == ["b"]).await;
}
