//! Names of clients, for operators: the label of a holder, and the client of a connection in `CLIENT LIST`.

use std::collections::BTreeSet;

use crate::support::{Cluster, Server, connect, held_everywhere, patient, three, until};
use multilock::{Closing, LockError, Masters};
use redis::FromRedisValue;

async fn labelled(cluster: &Cluster, label: &str) -> Masters {
    let connecting = patient(cluster.urls()).client_label(label).connect();
    let masters = connecting.await.expect("all are well");
    for server in cluster.servers() {
        until("the label is told", async || {
            labels(server).await.contains(&label.to_owned())
        })
        .await;
    }
    masters
}

async fn ask<T: FromRedisValue>(server: &Server, args: &[&str]) -> T {
    redis::from_redis_value(server.command(args).await).expect("as asked")
}

/// The labels that a server keeps.
async fn labels(server: &Server) -> Vec<String> {
    let keys: Vec<String> = ask(server, &["KEYS", "multilock_client:*"]).await;
    let mut labels = Vec::new();
    for key in &keys {
        // It may have been taken back meanwhile.
        let label: Option<String> = ask(server, &["GET", key]).await;
        labels.extend(label);
    }
    labels
}

fn holder_of(error: &LockError) -> Option<&str> {
    match error {
        LockError::Contended { holder, .. } => holder.as_deref(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn who_holds_is_told() {
    let cluster = Cluster::start(3).await;
    let billing = labelled(&cluster, "billing@host:1").await;
    let other = labelled(&cluster, "other@host:2").await;
    let guard = held_everywhere(&billing.red_lock("a")).await;
    let refused = other.red_lock("a").try_lock().await.expect_err("held");
    assert_eq!(holder_of(&refused), Some("billing@host:1"), "{refused}");
    let seen = other.red_lock("a").inspect().await.expect("looks").remove(0);
    let agreed = seen.agreed.expect("held");
    assert_eq!(agreed.client_label(), Some("billing@host:1"));
    assert_eq!(agreed, guard.holder());
    let forced = other.red_lock("a").force_release().await.expect("forced");
    assert_eq!(forced.former[0].client_label(), Some("billing@host:1"));
    for server in cluster.servers() {
        let keys: Vec<String> = ask(server, &["KEYS", "multilock_client:*"]).await;
        for key in &keys {
            let left = server.pttl(key).await;
            assert!((150_000..=210_000).contains(&left), "{key}: {left}");
        }
    }
    drop(guard);
    billing.close(Closing::Release).await;
    other.close(Closing::Release).await;
    for server in cluster.servers() {
        assert_eq!(labels(server).await, Vec::<String>::new());
    }
}

/// A client without ACL permission for the keys of labels has no label, and locks as ever. So do other clients beside
/// it.
#[tokio::test]
async fn a_client_that_may_not_tell_its_label_locks_without() {
    let rules = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "resetkeys",
        "&*",
        "+@all",
        "~a",
        "~b",
    ];
    let keys = [
        "set",
        "revoked:*",
        "queue:*",
        "readers_queue:*",
        "readers:*",
        "deadlines:*",
        "fence:*",
    ]
    .map(|key| format!("~multilock_{key}"));
    let rules: Vec<&str> = rules.into_iter().chain(keys.iter().map(String::as_str)).collect();
    let servers = three(&[]).await;
    for server in &servers {
        server.command(&rules).await;
    }
    let urls = servers
        .iter()
        .map(|server| format!("redis://app:secret@127.0.0.1:{}", server.port()));
    let denied = patient(urls)
        .client_label("denied")
        .connect()
        .await
        .expect("allowed");
    let allowed = connect(servers.iter().map(Server::url)).await;
    for (one, other) in [(&denied, &allowed), (&allowed, &denied)] {
        let guard = held_everywhere(&one.red_lock("a")).await;
        let refused = other.red_lock("a").try_lock().await.expect_err("held");
        assert_eq!(holder_of(&refused), None, "{refused}");
        let seen = other.red_lock("a").inspect().await.expect("looks").remove(0);
        assert_eq!(seen.agreed, Some(guard.holder()));
        guard.unlock().await.expect("released");
    }
    for server in &servers {
        assert!(!labels(server).await.contains(&"denied".to_owned()));
    }
}

/// The names of this crate's connections, as an operator sees them.
async fn names(server: &Server) -> Vec<String> {
    let list: String = ask(server, &["CLIENT", "LIST"]).await;
    let names = list
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("name="));
    names
        .filter(|name| name.starts_with("multilock:"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn connections_are_named_after_their_pool() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let named = async || {
        let mut all = BTreeSet::new();
        for server in cluster.servers() {
            until("it has its name", async || names(server).await.len() == 1).await;
            all.extend(names(server).await);
        }
        all
    };
    let before = named().await;
    assert_eq!(before.len(), 1, "one for the pool: {before:?}");
    let name = before.first().expect("one");
    let parts: Vec<&str> = name.split(':').collect();
    assert!(
        parts.len() == 3 && parts[1].len() == 36 && parts[2] == "3",
        "{name}"
    );
    let fields: Vec<String> = ask(cluster.server(0), &["HKEYS", "a"]).await;
    assert!(
        !fields[0].starts_with(parts[1]),
        "the owner is nobody else's business"
    );

    let again = connect(cluster.urls()).await;
    for server in cluster.servers() {
        until("two are there", async || names(server).await.len() == 2).await;
        let both: BTreeSet<_> = names(server).await.into_iter().collect();
        assert_eq!(both.len(), 2, "each pool has a name of its own");
    }
    drop(again);
    for server in cluster.servers() {
        until("it is alone", async || names(server).await.len() == 1).await;
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    }
    guard.unlock().await.ok();
    assert_eq!(named().await, before, "the next connection is named alike");
}

#[tokio::test]
async fn a_name_that_is_denied_is_done_without() {
    let server = Server::start_with(&[]).await;
    let rules = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-client|setname",
        "-client|setinfo",
    ];
    if server.try_command(&rules).await.is_err() {
        // Before Redis 7.0 a subcommand cannot be taken away alone.
        let all = [
            "ACL",
            "SETUSER",
            "app",
            "on",
            ">secret",
            "~*",
            "&*",
            "+@all",
            "-client",
            "+client|id",
            "+client|kill",
        ];
        server.command(&all).await;
    }
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let masters = patient([url]).connect().await.expect("allowed");
    masters
        .red_lock("a")
        .try_lock()
        .await
        .expect("free")
        .unlock()
        .await
        .expect("released");
    assert_eq!(names(&server).await, Vec::<String>::new());
}
