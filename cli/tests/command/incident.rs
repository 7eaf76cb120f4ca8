//! Masters that are out while an operator asks for the holder, and a watch that loses its reader.

use std::process::Stdio;
use std::time::Instant;

use multilock_test_support::{Server, WITHIN, connect, held_everywhere, three};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::stage::{Said, ms, multilock, run, said, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

async fn ask(servers: &[Server], args: &[&str]) -> Said {
    said(multilock(&urls(servers)).args(args).spawn().expect("the command")).await
}

/// Two of three masters are frozen: the third one knows the holder.
#[tokio::test]
async fn what_one_master_of_three_says_is_shown() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let holder = guard.holder().to_string();
    for server in &servers[..2] {
        server.freeze().await;
    }
    // Frozen masters cost all of it, each time, and the lease goes on.
    let ask = async |args: &[&str]| ask(&servers, &[args, &["--connect-timeout", "2s"]].concat()).await;
    let told = ask(&["inspect", "a"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    assert!(told.stdout.contains("a not known to be held or free"), "{told:?}");
    assert_eq!(told.stdout.matches(&holder).count(), 1, "{told:?}");
    assert_eq!(told.stdout.matches("silent").count(), 2, "{told:?}");
    let few = "a: 1 of 3 masters answered: too few to tell";
    assert!(told.stderr.contains(few), "{told:?}");
    let told = ask(&["inspect", "a", "--json"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    let json: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(json[0]["state"], "unknown");
    assert_eq!(json[0]["nodes"][2]["holder"], holder.as_str());
    let told = ask(&["held", "a"]).await;
    assert_eq!((told.code, told.stdout.as_str()), (Some(69), ""), "{told:?}");
    assert!(
        told.stderr.contains(few) && told.stderr.contains(&holder),
        "{told:?}"
    );
    // None at all: nothing is known, and that is said.
    servers[2].freeze().await;
    let told = ask(&["inspect", "a"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    assert!(told.stderr.contains("a: 0 of 3 masters answered"), "{told:?}");
    for server in &servers {
        server.thaw().await;
    }
    assert_eq!(ask(&["held", "a"]).await.code, Some(0));
}

/// A holder of a MultiLock may have the master that is down, too.
#[tokio::test]
async fn a_lock_of_all_masters_is_not_told_free_of_holders_while_one_is_down() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let _guard = held_everywhere(&masters.red_lock("a")).await;
    servers[0].kill().await;
    let told = ask(&servers, &["inspect", "a", "--policy", "multi"]).await;
    assert_eq!(told.code, Some(69), "{told:?}");
    assert!(told.stdout.contains("a not known to be held or free"), "{told:?}");
    assert!(!told.stdout.contains("held by nobody"), "{told:?}");
    let told = ask(&servers, &["inspect", "a", "b", "--json", "--policy", "multi"]).await;
    let json: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(
        (&json[0]["state"], &json[1]["state"]),
        (&"unknown".into(), &"unknown".into())
    );
    let told = ask(&servers, &["inspect", "a"]).await;
    assert_eq!(told.code, Some(0), "a majority has the holder: {told:?}");
}

#[tokio::test]
async fn a_watched_list_goes_on_after_an_outage() {
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    command.args(["list", "--watch", "--json", "--node-timeout", "500ms"]);
    let mut watching = command.spawn().expect("the command");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut errors = BufReader::new(watching.stderr.take().expect("a pipe")).lines();
    let next = timeout(WITHIN, lines.next_line()).await.expect("in time");
    assert_eq!(next.expect("text").as_deref(), Some("[]"));
    for server in &servers[..2] {
        server.freeze().await;
    }
    let told = timeout(WITHIN, errors.next_line()).await.expect("in time");
    let told = told.expect("text").expect("a line");
    assert!(told.starts_with("multilock: the locks are unknown: "), "{told}");
    // Lines from before the outage.
    while timeout(ms(2500), lines.next_line()).await.is_ok() {}
    let again = timeout(ms(100), errors.next_line()).await;
    assert!(again.is_err(), "it is told once: {again:?}");
    for server in &servers[..2] {
        server.thaw().await;
    }
    let next = timeout(WITHIN, lines.next_line()).await.expect("in time");
    assert_eq!(next.expect("text").as_deref(), Some("[]"));
    watching.kill().await.expect("it runs");
}

/// One name of two is known to be held, and nobody has to hear of it.
#[tokio::test]
async fn a_name_that_is_known_needs_no_warning() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let _guard = held_everywhere(&masters.red_lock("a")).await;
    servers[0].command(&["HSET", "b", "other:1", "1"]).await;
    servers[0].command(&["PEXPIRE", "b", "600000"]).await;
    servers[2].freeze().await;
    let told = ask(&servers, &["held", "a", "b", "--connect-timeout", "2s"]).await;
    servers[2].thaw().await;
    assert_eq!(told.code, Some(69), "{told:?}");
    assert!(told.stderr.contains("multilock: b: 2 of 3 masters"), "{told:?}");
    assert!(!told.stderr.contains("multilock: a:"), "{told:?}");
}

/// A fault that only a change of a master's settings cures has an exit code of its own, here too.
#[tokio::test]
async fn masters_that_are_unfit_are_told_as_such() {
    let servers = three(ARGS).await;
    let evict = async |server: &Server| {
        let policy = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
        server.command(&policy).await;
        server.command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    };
    evict(&servers[0]).await;
    // One of three: nothing stands still for it.
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(1));
    // Without a wait, which would be told of on a busy machine.
    let ended = run(multilock(&urls(&servers)), &["a", "-n", "--", "true"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let port = servers[0].port();
    assert_eq!(
        ended.stderr.lines().count(),
        1,
        "one line, about the unfit one: {ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains(&format!("127.0.0.1:{port} has no vote: it evicts keys")),
        "{ended:?}"
    );
    let quiet = run(multilock(&urls(&servers)), &["a", "-q", "--", "true"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
    let mut all = multilock(&urls(&servers));
    all.env("MULTILOCK_REQUIRE_ALL", "true");
    assert_eq!(run(all, &["a", "--", "true"]).await.code, Some(78));
    let forget = ask(&servers, &["forget-done", "a", "--yes"]).await;
    assert_eq!(forget.code, Some(78), "every master must answer: {forget:?}");
    assert!(
        forget.stderr.contains("a: not forgotten on all masters: ")
            && forget.stderr.contains(": answered (see")
            && !forget.stderr.contains("granted"),
        "{forget:?}"
    );
    // Two of three.
    evict(&servers[1]).await;
    for args in [
        &["inspect", "a"][..],
        &["held", "a"],
        &["list"],
        &["run", "a", "--", "true"],
    ] {
        let told = ask(&servers, args).await;
        assert_eq!(told.code, Some(78), "{args:?}: {told:?}");
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains("it evicts keys"), "{args:?}: {told:?}");
    }
    // And a list of another length than that of the others.
    let five = [three(ARGS).await, three(ARGS).await].into_iter().flatten();
    let five: Vec<Server> = five.take(5).collect();
    let mut services = multilock(&urls(&five));
    services.env("MULTILOCK_QUARANTINE", "auto").args(["held", "a"]);
    said(services.spawn().expect("the command")).await;
    let mut other = multilock(&urls(&five[..3]));
    other.env("MULTILOCK_QUARANTINE", "auto").args(["inspect", "a"]);
    let told = said(other.spawn().expect("the command")).await;
    assert_eq!(told.code, Some(78), "{told:?}");
    assert!(
        told.stdout
            .contains("is in a set of 5 masters, and this client lists 3 masters"),
        "{told:?}"
    );
}

fn watch(servers: &[Server], args: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command: Command = multilock(&urls(servers));
    command.arg("watch").args(args).stdout(Stdio::piped());
    let mut watching = command.spawn().expect("the command");
    let lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    (watching, lines)
}

/// The next lines until one tells of this state.
async fn until_told(lines: &mut Lines<BufReader<ChildStdout>>, state: &str) -> Value {
    loop {
        let line = timeout(WITHIN, lines.next_line()).await.expect("in time");
        let line = line.expect("text").expect("it goes on");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        if line["state"] == state {
            return line;
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_started_in_an_incident_goes_on() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let holder = guard.holder().to_string();
    for server in &servers[..2] {
        server.freeze().await;
    }
    let (mut watching, mut lines) = watch(&servers, &["a", "--every", "50ms", "--connect-timeout", "2s"]);
    let line = until_told(&mut lines, "unknown").await;
    assert_eq!(line["nodes"][2]["holder"], holder.as_str(), "{line}");
    for server in &servers {
        server.thaw().await;
    }
    until_told(&mut lines, "held").await;
    // Once more, while it watches.
    for server in &servers[1..] {
        server.freeze().await;
    }
    until_told(&mut lines, "unknown").await;
    for server in &servers {
        server.thaw().await;
    }
    until_told(&mut lines, "held").await;
    guard.unlock().await.expect("held");
    until_told(&mut lines, "free").await;
    watching.kill().await.expect("it runs");
}

/// As in `multilock watch a | head -1`, where nothing changes any more.
#[tokio::test]
async fn a_watch_ends_with_its_reader() {
    let servers = three(ARGS).await;
    // However seldom it looks.
    for every in ["500ms", "1h"] {
        let (mut watching, mut lines) = watch(&servers, &["a", "--every", every]);
        until_told(&mut lines, "free").await;
        drop(lines);
        let ended = timeout(WITHIN, watching.wait()).await;
        let ended = ended.expect("it notices").expect("a status");
        assert_eq!(ended.code(), Some(0));
    }
    // A watch that is read goes on.
    let (mut watching, mut lines) = watch(&servers, &["a"]);
    until_told(&mut lines, "free").await;
    assert!(timeout(ms(1500), watching.wait()).await.is_err(), "it goes on");
    watching.kill().await.expect("it runs");
}

/// One of three does not answer: the commands wait for it for some node timeouts, and not for the connect timeout.
#[tokio::test]
async fn a_frozen_minority_costs_a_node_timeout() {
    let servers = three(ARGS).await;
    // The masters have met a client before, so that nobody waits to introduce them.
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(1));
    servers[1].freeze().await;
    let rows: [(&[&str], i32); 3] = [
        (&["run", "a", "--", "true"], 0),
        (&["held", "a"], 1),
        (&["inspect", "a"], 0),
    ];
    for (args, code) in rows {
        let mut command = multilock(&urls(&servers));
        let timeouts = [
            ("MULTILOCK_NODE_TIMEOUT", "1s"),
            ("MULTILOCK_CONNECT_TIMEOUT", "60s"),
        ];
        let begun = Instant::now();
        let ended = said(command.envs(timeouts).args(args).spawn().expect("the command")).await;
        let took = begun.elapsed();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(took < ms(30_000), "{args:?}: {took:?}");
    }
    servers[1].thaw().await;
}
