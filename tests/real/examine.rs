//! Answers of servers that are examined, whether they are fit as masters or not.

use std::time::Duration;

use multilock::{Closing, ConnectError, Denial, Masters, NodeError, Quarantine, ServerFacts, Unfit};

use crate::support::{
    Direction, Keep, PATIENT, Proxy, Script, Server, StandIn, WITHIN, connect, held_everywhere, label,
    patient, three, until,
};

fn facts(master: &multilock::Examination) -> &ServerFacts {
    master
        .server
        .as_ref()
        .unwrap_or_else(|error| panic!("{}: {error}", master.node))
}

#[tokio::test]
async fn a_master_tells_what_it_is() {
    let servers = three(&[]).await;
    let masters = connect(servers.iter().map(Server::url)).await;
    let guard = held_everywhere(&masters.multi_lock("a")).await;
    servers[0].reset_stats().await;
    let told = patient(servers.iter().map(Server::url))
        .examine()
        .await
        .expect("a list that can be used");
    assert_eq!(told.len(), 3);
    for (master, server) in told.iter().zip(&servers) {
        assert_eq!(*master.node, label(server));
        let facts = facts(master);
        assert_eq!(facts.refusal, None);
        assert_eq!(facts.role.as_deref(), Some("master"));
        assert_eq!(
            (facts.append_only, facts.append_fsync.as_deref()),
            (Some(true), Some("always"))
        );
        assert_eq!(
            (facts.max_memory, facts.eviction_policy.as_deref()),
            (Some(0), Some("noeviction"))
        );
        assert_eq!(facts.run_id.as_ref().map(String::len), Some(40));
        assert!(
            facts.remembers < Some(Duration::from_secs(60)) && facts.denied.is_empty(),
            "{facts:?}"
        );
        assert!(
            facts.clock_offset_us.abs() < 1_000_000 && facts.round_trip > Duration::ZERO,
            "{facts:?}"
        );
        let clients = facts.clients.as_ref().expect("may be listed");
        // Over RESP3 there is one.
        assert_eq!((clients.len(), clients[0].masters), (1, 3), "{clients:?}");
    }
    let ids: Vec<_> = told
        .iter()
        .map(|master| &facts(master).clients.as_ref().expect("told")[0].pool)
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]) && facts(&told[0]).run_id != facts(&told[1]).run_id);
    let stats = servers[0].commandstats().await;
    for write in ["config|set", "flushall", "script|flush"] {
        assert!(!stats.contains_key(write), "{stats:?}");
    }
    guard.unlock().await.expect("nobody has ended its connections");
}

#[tokio::test]
async fn a_server_that_is_refused_tells_all_the_same() {
    let servers = three(&[]).await;
    let port = servers[0].port().to_string();
    servers[1].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    servers[2].kill().await;
    let old = StandIn::before(
        &servers[0],
        Script::new()
            .fact("redis_version", "5.0.14")
            .without(&["run_id", "master_replid"]),
    )
    .await;
    let urls = [
        servers[0].url(),
        servers[1].url(),
        old.url(),
        servers[2].url(),
        format!("{}/3", servers[0].url()),
    ];
    let told = patient(urls).examine().await.expect("a list that can be used");
    let refusal = |at: usize| facts(&told[at]).refusal.clone();
    assert_eq!(refusal(0), None);
    assert_eq!(refusal(1), Some(NodeError::Unfit(Unfit::Replica)));
    assert_eq!(facts(&told[1]).role.as_deref(), Some("slave"));
    assert!(
        matches!(refusal(2), Some(NodeError::Unfit(Unfit::TooOld { .. }))),
        "{:?}",
        refusal(2)
    );
    assert!(
        matches!(&told[3].server, Err(NodeError::Unavailable(_))),
        "{:?}",
        told[3]
    );
    let other = label(&servers[0]).into();
    assert_eq!(refusal(4), Some(NodeError::Unfit(Unfit::SameServer { other })));
}

/// The quarantine follows from the record. An examination records nothing.
#[tokio::test]
async fn how_long_a_master_would_have_no_vote() {
    let servers = three(&[]).await;
    let builder = || patient(servers.iter().map(Server::url)).for_tests(PATIENT * 3);
    let examine = async |quarantine| {
        let told = builder().quarantine(quarantine).examine().await;
        told.expect("a list that can be used")
    };
    let told = examine(Quarantine::Auto).await;
    let new = facts(&told[0]);
    assert_eq!((new.set, new.remembers), (None, None));
    assert_eq!(new.quarantine, Duration::from_millis(30_302));
    assert!(
        !servers[0].exists("multilock_set").await,
        "looking records nothing"
    );
    let masters = builder().connect().await.expect("masters that can be used");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let told = examine(Quarantine::Auto).await;
    let met = facts(&told[0]);
    let set = met.set.expect("recorded");
    assert_eq!((set.masters, set.for_tests), (3, Some(PATIENT * 3)));
    assert!(met.remembers > Some(Duration::ZERO), "{met:?}");
    assert!(met.quarantine > Duration::ZERO && met.quarantine < Duration::from_millis(30_302));
    let told = examine(Quarantine::Off).await;
    assert_eq!(facts(&told[0]).quarantine, Duration::ZERO);
    masters.close(Closing::Release).await;
    servers[0].restart(Keep::Data).await;
    let told = examine(Quarantine::Auto).await;
    assert_eq!(facts(&told[0]).remembers, None, "another run");
    assert_eq!(facts(&told[0]).set, Some(set));
}

#[tokio::test]
async fn listeners_of_redissons_are_counted_without_the_option() {
    let servers = three(&[]).await;
    let client = redis::Client::open(servers[0].url()).expect("a URL");
    let mut waiter = client.get_async_pubsub().await.expect("a connection");
    for channel in ["redisson_lock__channel:{a}", "redisson_rwlock:{a}", "other"] {
        waiter.subscribe(channel).await.expect("subscribed");
    }
    for (beside, expected) in [(false, [Some(2), Some(0)]), (true, [None, None])] {
        let builder = patient(servers.iter().map(Server::url)).beside_redisson(beside);
        let told = builder.examine().await.expect("a list that can be used");
        let channels = [0, 1].map(|at| facts(&told[at]).redisson_channels);
        assert_eq!(channels, expected);
    }
}

#[tokio::test]
async fn a_user_who_may_do_little() {
    let servers = three(&[]).await;
    let rules = [
        "ACL", "SETUSER", "app", "on", ">secret", "-@all", "+hello", "+info", "+time",
    ];
    servers[0].command(&rules).await;
    let url = format!("redis://app:secret@{}", label(&servers[0]));
    let told = patient([url]).examine().await.expect("a list that can be used");
    let facts = facts(&told[0]);
    let denied = |name: &str| facts.denied.iter().find(|denied| denied.name == name);
    for (name, is_needed) in [
        ("evalsha", true),
        // By one of the two scripts would get there.
        ("eval", true),
        ("script|load", true),
        ("client|id", false),
        ("subscribe", false),
    ] {
        let denied = denied(name).unwrap_or_else(|| panic!("{name}: {facts:?}"));
        assert_eq!(
            (denied.is_needed, denied.why),
            (is_needed, Denial::Command),
            "{name}"
        );
    }
    assert_eq!(
        (&facts.clients, &facts.append_fsync, facts.set),
        (&None, &None, None)
    );
    assert_eq!(facts.append_only, Some(true), "INFO tells it");
    let clients = patient([format!("redis://app:secret@{}", label(&servers[0]))])
        .clients()
        .await;
    let clients = clients.expect("a list that can be used");
    assert!(
        matches!(&clients[0], Err(NodeError::Unfit(Unfit::Denied { .. }))),
        "{clients:?}"
    );
}

#[tokio::test]
async fn a_list_that_cannot_be_used() {
    for nodes in [&[][..], &["nowhere://a"]] {
        let builder = Masters::builder().nodes(nodes.iter().copied());
        assert!(
            matches!(builder.clone().examine().await, Err(ConnectError::Invalid(_))),
            "{nodes:?}"
        );
        assert!(
            matches!(builder.clients().await, Err(ConnectError::Invalid(_))),
            "{nodes:?}"
        );
    }
}

/// If a connection just fits into its timeout, several questions do, too.
#[tokio::test]
async fn a_master_that_is_far_away() {
    let server = Server::start_with(&[]).await;
    let proxy = Proxy::start(server.port()).await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.set_delay(direction, Duration::from_millis(200));
    }
    let builder = patient([proxy.url()]).connect_timeout(WITHIN);
    let told = builder.examine().await.expect("a list that can be used");
    let facts = facts(&told[0]);
    assert!(facts.round_trip >= Duration::from_millis(400), "{facts:?}");
    let half = i64::try_from(facts.round_trip.as_micros() / 2).expect("not long");
    assert!(
        facts.clock_offset_us.abs() <= half && facts.refusal.is_none(),
        "{facts:?}"
    );
}

/// Redis gives a master another replication id when its first replica comes, or a backup by `redis-cli --rdb`, and when the
/// backlog of the last one ends. Nothing is lost by that. By a promotion it may be.
#[tokio::test]
async fn a_memory_counts_beyond_replicas_and_not_beyond_a_promotion() {
    let servers = three(&["--repl-diskless-sync-delay", "0", "--repl-backlog-ttl", "1"]).await;
    let _client = connect(servers.iter().map(Server::url)).await;
    let remembers = async || {
        let told = patient(servers.iter().map(Server::url)).examine().await;
        let told = told.expect("a list that can be used");
        let facts = facts(&told[0]);
        (facts.replication_id.clone(), facts.remembers.is_some())
    };
    let record = async || servers[0].command(&["GET", "multilock_set"]).await;
    let (first, counts) = remembers().await;
    assert!(counts);
    let port = servers[0].port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    until("it is followed", async || remembers().await.0 != first).await;
    let (second, counts) = remembers().await;
    assert!(counts, "its first replica came");
    drop(replica);
    until("its backlog has ended", async || remembers().await.0 != second).await;
    assert!(remembers().await.1, "its backlog has ended");

    let nobody = Proxy::start(servers[2].port()).await;
    nobody.cut().await;
    let nowhere = nobody.port().to_string();
    servers[0].command(&["REPLICAOF", "127.0.0.1", &nowhere]).await;
    servers[0].command(&["REPLICAOF", "NO", "ONE"]).await;
    let (promoted, counts) = remembers().await;
    assert!(!counts, "it was promoted");
    // The record is of its time as a master from here on, also when Redis has forgotten the promotion.
    let _client = connect(servers.iter().map(Server::url)).await;
    let recorded = record().await;
    assert!(remembers().await.1);
    let _replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    until("it is followed", async || remembers().await.0 != promoted).await;
    assert!(remembers().await.1, "the promotion is forgotten");
    let _client = connect(servers.iter().map(Server::url)).await;
    assert_eq!(record().await, recorded, "nothing new was recorded");
}
