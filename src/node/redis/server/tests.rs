//! Facts that a connection finds out about each kind of server. Other tests run locks on real servers.

use std::net::Ipv4Addr;

use multilock_test_support::{Script, StandIn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::*;
use crate::admin::capabilities::Capabilities;
use crate::node::{Identity, NodeUrl};

/// Answer of a plain Redis.
const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nredis_build_id:ae4d7c971a948f0\r\nprocess_id:5179\r\n\
    run_id:e3385d977718fb13c03d431f0a25ace6cf4a35c1\r\n\
    executable:/usr/bin/redis-server\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nloading:0\r\nrole:master\r\n\
    master_replid:8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb\r\n\
    master_replid2:0000000000000000000000000000000000000000\r\ncluster_enabled:0\r\n";

fn plain() -> Script {
    server_with(INFO)
}

fn server_with(info: &str) -> Script {
    Script::new()
        .says("HELLO", "%1\r\n+proto\r\n:3")
        .says("CLIENT SETINFO", "+OK")
        .says("CLIENT ID", ":7")
        .says("CLIENT KILL", ":0")
        .tells("INFO", info)
        .says("TIME", "*2\r\n$10\r\n1795000000\r\n$1\r\n0")
        .says("GET", "$-1")
        .says("SCRIPT LOAD", "+a digest")
        .says("EVAL", "*0")
        .says("SUBSCRIBE", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1")
}

/// Answer to INFO with a line changed, or without it.
fn info(name: &str, value: Option<&str>) -> String {
    let start = format!("{name}:");
    assert!(INFO.contains(&start));
    let lines = INFO.lines().filter_map(|line| match value {
        Some(value) if line.starts_with(&start) => Some(format!("{start}{value}")),
        None if line.starts_with(&start) => None,
        _ => Some(line.to_owned()),
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

async fn connect_to(stand_in: &StandIn, predecessor: Option<&Peer>) -> Result<Peer, NodeError> {
    connect_at(stand_in.url(), predecessor).await
}

async fn connect_at(url: String, predecessor: Option<&Peer>) -> Result<Peer, NodeError> {
    set_up(&server_at(url), predecessor).await
}

fn server_at(url: String) -> Server {
    Server {
        address: NodeUrl::new(url).parse(1).expect("a URL"),
        lookup: Lookup::default(),
        credentials: None,
        tls: None,
        connect_timeout: Duration::from_secs(5),
        accepted: AcceptedRisks::default(),
        connection_name: "multilock".into(),
    }
}

async fn set_up(server: &Server, predecessor: Option<&Peer>) -> Result<Peer, NodeError> {
    let connected = server
        .connect(predecessor, "multilock:a", Arc::new(|_, _: &str, _: &str| {}))
        .await;
    connected.map(|connection| connection.peer)
}

async fn connect(script: Script) -> Result<Peer, NodeError> {
    connect_to(&StandIn::alone(script).await, None).await
}

async fn missing(script: Script) -> Vec<&'static str> {
    let peer = connect(script).await.expect("it will do");
    peer.capabilities.missing()
}

async fn refusal(script: Script) -> String {
    connect(script).await.expect_err("it will not do").to_string()
}

#[tokio::test]
async fn a_plain_server_can_do_everything() {
    let peer = connect(plain()).await.expect("it will do");
    assert_eq!(peer.capabilities, Capabilities::ALL);
    assert_eq!((peer.record, peer.client_ids), (None, vec![7]));
    assert_eq!(peer.identity.run().as_deref(), Some("e3385d977718fb13"));
}

/// A promoted replica may have missed writes, even with a record.
#[tokio::test]
async fn a_record_is_that_of_a_run_of_a_master() {
    let promoted = info("master_replid2", Some("8371b4fb1155b71f4a04d3e1bc3e18c4a990aeeb"));
    let age = async |server: &str, run: &str| {
        let record = format!("3 {run} 1794999000000000");
        let recorded = server_with(server).says("GET", &format!("${}\r\n{record}", record.len()));
        let peer = connect(recorded).await.expect("it will do");
        let record = peer.record.expect("a record");
        record.age(peer.identity.run().as_deref(), peer.clock_us)
    };
    let long = Some(Duration::from_secs(1000));
    for (server, run, counts, why) in [
        (INFO, "e3385d977718fb13", long, "the same"),
        (INFO, "ffffffffffffffff", None, "another process"),
        (&promoted, "e3385d977718fb13", None, "before it was promoted"),
        (
            &promoted,
            "e3385d977718fb13-8371b4fb1155b71f",
            long,
            "since it was promoted",
        ),
    ] {
        assert_eq!(age(server, run).await, counts, "{why}");
    }
    let list = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let peer = connect(plain().says("GET", list)).await.expect("it will do");
    assert_eq!(peer.record, None, "no record of ours");
    let denied = "-NOPERM No permissions to access a key";
    assert!(
        refusal(plain().says("GET", denied))
            .await
            .starts_with("it denies access: NOPERM")
    );
}

/// A command that the protocol needs has another name there. No connection would ever be set up.
#[tokio::test]
async fn a_renamed_command_is_refused_by_name() {
    for command in ["INFO", "TIME", "GET"] {
        let refused = refusal(plain().knows_no(command)).await;
        let expected = format!("it denies access: ERR unknown command '{command}'");
        assert!(refused.starts_with(&expected), "{refused}");
    }
}

/// Each server lacks one capability, and no other one is reported missing.
#[tokio::test]
async fn what_is_missing_is_found_out() {
    let none = |command| plain().knows_no(command);
    let kill = "CLIENT KILL of a connection's predecessor";
    assert_eq!(missing(none("CLIENT ID")).await, [kill]);
    assert_eq!(missing(none("CLIENT KILL")).await, [kill]);
    let denied = "-NOPERM User app has no permissions to run the 'client|kill' command";
    assert_eq!(missing(plain().says("CLIENT KILL", denied)).await, [kill]);
    for odd in [info("executable", Some("-")), info("process_id", None)] {
        assert_eq!(
            missing(server_with(&odd)).await,
            [kill, "which run of its process this is"],
            "{odd}"
        );
    }
    // Without a run id, as Dragonfly.
    let nameless = info("run_id", None);
    assert_eq!(
        missing(server_with(&nameless)).await,
        [kill, "which run of its process this is"]
    );
    let nameless = nameless.replace("master_replid:", "odd:");
    let all = [kill, "which run of its process this is", "which server it is"];
    assert_eq!(missing(server_with(&nameless)).await, all);
    // On this server EVAL is hidden, and the other script commands are not.
    assert!(missing(none("EVAL")).await.is_empty());
}

#[tokio::test]
async fn what_breaks_a_promise_is_refused_by_its_true_name() {
    let garnet = format!("{INFO}garnet_version:1.0.50\r\n");
    let refused = refusal(server_with(&garnet)).await;
    assert!(
        refused.starts_with("it is Garnet 1.0.50, which does not run scripts atomically"),
        "{refused}"
    );
    let no_lua = "-ERR Could not find scripting engine 'lua'";
    let without = plain().says("EVAL", no_lua).says("SCRIPT LOAD", no_lua);
    assert!(
        refusal(without)
            .await
            .starts_with("it runs no Lua scripts (ERR Could not find")
    );
    let silent = server_with(&info("maxmemory", None).replace("maxmemory_policy:", "odd:"));
    assert!(
        refusal(silent)
            .await
            .starts_with("it does not say whether it evicts")
    );
}

#[tokio::test]
async fn a_role_that_info_does_not_tell_is_asked_for() {
    let silent = || server_with(&info("role", None));
    assert!(
        refusal(silent())
            .await
            .starts_with("it does not say whether it is a master")
    );
    let role = |role: &str| silent().says("ROLE", &format!("*3\r\n${}\r\n{role}\r\n:0\r\n*0", role.len()));
    assert!(missing(role("master")).await.is_empty());
    assert!(
        refusal(role("slave"))
            .await
            .starts_with("it is a replica, not a master")
    );
}

/// A server with RESP2 has two connections of a client, and their successors end both.
#[tokio::test]
async fn a_server_without_resp3_has_two_connections() {
    for said in [
        "-NOPROTO unsupported protocol version",
        "-ERR unknown command `HELLO`, with args beginning with: `3`, ",
        "-ERR unsupported command 'HELLO'",
    ] {
        let stand_in = StandIn::alone(plain().says("HELLO", said)).await;
        let peer = connect_to(&stand_in, None).await.expect("it will do");
        assert_eq!(peer.capabilities.missing(), ["RESP3"], "{said}");
        assert_eq!((peer.client_ids.clone(), stand_in.connections()), (vec![7, 7], 2));
        assert_eq!(ended(&stand_in, Some(&peer)).await, [7, 7]);
        assert_eq!(ended(&stand_in, None).await, [NOBODY]);
        let other = Identity {
            run_id: "another".to_owned(),
            ..peer.identity.clone()
        };
        let other = Peer {
            identity: other,
            ..peer
        };
        assert_eq!(ended(&stand_in, Some(&other)).await, [NOBODY]);
    }
}

/// Valkey from 9.1 on with a renamed HELLO, and a proxy that forwards nothing before AUTH.
#[tokio::test]
async fn a_server_that_answers_nothing_before_auth_is_asked_again_after_it() {
    let guarded = || plain().says("HELLO 3 AUTH", "-NOAUTH Authentication required.");
    let logged_in = || guarded().says("AUTH", "+OK");
    let greeting = ["HELLO 3 AUTH default s3cret", "AUTH s3cret", "HELLO 3"];
    for (script, missing, connections) in [
        (logged_in().knows_no("HELLO"), &["RESP3"][..], 2),
        (logged_in(), &[], 1),
    ] {
        let stand_in = StandIn::alone(script).await;
        let url = format!("redis://:s3cret@{}", stand_in.label());
        let peer = connect_at(url, None).await.expect("it will do");
        assert_eq!(peer.capabilities.missing(), missing);
        assert_eq!(stand_in.connections(), connections);
        let commands = stand_in.received();
        assert_eq!(commands[..3], greeting, "{commands:?}");
        let auths = commands.iter().filter(|command| command.starts_with("AUTH"));
        assert_eq!(auths.count(), connections, "once a connection: {commands:?}");
    }
    let wrong = guarded().says(
        "AUTH",
        "-WRONGPASS invalid username-password pair or user is disabled.",
    );
    let stand_in = StandIn::alone(wrong).await;
    let url = format!("redis://:s3cret@{}", stand_in.label());
    let refused = connect_at(url, None).await.expect_err("not let in").to_string();
    assert!(refused.starts_with("it denies access: WRONGPASS"), "{refused}");
    // Without a password the client cannot log in.
    let stand_in = StandIn::alone(plain().says("HELLO", "-NOAUTH Authentication required.")).await;
    let refused = connect_to(&stand_in, None)
        .await
        .expect_err("not let in")
        .to_string();
    assert!(refused.starts_with("it denies access: NOAUTH"), "{refused}");
    assert!(
        !stand_in
            .received()
            .iter()
            .any(|command| command.starts_with("AUTH"))
    );
}

/// Connections that this one ends as the successor of another.
async fn ended(stand_in: &StandIn, predecessor: Option<&Peer>) -> Vec<i64> {
    stand_in.forget();
    connect_to(stand_in, predecessor).await.expect("it will do");
    let ended = stand_in.received().into_iter();
    let id = |command: String| command.strip_prefix("CLIENT KILL ID ")?.parse().ok();
    ended.filter_map(id).collect()
}

/// The server has closed the connection before the client, which waits for its credentials, sends its first call.
#[tokio::test]
async fn a_server_that_refuses_a_connection_is_quoted() {
    const WORDS: &str = "ERR max number of clients reached";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let has_closed = Arc::new(Notify::new());
    let closed = Arc::clone(&has_closed);
    let _refusing = AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.write_all(format!("-{WORDS}\r\n").as_bytes()).await;
            drop(client);
            closed.notify_one();
        }
    }));
    let provider = Provider::new(move || {
        let has_closed = Arc::clone(&has_closed);
        async move {
            has_closed.notified().await;
            Ok(Credentials::password("s3cret"))
        }
    });
    let server = Server {
        credentials: Some(provider),
        ..server_at(url)
    };
    for _ in 0..20 {
        let refused = set_up(&server, None).await;
        assert_eq!(refused.expect_err("refused").to_string(), WORDS);
    }
}

/// A port that ends the connection may expect TLS. The port of a master that was in use without TLS does not.
#[tokio::test]
async fn tls_is_no_guess_for_a_master_that_was_in_use_without_it() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let _ending = AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 64]).await;
        }
    }));
    let known = connect(plain()).await.expect("it will do");
    for predecessor in [None, Some(&known)] {
        let ended = connect_at(url.clone(), predecessor).await;
        let reason = ended.expect_err("ended").to_string();
        assert_eq!(
            reason.contains("may expect TLS"),
            predecessor.is_none(),
            "{reason}"
        );
    }
}

/// A name with the addresses of two servers, and of one that does not answer.
#[tokio::test]
async fn addresses_of_other_servers_are_found() {
    let of = async |run: &str| {
        let script = server_with(&info("run_id", Some(&run.repeat(40)))).knows_no("ACL");
        let stand_in = StandIn::alone(script).await;
        let address: SocketAddr = stand_in.label().parse().expect("an address");
        (stand_in, address)
    };
    let ((one, first), (_two, second), (_again, third)) = (of("a").await, of("b").await, of("a").await);
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let server = server_at(one.url());
    let examined = server.examine(false).await.expect("it answers");
    assert_eq!(examined.facts.other_servers, [], "one address");
    for (addresses, others) in [
        (vec![first, second, third, dead], vec![second]),
        (vec![first, third, dead], Vec::new()),
    ] {
        server.lookup.finds(addresses).await;
        assert_eq!(server.other_servers(&examined.identity).await, others);
    }
}

/// A port may be a proxy's that closes each connection. All addresses accept at once, and the first of them wins.
#[tokio::test]
async fn the_attempt_after_one_that_failed_begins_with_the_next_address() {
    let closing = async || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        address
    };
    for script in [plain(), plain().knows_no("HELLO")] {
        let good = StandIn::alone(script).await;
        let url = good.url();
        let address = url.trim_start_matches("redis://").parse().expect("an address");
        let addresses = vec![closing().await, closing().await, address];
        let server = server_at(url);
        let mut failures = 0;
        let attempt = async || {
            server.lookup.finds(addresses.clone()).await;
            set_up(&server, None).await
        };
        while attempt().await.is_err() {
            failures += 1;
            assert!(failures < 3, "the last address was not tried");
        }
        // It stays with that address.
        attempt().await.expect("it will do");
    }
}
