//! Connecting: every way to reach a master works, every server that cannot be one of the masters is
//! refused by name and with the reason, and nothing that is secret is repeated.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use crate::support::{
    Cluster, Direction, PATIENT, Proxy, Server, WITHIN, child, connect, heard_from_all, held_everywhere,
    in_a_child, is_child, label, patient, three, until, until_free, vote, within,
};
use multilock::{
    ConnectError, LockError, Masters, NodeError, NodeVote, Policy, Quarantine, Unfit, Unlocked, Vote,
};
use redis::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// The refusal of `urls` where all of them are to be fit, and how it reads.
async fn refusal<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> (ConnectError, String) {
    let connecting = patient(urls).require_all(true).connect();
    let error = connecting.await.expect_err("must be refused");
    let text = error.to_string();
    (error, text)
}

/// `url` with two masters that are well beside it; the odd one is in the middle.
fn between(cluster: &Cluster, url: String) -> Vec<String> {
    vec![cluster.server(0).url(), url, cluster.server(1).url()]
}

#[track_caller]
fn assert_unfit(error: &ConnectError, node: &str, why: &Unfit) {
    let ConnectError::Unfit {
        node: named, reason, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((&**named, reason), (node, why));
}

/// Locks and unlocks on all masters.
async fn works(masters: &Masters) {
    let guard = masters.multi_lock("works").try_lock().await.expect("free");
    assert_eq!(guard.votes().granted(), masters.len());
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

async fn text(server: &Server, args: &[&str]) -> String {
    redis::from_redis_value(server.command(args).await).expect("text")
}

#[tokio::test]
async fn no_nodes() {
    let (error, text) = refusal(Vec::<String>::new()).await;
    assert!(matches!(error, ConnectError::Invalid(_)), "{error:?}");
    assert_eq!(
        text,
        "nodes: 0 is not allowed; allowed: 1 to 64 masters (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)"
    );
}

#[tokio::test]
async fn bad_urls() {
    for url in [
        "localhost:6379",
        "http://localhost:6379",
        "redis://me:secret@localhost/notanumber",
        "redis://me:secret@localhost:port",
        "redis://me:secret@localhost/-1",
        "rediss://me:secret@localhost/#insecure",
    ] {
        let (error, text) = refusal(["redis://127.0.0.1:1", url]).await;
        assert!(
            matches!(&error, ConnectError::Invalid(invalid) if invalid.field == "node"),
            "{text}"
        );
        assert!(text.contains("allowed: redis://"), "{text}");
        assert!(!format!("{error:?} {text}").contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_database_that_the_server_does_not_have() {
    let cluster = Cluster::start(3).await;
    let odd = format!("{}/99", cluster.server(2).url());
    let (error, text) = refusal(between(&cluster, odd)).await;
    let error_text = "SELECT 99: ERR DB index is out of range".to_owned();
    assert_unfit(
        &error,
        &label(cluster.server(2)),
        &Unfit::Denied { error: error_text },
    );
    assert!(text.contains("SELECT 99"), "{text}");
}

#[tokio::test]
async fn the_same_server_twice() {
    let cluster = Cluster::start(2).await;
    let port = cluster.server(0).port();
    for twin in [
        cluster.server(0).url(),
        format!("redis://localhost:{port}"),
        format!("redis://127.0.0.1:{port}/1"),
    ] {
        let urls = [cluster.server(0).url(), cluster.server(1).url(), twin.clone()];
        let (error, text) = refusal(urls).await;
        let ConnectError::Unfit {
            node,
            reason: Unfit::SameServer { other },
            ..
        } = &error
        else {
            panic!("{twin}: {text}");
        };
        // Whichever of the two was the first.
        for name in [node, other] {
            assert!(name.ends_with(&format!(":{port}")), "{text}");
        }
        assert!(
            text.contains("cannot be used: it is the same server as"),
            "{text}"
        );
    }
}

/// The addresses of all masters change places, without a restart: the servers are the same, so they vote as
/// soon as they are connected, and none of them is its own twin for more than a moment.
#[tokio::test]
async fn addresses_change_places() {
    let cluster = Cluster::start(3).await;
    let stranger = Server::start_with(&[]).await;
    let mut proxies = Vec::new();
    for server in cluster.servers() {
        proxies.push(Proxy::start(server.port()).await);
    }
    let lease = Duration::from_secs(6);
    let builder = patient(proxies.iter().map(Proxy::url)).quarantine(Quarantine::Auto);
    let builder = builder.node_timeout(lease / 3);
    let masters = builder.for_tests(lease).connect().await.expect("masters");
    let guard = masters.red_lock("a").lock().await.expect("after the quarantine");
    let votes = async || {
        let other = masters.red_lock("b").lock().await.expect("two are well");
        heard_from_all(&other).await;
        other.votes()
    };
    until("all vote", async || votes().await.granted() == 3).await;
    for shift in 1..=2 {
        for (place, proxy) in proxies.iter().enumerate() {
            proxy.point_to(cluster.server((place + shift) % 3).port());
        }
        for proxy in &proxies {
            proxy.reset_connections().await;
        }
        until("all vote", async || {
            let votes = votes().await;
            let quarantined = |node: &NodeVote| matches!(node.vote, Vote::Quarantined { .. });
            assert!(!votes.iter().any(quarantined), "{votes}");
            votes.granted() == 3
        })
        .await;
        assert!(guard.is_valid());
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // A server that is new to the client has none until it is known for long enough.
    proxies[0].point_to(stranger.port());
    proxies[0].reset_connections().await;
    until("the stranger is heard", async || {
        let vote = vote(&votes().await, 0);
        assert_ne!(vote, Vote::Granted);
        matches!(vote, Vote::Quarantined { .. })
    })
    .await;
}

#[tokio::test]
async fn a_replica() {
    let cluster = Cluster::start(2).await;
    let original = Server::start_with(&["--repl-diskless-sync-delay", "0"]).await;
    let port = original.port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    until("it is in step", async || {
        let info = text(&replica, &["INFO", "replication"]).await;
        info.contains("master_link_status:up")
    })
    .await;
    let (error, text) = refusal(between(&cluster, replica.url())).await;
    assert_unfit(&error, &label(&replica), &Unfit::Replica);
    let node = label(&replica);
    assert_eq!(
        text,
        format!(
            "{node} cannot be used: it is a replica, not a master (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#replica)"
        )
    );
}

#[tokio::test]
async fn a_node_of_a_cluster() {
    let cluster = Cluster::start(2).await;
    let node = Server::start_with(&["--cluster-enabled", "yes"]).await;
    let (error, text) = refusal(between(&cluster, node.url())).await;
    assert_unfit(&error, &label(&node), &Unfit::Cluster);
    assert!(text.contains("a node of a Redis Cluster"), "{text}");
}

#[tokio::test]
async fn a_server_that_evicts() {
    let cluster = Cluster::start(2).await;
    let evicting = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let (error, text) = refusal(between(&cluster, evicting.url())).await;
    let policy = "allkeys-lru".to_owned();
    assert_unfit(&error, &label(&evicting), &Unfit::Evicts { policy });
    assert!(text.contains("maxmemory-policy allkeys-lru"), "{text}");
    let allowed = patient(between(&cluster, evicting.url())).allow_eviction(true);
    works(&allowed.connect().await.expect("allowed")).await;
    // A limit alone does not evict, nor does a policy without a limit.
    evicting
        .command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
        .await;
    works(&connect(between(&cluster, evicting.url())).await).await;
    evicting.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    evicting
        .command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await;
    works(&connect(between(&cluster, evicting.url())).await).await;
}

#[tokio::test]
async fn passwords() {
    let cluster = Cluster::start(2).await;
    let locked = Server::start_with(&["--requirepass", "topsecret"]).await;
    let at = label(&locked);
    let (without, wrong) = (format!("redis://{at}"), format!("redis://:notsosecret@{at}"));
    for (url, word) in [(without, "NOAUTH"), (wrong, "WRONGPASS")] {
        let (error, text) = refusal(between(&cluster, url)).await;
        let ConnectError::Unfit {
            node,
            reason: Unfit::Denied { .. },
            ..
        } = &error
        else {
            panic!("{text}");
        };
        assert_eq!(**node, at);
        // In whichever words it comes, a reader must see that it is about logging in.
        let about_login = text.contains(word) || text.to_lowercase().contains("auth");
        assert!(text.contains("it denies access: ") && about_login, "{text}");
        assert!(!format!("{error:?} {text}").contains("secret"), "{text}");
    }
    works(&connect(between(&cluster, locked.url())).await).await;
}

#[tokio::test]
async fn users() {
    let servers = three_with(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]).await;
    let masters = connect(servers.iter().map(|server| as_user("app:secret", server))).await;
    works(&masters).await;
    let (error, text) = refusal(servers.iter().map(|server| as_user("nobody:secret", server))).await;
    let denied = matches!(
        &error,
        ConnectError::Unfit {
            reason: Unfit::Denied { .. },
            ..
        }
    );
    assert!(denied, "{text}");
    assert!(!format!("{error:?} {text}").contains("secret"), "{text}");
}

/// A server that knows neither HELLO nor AUTH, and says so as Redis does: it repeats the words that it received.
#[tokio::test]
async fn a_server_that_repeats_what_it_is_sent() {
    let cluster = Cluster::start(2).await;
    let (port, serving) = fake(|command| {
        let mut words = command.split(' ');
        let name = words.next().unwrap_or_default();
        let args: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        let args = args.join(" ");
        format!("-ERR unknown command '{name}', with args beginning with: {args}\r\n")
    })
    .await;
    let url = format!("redis://somebody:sup3rs3cret@127.0.0.1:{port}");
    let (error, text) = refusal(between(&cluster, url)).await;
    let shown = format!("{error:?} {text}").to_lowercase();
    assert!(text.contains("it denies access: ERR ("), "{text}");
    assert!(
        !shown.contains("sup3rs3cret") && !shown.contains("somebody"),
        "{text}"
    );
    serving.abort();
}

#[tokio::test]
async fn urls_of_odd_shapes_are_not_repeated() {
    for url in [
        "me:secret@localhost:6379",
        "unix:///run/s?db=x&pass=secret",
        "localhost:6379?password=secret",
        "redis://me:1/secret@localhost",
    ] {
        let builder = Masters::builder().node("redis://me:secret@localhost").node(url);
        let debugged = format!("{builder:?}");
        let error = builder.connect().await.expect_err("no URL");
        let shown = format!("{debugged} {error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(error.to_string().starts_with("node: number 2, "), "{error}");
    }
}

/// A server that knows no HELLO, and so no RESP3, is logged in to as of old.
#[tokio::test]
async fn a_server_without_resp3() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let command = ["--rename-command", "HELLO", "", "--requirepass", "topsecret"];
        servers.push(Server::start_with(&command).await);
    }
    let wrong = servers.iter().map(|server| as_user(":notsosecret", server));
    let (error, text) = refusal(wrong).await;
    let denied = matches!(
        &error,
        ConnectError::Unfit {
            reason: Unfit::Denied { .. },
            ..
        }
    );
    assert!(denied && text.contains("WRONGPASS"), "{text}");
    let masters = connect(servers.iter().map(|server| format!("{}/3", server.url()))).await;
    works(&masters).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in &servers {
        let keyspace = self::text(server, &["INFO", "keyspace"]).await;
        assert!(keyspace.contains("db3:"), "{keyspace}");
    }
    let other = connect(servers.iter().map(|server| format!("{}/3", server.url()))).await;
    let waiting = tokio::spawn(async move { other.red_lock("a").wait(WITHIN).lock().await });
    sleep(Duration::from_millis(50)).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let next = waiting.await.expect("no panic").expect("free");
    assert_eq!(next.unlock().await, Ok(Unlocked::Released));
}

async fn three_with(command: &[&str]) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = Server::start_with(&[]).await;
        server.command(command).await;
        servers.push(server);
    }
    servers
}

fn as_user(credentials: &str, server: &Server) -> String {
    format!("redis://{credentials}@{}", label(server))
}

/// As the default user it would have other rights.
#[tokio::test]
async fn a_user_without_a_password_logs_in_all_the_same() {
    let servers = three_with(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all"]).await;
    for credentials in ["app", "app:"] {
        let masters = connect(servers.iter().map(|server| as_user(credentials, server))).await;
        works(&masters).await;
        for server in &servers {
            let clients = text(server, &["CLIENT", "LIST"]).await;
            let ours: Vec<_> = clients
                .lines()
                .filter(|line| line.contains("name=multilock"))
                .collect();
            assert!(!ours.is_empty(), "{clients}");
            assert!(ours.iter().all(|line| line.contains("user=app")), "{clients}");
        }
    }
    let (error, text) = refusal(servers.iter().map(|server| as_user("nosuch", server))).await;
    let reason = matches!(
        &error,
        ConnectError::Unfit {
            reason: Unfit::Denied { .. },
            ..
        }
    );
    assert!(reason && text.contains("WRONGPASS"), "{text}");
}

#[tokio::test]
async fn a_user_who_may_neither_load_scripts_nor_run_them() {
    let rules = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "~*",
        "&*",
        "+@all",
        "-eval",
        "-script|load",
    ];
    let servers = three_with(&rules).await;
    // The masters know their set, and have lost the scripts.
    connect(servers.iter().map(Server::url)).await;
    for server in &servers {
        server.command(&["SCRIPT", "FLUSH"]).await;
    }
    let (error, text) = refusal(servers.iter().map(|server| as_user("app:secret", server))).await;
    let reason = matches!(
        &error,
        ConnectError::Unfit {
            reason: Unfit::Denied { .. },
            ..
        }
    );
    assert!(reason && text.contains("eval"), "{text}");
}

#[tokio::test]
async fn a_user_who_may_not_ask_who_the_server_is() {
    let rules = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info",
    ];
    let servers = three_with(&rules).await;
    let (error, text) = refusal(servers.iter().map(|server| as_user("app:secret", server))).await;
    let ConnectError::Unfit {
        node,
        reason: Unfit::Denied { error },
        ..
    } = &error
    else {
        panic!("{text}");
    };
    assert!(servers.iter().any(|server| label(server) == **node), "{text}");
    assert!(
        error.contains("NOPERM") && error.to_lowercase().contains("info"),
        "{text}"
    );
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts() {
    let rules = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval",
    ];
    let servers = three_with(&rules).await;
    let urls = servers.iter().map(|server| as_user("app:secret", server));
    let text = match patient(urls).connect().await {
        Err(error) => error.to_string(),
        Ok(masters) => {
            // No wait is set: it would wait for ever if it took this for something that passes.
            let lock = masters.red_lock("a");
            let error = within("it is told at once", lock.lock())
                .await
                .expect_err("denied");
            assert!(matches!(error, LockError::Misconfigured { .. }), "{error}");
            error.to_string()
        }
    };
    assert!(text.contains("NOPERM"), "{text}");
    assert!(
        servers.iter().any(|server| text.contains(&label(server))),
        "{text}"
    );
    for server in &servers {
        assert_eq!(server.keys().await, Vec::<String>::new());
    }
}

/// Commands inside scripts are probed. A master that denies one of them is refused with the command's name, and
/// nothing is left of the probe.
#[tokio::test]
async fn a_user_who_may_not_run_one_command_inside_a_script() {
    let rules = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*"];
    let servers = three_with(&rules).await;
    for lacking in ["hdel", "del", "pexpire", "set", "exists", "hset", "zadd"] {
        for server in &servers {
            let deny = format!("-{lacking}");
            server.command(&[&rules[..], &["+@all", &deny]].concat()).await;
            server.reset_stats().await;
        }
        let (error, text) = refusal(servers.iter().map(|server| as_user("app:secret", server))).await;
        let ConnectError::Unfit {
            reason: Unfit::Denied { error },
            ..
        } = &error
        else {
            panic!("{text}");
        };
        assert_eq!(error, &format!("the user may not run {lacking} in a script"));
        for server in &servers {
            assert_eq!(server.keys().await, Vec::<String>::new(), "-{lacking}");
        }
    }
}

/// The lines of the ACL of docs/servers.md, each word of it.
fn acl() -> Vec<&'static str> {
    let page = include_str!("../../docs/servers.md");
    let (_, acl) = page.split_once("ACL SETUSER").expect("an ACL");
    let (acl, _) = acl.split_once("```").expect("the end of a block");
    ["ACL", "SETUSER"]
        .into_iter()
        .chain(acl.split_whitespace())
        .collect()
}

/// The ACL of docs/servers.md, to the letter: with it everything can be done, and every word of it is needed.
#[tokio::test]
async fn the_acl_of_the_docs() {
    let names = ["~a", "~b", "~gpu*"];
    for (strict, database) in [(false, ""), (false, "/3"), (true, "")] {
        let words: Vec<&str> = acl()
            .into_iter()
            .filter(|word| !database.is_empty() || *word != "+select")
            .collect();
        let servers = three_with(&[&words[..], &names].concat()).await;
        let urls = servers
            .iter()
            .map(|server| as_user("app:secret", server) + database);
        let masters = patient(urls).strict(strict).connect().await.expect("allowed");
        let lock = masters.multi_lock(["a", "b"]).wait(PATIENT);
        let guard = lock.lock().await.expect("free");
        guard.extend(Duration::from_secs(30)).await.expect("held");
        // On other terms, so that it waits on the masters.
        let waiting = tokio::spawn({
            let lock = lock.clone().fair();
            async move { lock.lock().await }
        });
        guard.wanted().await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        let guard = waiting.await.expect("no panic").expect("free");
        let inspection = lock.inspect().await.expect("looks").remove(0);
        assert!(inspection.agreed.is_some(), "{inspection:?}");
        let forced = lock.force_release().await.expect("all are well");
        assert_eq!(forced.votes.granted(), 3, "{}", forced.votes);
        drop(guard);
        let permits = masters.permits("gpu", 1).wait(PATIENT);
        let permit = permits.lock().await.expect("a seat");
        let waiting = tokio::spawn({
            let permits = permits.clone();
            async move { permits.lock().await }
        });
        let impatient = permits.clone().wait(Duration::from_millis(300)).lock().await;
        assert!(impatient.is_err(), "the only seat is held");
        permit.unlock().await.expect("held");
        drop(waiting.await.expect("no panic").expect("free"));
        for server in &servers {
            let log = self::list(server, &["ACL", "LOG"]).await;
            assert!(
                log.iter().all(|entry| entry.contains("setinfo")),
                "strict {strict} {database:?}: {log:?}"
            );
        }
    }
}

async fn list(server: &Server, args: &[&str]) -> Vec<String> {
    match server.command(args).await {
        Value::Array(entries) => entries.iter().map(|entry| format!("{entry:?}")).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn too_few() {
    let cluster = Cluster::start(1).await;
    let (refusing, silent) = (
        Proxy::start(1).await,
        Proxy::start(cluster.server(0).port()).await,
    );
    refusing.cut().await;
    silent.pause(Direction::ToClient);
    let urls = [refusing.url(), cluster.server(0).url(), silent.url()];
    let begun = Instant::now();
    let builder = patient(urls).connect_timeout(Duration::from_secs(4));
    let error = builder.connect().await.expect_err("one of three");
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    let ConnectError::TooFew {
        reached: 1,
        needed: 2,
        nodes,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    for (place, (node, said)) in nodes.iter().enumerate() {
        let url = [refusing.url(), cluster.server(0).url(), silent.url()][place].clone();
        assert_eq!(format!("redis://{node}"), url);
        assert_eq!(said.is_none(), place == 1, "{error}");
    }
    assert!(
        matches!(&nodes[0].1, Some(NodeError::Unavailable(why)) if why.contains("refused")),
        "{error}"
    );
    assert!(
        match &nodes[2].1 {
            Some(NodeError::Unavailable(why)) => why.contains("no answer"),
            other => *other == Some(NodeError::Connecting),
        },
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.starts_with("only 1 of 3 masters can be used, 2 are needed (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#too-few): "),
        "{text}"
    );
    assert!(
        text.contains(&format!("{}: connected", label(cluster.server(0)))),
        "{text}"
    );
}

#[tokio::test]
async fn a_minority_that_is_down_is_connected_later() {
    let cluster = Cluster::start(5).await;
    let (refusing, silent) = (
        Proxy::start(cluster.server(1).port()).await,
        Proxy::start(cluster.server(3).port()).await,
    );
    refusing.cut().await;
    silent.pause(Direction::ToClient);
    let mut urls = cluster.urls();
    (urls[1], urls[3]) = (refusing.url(), silent.url());
    let builder = patient(urls).connect_timeout(Duration::from_secs(4));
    let masters = builder.connect().await.expect("three of five");
    assert_eq!(masters.len(), 5);
    let guard = masters.red_lock("a").try_lock().await.expect("three of five");
    for place in [1, 3] {
        assert!(
            matches!(vote(&guard.votes(), place), Vote::NotSent { .. }),
            "{}",
            guard.votes()
        );
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    refusing.heal();
    silent.resume(Direction::ToClient);
    until("all five vote", async || {
        masters.multi_lock("a").try_lock().await.is_ok()
    })
    .await;
    until_free(cluster.servers(), "a").await;
}

type Commands<'a> = &'a [&'a [&'a str]];

/// A failover, a setting or a permission that is being changed on one of three: services start, and go on.
#[tokio::test]
async fn a_majority_of_fit_masters_is_enough() {
    let servers = three(&["--repl-diskless-sync-delay", "0"]).await;
    let original = Server::start_with(&[]).await;
    let odd = &servers[1];
    let port = original.port().to_string();
    let rows: [(Commands<'_>, Commands<'_>, &str); 3] = [
        (
            &[
                &["CONFIG", "SET", "maxmemory", "100mb"],
                &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
            ],
            &[&["CONFIG", "SET", "maxmemory-policy", "noeviction"]],
            "maxmemory-policy allkeys-lru",
        ),
        (
            &[&["REPLICAOF", "127.0.0.1", &port]],
            &[&["REPLICAOF", "NO", "ONE"]],
            "it is a replica",
        ),
        (
            &[&["ACL", "SETUSER", "default", "-info"]],
            &[&["ACL", "SETUSER", "default", "+info"]],
            "it denies access",
        ),
    ];
    for (spoil, mend, why) in rows {
        for command in spoil {
            odd.command(command).await;
        }
        let masters = connect(servers.iter().map(Server::url)).await;
        let status = masters.status();
        let reason = status.nodes[1].connection.as_ref().expect_err("it is unfit");
        assert!(
            matches!(reason, NodeError::Unfit(_)) && reason.to_string().contains(why),
            "{reason}"
        );
        assert_eq!(status.voting(), 2, "{status:?}");
        let guard = masters.red_lock("a").try_lock().await.expect("two are fit");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        let (error, text) = refusal(servers.iter().map(Server::url)).await;
        assert!(
            matches!(error, ConnectError::Unfit { .. }) && text.contains(why),
            "{text}"
        );
        for command in mend {
            odd.command(command).await;
        }
        within("it is fit", masters.ready(Policy::MultiLock))
            .await
            .expect("not closed");
        works(&masters).await;
    }
    // Two of three are too many.
    for server in &servers[..2] {
        server
            .command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
            .await;
        server.command(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
    }
    let refused = patient(servers.iter().map(Server::url)).connect().await;
    assert!(matches!(refused, Err(ConnectError::Unfit { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_late_comer_that_is_unfit_never_votes() {
    let cluster = Cluster::start(2).await;
    let other = Server::start_with(&["--cluster-enabled", "yes"]).await;
    let proxy = Proxy::start(other.port()).await;
    proxy.cut().await;
    let masters = connect(between(&cluster, proxy.url())).await;
    proxy.heal();
    until("the vote says why there is none", async || {
        let guard = masters.red_lock("a").try_lock().await.expect("two are well");
        match vote(&guard.votes(), 1) {
            Vote::NotSent { reason } => reason.contains("Redis Cluster"),
            other => panic!("{other}"),
        }
    })
    .await;
}

/// Number of connections that clients of this crate make, which begin with HELLO. Attempts at 250 ms to 500 ms from each
/// other would be 20 or more.
async fn connections_in_ten_seconds(server: &Server) -> u64 {
    let greeted = async || server.commandstats().await.get("hello").copied().unwrap_or(0);
    let before = greeted().await;
    sleep(Duration::from_secs(10)).await;
    greeted().await - before
}

/// The servers let such a client in, and it leaves by itself when it has read which set they are of.
#[tokio::test]
async fn servers_of_another_set_are_connected_to_after_pauses_that_grow() {
    let cluster = Cluster::start(3).await;
    works(&connect(cluster.urls()).await).await;
    let two = cluster.urls().into_iter().take(2);
    let _lazy = patient(two).connect_lazy().expect("a list that can be used");
    let made = connections_in_ten_seconds(cluster.server(0)).await;
    assert!((1..=9).contains(&made), "{made} connections");
}

/// Each attempt is a connection and a look at the server. Of an operator's many clients, none may hammer a server that
/// only a change of its configuration makes fit.
#[tokio::test]
async fn an_unfit_server_is_connected_to_after_pauses_that_grow() {
    let cluster = Cluster::start(2).await;
    let other = Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let masters = connect(between(&cluster, other.url())).await;
    let made = connections_in_ten_seconds(&other).await;
    assert!((1..=9).contains(&made), "{made} connections");
    other
        .command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
        .await;
    within("it is fit", async { masters.ready(Policy::MultiLock).await })
        .await
        .expect("open");
}

#[tokio::test]
async fn the_database_of_the_url_is_used() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls().iter().map(|url| format!("{url}/3"))).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for server in cluster.servers() {
        assert!(!server.exists("a").await, "not in database 0");
        let keyspace = text(server, &["INFO", "keyspace"]).await;
        assert!(
            keyspace.contains("db3:") && !keyspace.contains("db0:"),
            "{keyspace}"
        );
    }
    // Another database is another name.
    let elsewhere = connect(cluster.urls()).await;
    works(&elsewhere).await;
    let other = elsewhere.multi_lock("a").try_lock().await.expect("free there");
    assert_eq!(other.unlock().await, Ok(Unlocked::Released));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // A new connection is in the same database.
    for server in cluster.servers() {
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    }
    let guard = masters.multi_lock("a").wait(PATIENT).lock().await.expect("free");
    for server in cluster.servers() {
        assert!(!server.exists("a").await, "not in database 0");
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::start_with(&["--unixsocket", "{dir}/redis.sock"]).await);
    }
    let path = |server: &Server| format!("{}/redis.sock", server.dir().display());
    let masters = connect(servers.iter().map(|server| format!("unix://{}", path(server)))).await;
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    for (server, vote) in servers.iter().zip(&guard.votes()) {
        assert!(server.exists("a").await);
        assert_eq!(*vote.node, path(server));
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // The same server by its port is the same server.
    let urls = [
        servers[0].url(),
        format!("unix://{}", path(&servers[0])),
        servers[1].url(),
    ];
    let (error, text) = refusal(urls).await;
    let same = matches!(
        &error,
        ConnectError::Unfit {
            reason: Unfit::SameServer { .. },
            ..
        }
    );
    assert!(same, "{text}");
}

/// A server of the size of a test: it answers as `answer` says, a command given in capitals.
async fn fake(answer: impl Fn(&str) -> String + Send + Sync + Copy + 'static) -> (u16, AbortHandle) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer));
        }
    });
    (port, serving.abort_handle())
}

async fn serve(stream: TcpStream, answer: impl Fn(&str) -> String) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let count: usize = line.trim_end()[1..].parse().expect("an array");
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let length: usize = line.trim_end()[1..].parse().expect("a string");
            let mut word = vec![0; length + 2];
            stream.read_exact(&mut word).await?;
            words.push(String::from_utf8_lossy(&word[..length]).to_uppercase());
        }
        let answer = answer(&words.join(" "));
        stream.get_mut().write_all(answer.as_bytes()).await?;
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

#[tokio::test]
async fn a_server_that_is_too_old() {
    let cluster = Cluster::start(2).await;
    let (port, serving) = fake(|command| match command {
        "INFO" => {
            bulk("redis_version:5.0.0\r\nrun_id:0123456789\r\nrole:master\r\nloading:0\r\nmaxmemory:0\r\n")
        }
        "CLIENT ID" => ":1\r\n".into(),
        "PING" => "+PONG\r\n".into(),
        other if other.starts_with("SELECT") => "+OK\r\n".into(),
        other => {
            let name = other.split(' ').next().unwrap_or_default();
            format!("-ERR unknown command `{name}`, with args beginning with: \r\n")
        }
    })
    .await;
    let (error, text) = refusal(between(&cluster, format!("redis://127.0.0.1:{port}"))).await;
    let (version, needed) = ("5.0.0".to_owned(), "6.0");
    assert_unfit(
        &error,
        &format!("127.0.0.1:{port}"),
        &Unfit::TooOld { version, needed },
    );
    assert!(
        text.ends_with("its version 5.0.0 is older than 6.0 (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#version)"),
        "{text}"
    );
    serving.abort();
}

#[tokio::test]
async fn something_that_is_no_redis() {
    let cluster = Cluster::start(2).await;
    let (port, serving) = fake(|_| "HTTP/1.1 400 Bad Request\r\n\r\n".into()).await;
    let masters = connect(between(&cluster, format!("redis://127.0.0.1:{port}"))).await;
    let guard = masters.red_lock("a").try_lock().await.expect("two are well");
    assert!(
        matches!(vote(&guard.votes(), 1), Vote::NotSent { .. }),
        "{}",
        guard.votes()
    );
    serving.abort();
}

#[tokio::test]
async fn from_the_environment() {
    if is_child() {
        let masters = Masters::from_env().await;
        if let Ok(expected) = std::env::var("MULTILOCK_TEST_EXPECTED") {
            assert_eq!(masters.expect_err("must be refused").to_string(), expected);
            return;
        }
        let masters = masters.expect("masters that can be used");
        works(&masters).await;
        let lock = masters.red_lock("a").lease(Duration::from_secs(13));
        let error = lock
            .try_lock()
            .await
            .expect_err("beyond the lease that was set")
            .to_string();
        assert!(
            error.starts_with("lease: 13s is not allowed; allowed: 4s"),
            "{error}"
        );
        assert!(error.contains(" to 12s"), "{error}");
        return;
    }
    let cluster = Cluster::start(3).await;
    let nodes = cluster.urls().join(", ");
    let test = "connect::from_the_environment";
    let mut unreadable = child(test);
    unreadable.env("MULTILOCK_NODES", &nodes);
    unreadable.env("MULTILOCK_NAMESPACE", OsStr::from_bytes(b"m\xfcnchen"));
    unreadable.env(
        "MULTILOCK_TEST_EXPECTED",
        "MULTILOCK_NAMESPACE: a value that is not UTF-8 is not allowed; allowed: text in UTF-8",
    );
    assert!(unreadable.status().expect("a child").success());
    let usual = [
        ("MULTILOCK_NODES", nodes.as_str()),
        ("MULTILOCK_NODE_TIMEOUT", "2s"),
        ("MULTILOCK_CONNECT_TIMEOUT", "10s"),
        ("MULTILOCK_FOR_TESTS", "12s"),
    ];
    in_a_child(test, &usual).await;
    for (variable, value, expected) in [
        (
            "MULTILOCK_NODES",
            "",
            "MULTILOCK_NODES: not set is not allowed; allowed: URLs separated by commas, or MULTILOCK_NODES_FILE (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)",
        ),
        (
            "MULTILOCK_NODES",
            "redis://localhost:1, localhost:2",
            "MULTILOCK_NODES: number 2, … (no scheme) is not allowed; allowed: redis://[user:password@]host[:port][/db], rediss://… with the feature rustls, or unix:///path/to/socket[?db=n&user=u&pass=p]; in user and password all but letters and digits percent-encoded (a comma is %2C) (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#nodes)",
        ),
        (
            "MULTILOCK_LEASE",
            "soon",
            "MULTILOCK_LEASE: \"soon\" is not allowed; allowed: a duration such as 30s or 50ms, or a number of seconds",
        ),
        (
            "MULTILOCK_LEASE",
            "500",
            "MULTILOCK_LEASE: 8m 20s is not allowed; allowed: 104ms to 30s; a hold is renewed for as long as it lives, and max_hold bounds it",
        ),
        (
            "MULTILOCK_ALLOW_EVICTION",
            "perhaps",
            "MULTILOCK_ALLOW_EVICTION: \"perhaps\" is not allowed; allowed: true or false",
        ),
    ] {
        let variables = [usual[0], (variable, value), ("MULTILOCK_TEST_EXPECTED", expected)];
        in_a_child(test, &variables).await;
    }
    // The child worked on these masters.
    for server in cluster.servers() {
        until_free([server], "works").await;
        let stats = server.commandstats().await;
        assert!(stats.contains_key("evalsha"), "{stats:?}");
    }
}

#[cfg(not(feature = "rustls"))]
#[tokio::test]
async fn tls_needs_its_feature() {
    let (error, text) = refusal(["rediss://localhost:1"]).await;
    assert!(matches!(error, ConnectError::Invalid(_)), "{text}");
}

#[tokio::test]
async fn a_dropped_attempt_leaves_no_connection() {
    let server = Server::start_with(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    proxy.pause(Direction::ToClient);
    let connecting = patient([proxy.url()]).connect();
    let dropped = tokio::time::timeout(Duration::from_millis(200), connecting).await;
    assert!(dropped.is_err(), "nothing was answered");
    proxy.resume(Direction::ToClient);
    until("only the one who asks is connected", async || {
        let clients = server.command(&["CLIENT", "LIST"]).await;
        let Value::BulkString(clients) = clients else {
            panic!("{clients:?}");
        };
        String::from_utf8_lossy(&clients).lines().count() == 1
    })
    .await;
}
