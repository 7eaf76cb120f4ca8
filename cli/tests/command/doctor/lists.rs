//! Clients that list other masters, and clients that only seem to.

use multilock_test_support::{Proxy, Server, connect, label, three, until};
use rustix::process::Signal;

use super::{Diagnosis, all, doctor, doctor_with};
use crate::stage::{ms, multilock, signal, urls};

async fn clients(server: &Server) -> usize {
    let list = server.command(&["CLIENT", "LIST"]).await;
    format!("{list:?}").matches("name=multilock:").count()
}

/// Checks that the only finding is of another list of masters, and returns its text.
#[track_caller]
fn other_list(diagnosis: &Diagnosis) -> &str {
    assert_eq!(
        diagnosis.codes(),
        [("error", "other_list")],
        "{:#}",
        diagnosis.told
    );
    assert_eq!(diagnosis.code, Some(78));
    let finding = &diagnosis.findings()[0];
    let remedy = finding["remedy"].as_str().expect("a text");
    assert!(
        remedy.starts_with("list the same masters in every client"),
        "{finding:#}"
    );
    finding["seen"].as_str().expect("a text")
}

/// The number that a client tells needs no watching.
#[tokio::test]
async fn a_client_of_fewer_or_more_masters() {
    let mut servers = three(&[]).await;
    servers.push(Server::start_with(&[]).await);
    let urls = urls(&servers);
    for (listed, seen) in [
        (&urls[..2], "lists 2 masters"),
        (&urls[..4], "lists 4 masters"),
        (&urls[2..], "lists 2 masters"),
    ] {
        let masters = connect(listed).await;
        // Only the name of its connections tells of it then.
        for server in &servers {
            server.command(&["DEL", "multilock_set"]).await;
        }
        let diagnosis = doctor_with(all(&urls[..3]), &["--for", "0s"]).await;
        let told = other_list(&diagnosis);
        assert!(
            told.contains(seen) && told.contains("3 are listed here"),
            "{told}"
        );
        assert!(told.contains("the client at 127.0.0.1 (pool "), "{told}");
        drop(masters);
        until("it is gone", async || {
            clients(&servers[2]).await == 0 && clients(&servers[1]).await == 0
        })
        .await;
    }
}

/// As many as are listed here, but not the same: it is missing on one of them.
#[tokio::test]
async fn a_client_that_lists_another_master_instead() {
    let mut servers = three(&[]).await;
    servers.push(Server::start_with(&[]).await);
    let urls = urls(&servers);
    let well = connect(&urls[..3]).await;
    let others = [&urls[0], &urls[1], &urls[3]];
    let mut command = multilock(&others);
    let mut running = command
        .args(["run", "a", "--", "sleep", "60"])
        .spawn()
        .expect("the command");
    until("it is connected", async || clients(&servers[1]).await == 2).await;
    let diagnosis = doctor(all(&urls[..3])).await;
    let told = other_list(&diagnosis);
    let missing = format!("had no connection to {} for ", label(&servers[2]));
    assert!(told.contains(&missing), "{told}");
    let watched = diagnosis.told["watched_ms"].as_u64().expect("a number");
    assert!(watched >= 5_000, "{watched}");
    let of_clients = diagnosis.told["clients"].as_array().expect("a list");
    assert_eq!(of_clients.len(), 2, "{of_clients:?}");
    signal(&running, Signal::TERM);
    running.wait().await.expect("it ends");
    drop(well);
}

/// A client that lost a connection is there again before the time is over.
#[tokio::test]
async fn a_client_that_reconnects_meanwhile() {
    let servers = three(&[]).await;
    let proxy = Proxy::start(servers[2].port()).await;
    let masters = connect([servers[0].url(), servers[1].url(), proxy.url()]).await;
    until("it is connected", async || clients(&servers[2]).await == 1).await;
    proxy.cut().await;
    until("it is not", async || clients(&servers[2]).await == 0).await;
    let urls = urls(&servers);
    let diagnosing = tokio::spawn(doctor_with(all(&urls), &["--for", "60s"]));
    tokio::time::sleep(ms(2_000)).await;
    assert!(!diagnosing.is_finished(), "it has not waited");
    proxy.heal();
    let diagnosis = diagnosing.await.expect("no panic");
    diagnosis.is_well();
    let watched = diagnosis.told["watched_ms"].as_u64().expect("a number");
    assert!(
        (500..60_000).contains(&watched),
        "no longer than it had to: {watched}"
    );
    drop(masters);
}

/// A client with killed connections connects again before the time is over. A frozen client keeps its connections.
#[tokio::test]
async fn a_client_that_is_frozen_or_whose_connection_was_killed() {
    let servers = three(&[]).await;
    let urls = urls(&servers);
    let mut command = all(&urls);
    let mut running = command
        .args(["run", "a", "--", "sleep", "60"])
        .spawn()
        .expect("the command");
    until("it is connected", async || clients(&servers[2]).await == 1).await;
    servers[2].command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    doctor_with(all(&urls), &["--for", "60s"]).await.is_well();
    until("it is connected again", async || clients(&servers[2]).await == 1).await;
    signal(&running, Signal::STOP);
    let diagnosis = doctor(all(&urls)).await;
    signal(&running, Signal::CONT);
    diagnosis.is_well();
    signal(&running, Signal::TERM);
    running.wait().await.expect("it ends");
}

/// A client that came and went while it was watched is not missing anywhere, nor is one of another database.
#[tokio::test]
async fn who_is_gone_or_elsewhere_is_not_missing() {
    let servers = three(&[]).await;
    let urls = urls(&servers);
    let elsewhere = connect([format!("{}/3", urls[0])]).await;
    doctor(all(&urls)).await.is_well();
    let lone = connect([&urls[0], &urls[1], &"redis://127.0.0.1:1".to_owned()]).await;
    let diagnosing = tokio::spawn(doctor_with(all(&urls), &["--for", "60s"]));
    tokio::time::sleep(ms(1_500)).await;
    assert!(!diagnosing.is_finished(), "it has not waited");
    drop(lone);
    diagnosing.await.expect("no panic").is_well();
    drop(elsewhere);
}

/// Record of its set that a master stores.
#[tokio::test]
async fn a_master_of_another_set() {
    let servers = three(&[]).await;
    let urls = urls(&servers);
    servers[2]
        .command(&["SET", "multilock_set", "5 another-run 1"])
        .await;
    let diagnosis = doctor(all(&urls)).await;
    assert_eq!(diagnosis.code, Some(78), "{:#}", diagnosis.told);
    let mut others = diagnosis
        .findings()
        .iter()
        .filter(|finding| finding["code"] == "other_set");
    let other = others.next().expect("told");
    assert_eq!(other["node"].as_str(), Some(&*label(&servers[2])), "{other:#}");
    let text = |field: &str| other[field].as_str().expect("a text").to_owned();
    assert!(
        text("seen").starts_with("it is in a set of 5 masters, and this client lists 3 masters"),
        "{other:#}"
    );
    assert!(text("remedy").contains("DEL multilock_set"), "{other:#}");
    assert!(others.next().is_none(), "{:#}", diagnosis.told);
}

/// The lists are the same, so another list would be no remedy.
#[tokio::test]
async fn a_master_of_a_set_for_tests() {
    let servers = three(&[]).await;
    servers[2]
        .command(&["SET", "multilock_set", "3 another-run 1 2000"])
        .await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    let node = label(&servers[2]);
    let findings = diagnosis.findings();
    let mut others = findings.iter().filter(|finding| finding["code"] == "other_set");
    let other = others.next().expect("told");
    assert_eq!(other["node"].as_str(), Some(&*node), "{other:#}");
    let remedy = other["remedy"].as_str().expect("a text");
    assert!(remedy.starts_with("set MULTILOCK_FOR_TESTS alike"), "{other:#}");
}
