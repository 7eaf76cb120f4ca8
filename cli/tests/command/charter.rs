//! The longest lease that clients have agreed upon: shown, agreed upon ahead of services, lowered.

use std::time::Duration;

use multilock::{Closing, Masters};
use multilock_test_support::{PATIENT, Server, label, three, until};
use redis::Value;

use crate::stage::{Said, multilock, said, urls};

const ARGS: &[&str] = &["--appendonly", "no"];
const KEY: &str = "multilock_charter";

/// As an operator whose masters are known to keep everything, unless `quarantine` says otherwise.
async fn charter_with(servers: &[Server], env: &[(&str, &str)], args: &[&str]) -> Said {
    let mut command = multilock(&urls(servers));
    command.env("MULTILOCK_CONNECT_TIMEOUT", "5s");
    command.envs(env.iter().copied()).arg("charter").args(args);
    said(command.spawn().expect("the command")).await
}

async fn charter(servers: &[Server], args: &[&str]) -> Said {
    charter_with(servers, &[], args).await
}

const AUTO: (&str, &str) = ("MULTILOCK_QUARANTINE", "auto");

async fn store(servers: &[Server], text: &str) {
    for server in servers {
        server.command(&["SET", KEY, text]).await;
    }
}

async fn stands(server: &Server) -> String {
    match server.command(&["GET", KEY]).await {
        Value::BulkString(text) => String::from_utf8(text).expect("text"),
        Value::Nil => String::new(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_stands_is_shown() {
    let servers = three(ARGS).await;
    let told = charter(&servers, &[]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.starts_with("nothing stands: leases of up to 30.0s"),
        "{told:?}"
    );
    store(&servers, "300000 300000 billing@host:1").await;
    // A service's variable agrees to nothing.
    let told = charter_with(&servers, &[AUTO, ("MULTILOCK_MAX_LEASE", "10m")], &[]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.starts_with("leases of up to 5m are in force\n"),
        "{told:?}"
    );
    assert_eq!(told.stdout.matches("billing@host:1").count(), 3, "{told:?}");
    let told = charter(&servers, &["--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(
        (&told["state"], &told["free_ms"]),
        (&"in force".into(), &30_000.into())
    );
    assert_eq!(told["nodes"][2]["node"], label(&servers[2]));
    assert_eq!(told["nodes"][2]["longest_ms"], 300_000);
    assert_eq!(told["nodes"][2]["raised_by"], "billing@host:1");
    store(&servers, "600000 300000").await;
    let told = charter(&servers, &[]).await;
    assert_eq!(told.code, Some(78), "{told:?}");
    assert!(told.stdout.contains("10m wait to be confirmed"), "{told:?}");
    servers[2].kill().await;
    let told = charter(&servers, &[]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    assert!(told.stdout.starts_with("not every master tells"), "{told:?}");
    store(&servers[..1], "300000 300000").await;
    let told = charter(&servers, &[]).await;
    assert_eq!(told.code, Some(78), "{told:?}");
    assert!(told.stdout.starts_with("the masters differ"), "{told:?}");
    for server in &servers[..2] {
        assert!(
            stands(server).await.starts_with(['3', '6']),
            "it is only looked at"
        );
    }
}

#[tokio::test]
async fn a_longer_lease_is_agreed_upon_ahead_of_services() {
    let servers = three(ARGS).await;
    let told = charter_with(&servers, &[AUTO], &["--max-lease", "5m"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.starts_with("leases of up to 5m are in force\n"),
        "{told:?}"
    );
    for server in &servers {
        let stands = stands(server).await;
        assert!(stands.starts_with("300000 300000 multilock@"), "{stands}");
    }
    let told = charter_with(&servers, &[AUTO], &["--max-lease", "30s"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stderr.contains("nothing was stored"), "{told:?}");
    servers[1].kill().await;
    let told = charter_with(&servers, &[AUTO], &["--max-lease", "10m", "-w", "1"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    let missing = label(&servers[1]);
    assert!(
        told.stderr.contains("a lease of 10m is not in force") && told.stderr.contains(&missing),
        "{told:?}"
    );
    assert!(
        stands(&servers[0]).await.starts_with("600000 300000 "),
        "it is left for services to end"
    );
    servers[1].kill().await;
    servers[2].kill().await;
    let told = charter_with(&servers, &[AUTO], &["--max-lease", "10m", "-w", "500ms"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
}

#[tokio::test]
async fn wrong_usage_of_it() {
    let servers = three(ARGS).await;
    let rows: [(&[&str], &str); 5] = [
        (&["--max-lease", "5m"], "quarantine: off is not allowed"),
        (&["--max-lease", "5m", "--reset"], "cannot be used with"),
        (&["--yes"], "--reset"),
        (&["--reset", "--json", "--yes"], "cannot be used with"),
        (&["--reset"], "give --yes"),
    ];
    for (args, says) in rows {
        let told = charter(&servers, args).await;
        assert_eq!(told.code, Some(64), "{args:?}: {told:?}");
        assert!(told.stderr.contains(says), "{args:?}: {told:?}");
        assert_eq!(stands(&servers[0]).await, "", "{args:?}");
    }
}

#[tokio::test]
async fn it_is_lowered_where_nothing_rests_on_it() {
    let servers = three(ARGS).await;
    let builder = Masters::builder()
        .nodes(urls(&servers).iter().map(String::as_str))
        .node_timeout(PATIENT)
        .connect_timeout(PATIENT)
        .lease(Duration::from_secs(30));
    let client = builder
        .max_lease(Duration::from_secs(300))
        .client_label("billing@host:1")
        .connect()
        .await
        .expect("masters that can be used");
    until("it is in force, and the label is told", async || {
        let keys = servers[0].command(&["KEYS", "multilock_client:*"]).await;
        matches!(keys, Value::Array(keys) if keys.len() == 1)
            && charter(&servers, &[]).await.stdout.contains("5m are in force")
    })
    .await;
    let told = charter(&servers, &["--reset", "--yes"]).await;
    assert_eq!(told.code, Some(75), "{told:?}");
    assert!(
        told.stderr.contains("a client is connected from 127.0.0.1:")
            && told.stderr.contains("billing@host:1"),
        "{told:?}"
    );
    client.close(Closing::Release).await;
    // They have just been started, and nobody says that they forget nothing.
    until("the client has gone", async || {
        let told = charter_with(&servers, &[AUTO], &["--reset", "--yes"]).await;
        assert!(told.stderr.contains("try again in "), "{told:?}");
        assert_eq!(told.code, Some(69), "{told:?}");
        !told.stderr.contains("connected from")
    })
    .await;
    let told = charter(&servers, &["--reset", "--yes"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.stdout, "lowered from 5m to 30.0s, which need no agreement\n");
    assert_eq!(stands(&servers[1]).await, "");
    let told = charter(&servers, &["--reset", "--yes"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.stdout.starts_with("nothing stood there"), "{told:?}");
    servers[2].kill().await;
    let told = charter(&servers, &["--reset", "--yes"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
}
