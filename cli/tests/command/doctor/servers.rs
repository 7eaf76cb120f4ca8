//! Masters that will not do, or not as they could.

use multilock_test_support::{Keep, Script, Server, StandIn, clock, label, three};

use super::{all, doctor, doctor_with, with_last};
use crate::stage::{run, said, urls};

#[tokio::test]
async fn a_replica() {
    let servers = three(&[]).await;
    let port = servers[0].port().to_string();
    servers[2].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    let (node, remedy) = (label(&servers[2]), "REPLICAOF NO ONE");
    diagnosis.only(("error", "replica"), Some(&node), "it is a replica", remedy, 78);
    assert_eq!(diagnosis.told["masters"][2]["role"], "slave");
}

/// In whichever order the masters are listed.
#[tokio::test]
async fn the_worst_finding_comes_first() {
    let servers = three(&[]).await;
    let slack = ["CONFIG", "SET", "appendfsync", "everysec"];
    servers[0].command(&slack).await;
    let port = servers[1].port().to_string();
    servers[2].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    let findings = diagnosis.told["findings"].as_array().expect("a list");
    let severities: Vec<_> = findings.iter().map(|finding| &finding["severity"]).collect();
    assert_eq!(severities, ["error", "warning"], "{findings:#?}");
}

#[tokio::test]
async fn a_server_under_two_names() {
    let servers = three(&[]).await;
    let twin = format!("localhost:{}", servers[0].port());
    let diagnosis = doctor(with_last(&servers, format!("redis://{twin}"))).await;
    let seen = format!("it is the same server as {}", label(&servers[0]));
    let remedy = "take one of the two addresses out";
    diagnosis.only(("error", "same_server"), Some(&twin), &seen, remedy, 78);
}

#[tokio::test]
async fn a_server_that_evicts() {
    let servers = three(&[]).await;
    servers[1].command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    let policy = ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"];
    servers[1].command(&policy).await;
    let (node, remedy) = (label(&servers[1]), "CONFIG SET maxmemory-policy noeviction");
    let diagnosis = doctor(all(&urls(&servers))).await;
    diagnosis.only(("error", "eviction"), Some(&node), "allkeys-lru", remedy, 78);
    // With permission by the environment, it is a warning.
    let mut command = all(&urls(&servers));
    command.env("MULTILOCK_ALLOW_EVICTION", "true");
    let diagnosis = doctor(command).await;
    diagnosis.only(("warning", "eviction"), Some(&node), "allkeys-lru", remedy, 0);
}

#[tokio::test]
async fn a_server_that_writes_nothing_to_its_disk_in_time() {
    let servers = three(&[]).await;
    let node = label(&servers[1]);
    for (setting, value, code, remedy) in [
        (
            "no-appendfsync-on-rewrite",
            "yes",
            "append_fsync",
            "CONFIG SET no-appendfsync-on-rewrite no",
        ),
        (
            "appendfsync",
            "everysec",
            "append_fsync",
            "CONFIG SET appendfsync always",
        ),
        (
            "appendonly",
            "no",
            "append_only",
            "CONFIG SET appendonly yes and appendfsync always",
        ),
    ] {
        servers[1].command(&["CONFIG", "SET", setting, value]).await;
        let diagnosis = doctor(all(&urls(&servers))).await;
        diagnosis.only(("warning", code), Some(&node), "", remedy, 0);
        let diagnosis = doctor_with(all(&urls(&servers)), &["--strict"]).await;
        diagnosis.only(("warning", code), Some(&node), "", remedy, 1);
    }
}

/// Their memory is full, so no lock is granted, though they answer.
#[tokio::test]
async fn servers_that_take_no_writes() {
    let servers = three(&[]).await;
    let node = label(&servers[1]);
    servers[1].command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let diagnosis = doctor(all(&urls(&servers))).await;
    let (seen, remedy) = ("takes no writes now", "give it memory or disk");
    diagnosis.only(("warning", "writes_refused"), Some(&node), seen, remedy, 0);
    assert_eq!(diagnosis.told["masters"][1]["has_vote"], false);
    let reason = diagnosis.told["masters"][1]["writes_refused"].as_str();
    assert!(reason.is_some_and(|reason| reason.contains("OOM")), "{reason:?}");
    servers[2].command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = run(all(&urls(&servers)), &["a", "-n", "--", "true"]).await;
    assert_eq!(refused.code, Some(69), "{refused:?}");
    let ended = said(all(&urls(&servers)).arg("doctor").spawn().expect("the command")).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

/// A restart of such a server drops the writes of scripts.
#[tokio::test]
async fn a_server_whose_default_user_may_not_write() {
    let servers = three(&[]).await;
    let node = label(&servers[1]);
    let admin = ["ACL", "SETUSER", "admin", "on", ">secret", "~*", "&*", "+@all"];
    servers[1].command(&admin).await;
    let mut nodes = urls(&servers);
    nodes[1] = format!("redis://admin:secret@{node}");
    let rules = ["ACL", "SETUSER", "default", "off", "resetkeys", "-@all"];
    servers[1].command(&rules).await;
    let diagnosis = doctor(all(&nodes)).await;
    let remedy = "ACL SETUSER default off ~* &* +@all";
    diagnosis.only(
        ("warning", "default_user"),
        Some(&node),
        "may not write",
        remedy,
        0,
    );
    assert_eq!(diagnosis.told["masters"][0]["default_user_writes"], true);
}

/// A client of Redisson's waits, and no client of this crate would wake it.
#[tokio::test]
async fn a_server_with_clients_of_redissons() {
    let servers = three(&[]).await;
    let client = redis::Client::open(servers[1].url()).expect("a URL");
    let mut waiter = client.get_async_pubsub().await.expect("a connection");
    let channel = "redisson_lock__channel:{a}";
    waiter.subscribe(channel).await.expect("subscribed");
    let (node, remedy) = (label(&servers[1]), "MULTILOCK_BESIDE_REDISSON=true");
    let seen = "listen to 1 of its channels";
    let diagnosis = doctor(all(&urls(&servers))).await;
    diagnosis.only(("warning", "redisson"), Some(&node), seen, remedy, 0);
    assert_eq!(diagnosis.told["masters"][0]["redisson_channels"], 0);
    let mut command = all(&urls(&servers));
    command.env("MULTILOCK_BESIDE_REDISSON", "1");
    let diagnosis = doctor(command).await;
    diagnosis.is_well();
    assert!(diagnosis.told["masters"][1]["redisson_channels"].is_null());
    // A user without the permission to list channels gets no finding about them.
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-pubsub|channels"];
    let rules = [&["ACL", "SETUSER", "app"][..], &rules].concat();
    servers[1].command(&rules).await;
    let last = format!("redis://app:secret@{node}");
    let diagnosis = doctor(all(&[servers[0].url(), last, servers[2].url()])).await;
    diagnosis.is_well();
}

#[tokio::test]
async fn a_clock_that_is_ahead() {
    let variables = clock::env().unwrap_or_else(|error| panic!("{error:#}"));
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let servers = three(&[]).await;
    let ahead = Server::start_with_env(&[], &variables).await;
    let (node, remedy) = (label(&ahead), "run an NTP daemon");
    let set = async |seconds| {
        clock::set(&ahead, seconds).expect("a clock");
        // Or it would seem to have run for longer, or not at all.
        ahead.restart(Keep::Data).await;
    };
    for (seconds, seen) in [
        (3, "3.0s ahead of"),
        (-3, "3.0s behind"),
        (-630, " behind the other"),
    ] {
        set(seconds).await;
        let diagnosis = doctor(with_last(&servers, ahead.url())).await;
        diagnosis.only(("warning", "clock"), Some(&node), seen, remedy, 0);
        let offset = diagnosis.told["masters"][2]["clock_offset_us"]
            .as_i64()
            .expect("a number");
        assert!((offset - seconds * 1_000_000).abs() < 500_000, "{offset}");
    }
    // So far ahead that it has no vote where tokens are asked for.
    set(630).await;
    let diagnosis = doctor(with_last(&servers, ahead.url())).await;
    diagnosis.only(("error", "clock"), Some(&node), "10m ", remedy, 78);
    set(0).await;
    doctor(with_last(&servers, ahead.url())).await.is_well();
}

#[tokio::test]
async fn a_server_that_is_too_old() {
    let servers = three(&[]).await;
    let old = StandIn::before(&servers[2], Script::new().fact("redis_version", "5.0.14")).await;
    let diagnosis = doctor(with_last(&servers, old.url())).await;
    let (seen, remedy) = (
        "its version 5.0.14 is older than 6.0",
        "run Redis or Valkey 6.0 or later",
    );
    diagnosis.only(("error", "version"), Some(&old.label()), seen, remedy, 78);
}

#[tokio::test]
async fn a_server_that_can_or_says_less() {
    let servers = three(&[]).await;
    let diagnose = async |script: Script| {
        let odd = StandIn::before(&servers[2], script).await;
        (doctor(with_last(&servers, odd.url())).await, odd)
    };
    let (diagnosis, odd) = diagnose(Script::new().knows_no("CLIENT KILL")).await;
    diagnosis.only(
        ("warning", "kill_fence"),
        Some(&odd.label()),
        "for a lease",
        "",
        0,
    );
    let (diagnosis, odd) = diagnose(Script::new().without(&["executable"])).await;
    let seen = "does not say which run of its process this is";
    diagnosis.only(
        ("warning", "run"),
        Some(&odd.label()),
        seen,
        "MULTILOCK_QUARANTINE=off",
        0,
    );
    let (diagnosis, odd) = diagnose(Script::new().without(&["maxmemory", "maxmemory_policy"])).await;
    let remedy = "MULTILOCK_ALLOW_UNKNOWN_EVICTION=true";
    diagnosis.only(
        ("error", "unknown_eviction"),
        Some(&odd.label()),
        "whether it evicts",
        remedy,
        78,
    );
    let (diagnosis, _odd) =
        diagnose(Script::new().says("HELLO", "-NOPROTO unsupported protocol version")).await;
    assert_eq!(diagnosis.codes(), [("note", "resp3")], "{:#}", diagnosis.told);
    let (diagnosis, odd) = diagnose(Script::new().knows_no("EVAL").knows_no("SCRIPT LOAD")).await;
    let found = ("error", "no_scripts");
    diagnosis.only(found, Some(&odd.label()), "it runs no Lua scripts", "Lua", 78);
}

/// The texts of a server are data. In JSON they keep their value.
#[tokio::test]
async fn control_characters_of_a_server_do_not_reach_the_terminal() {
    const WILD: &str = "\u{1b}]0;owned\u{7}";
    let servers = three(&[]).await;
    for script in [
        Script::new().fact("redis_version", &format!("5.0.14{WILD}")),
        Script::new().says("INFO", &format!("-ERR {WILD}")),
        Script::new().says("HELLO", &format!("-ERR {WILD}")),
    ] {
        let odd = StandIn::before(&servers[2], script).await;
        let command = || with_last(&servers, odd.url());
        let told = said(command().arg("doctor").spawn().expect("the command")).await;
        let text = format!("{}{}", told.stdout, told.stderr);
        let is_wild = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.contains(is_wild), "{text:?}");
        assert!(text.contains(r"\u{1b}]0;owned\u{7}"), "{text:?}");
        let told = doctor(command()).await.told.to_string();
        assert!(told.contains(r"\u001b]0;owned\u0007"), "{told}");
    }
}
