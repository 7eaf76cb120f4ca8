//! Servers as they are met in the field: a stand-in answers as each does, in front of a real server that does the
//! work. Every usable server is used, and a server that breaks a promise is refused with the true reason.

use std::time::Duration;

use crate::journal::Journal;
use crate::support::{
    Keep, PATIENT, Script, Server, StandIn, connect, held_everywhere, label, patient, three, undisturbed,
    until, vote,
};
use multilock::{
    ConnectError, LockError, Masters, MastersBuilder, NodeStatus, Quarantine, Unfit, Unlocked, Vote,
};

/// Three servers, and stand-ins that answer in front of them.
struct Met {
    servers: Vec<Server>,
    stand_ins: Vec<StandIn>,
}

impl Met {
    async fn all(script: Script) -> Self {
        Self::before(three(&[]).await, script).await
    }

    async fn before(servers: Vec<Server>, script: Script) -> Self {
        let mut stand_ins = Vec::new();
        for server in &servers {
            stand_ins.push(StandIn::before(server, script.clone()).await);
        }
        Self { servers, stand_ins }
    }

    fn builder(&self) -> MastersBuilder {
        patient(self.stand_ins.iter().map(StandIn::url))
    }

    async fn refusal(&self, builder: MastersBuilder) -> (Unfit, String) {
        let error = builder.require_all(true).connect().await;
        let error = error.expect_err("must be refused");
        let text = error.to_string();
        match error {
            ConnectError::Unfit { node, reason, .. } => {
                assert!(text.starts_with(&format!("{node} cannot be used: ")), "{text}");
                (reason, text)
            }
            other => panic!("{other}"),
        }
    }

    /// Locks, waits, and locks on new connections.
    async fn works(&self, builder: MastersBuilder) {
        let (masters, other) = (
            builder.clone().connect().await.expect("it will do"),
            builder.connect().await.expect("it will do"),
        );
        let guard = held_everywhere(&masters.multi_lock("works")).await;
        let waiting = tokio::spawn(async move { other.multi_lock("works").wait(PATIENT).lock().await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        let guard = waiting.await.expect("no panic").expect("called");
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        self.stand_ins.iter().for_each(StandIn::reset);
        let guard = held_everywhere(&masters.multi_lock("works")).await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    }
}

/// Valkey from 9.1 on, with HELLO renamed away: before AUTH it does not say that it knows no HELLO.
#[tokio::test]
async fn a_server_without_resp3_that_says_so_after_auth_alone() {
    let servers = three(&["--requirepass", "topsecret"]).await;
    let guarded = Script::new().says("HELLO 3 AUTH", "-NOAUTH Authentication required.");
    let met = Met::before(servers, guarded.clone().knows_no("HELLO")).await;
    let with = |password: &str| {
        let urls = met.stand_ins.iter();
        patient(urls.map(|one| format!("redis://:{password}@{}", one.label())))
    };
    let (reason, text) = met.refusal(with("notsosecret")).await;
    assert!(matches!(reason, Unfit::Denied { .. }), "{reason}");
    assert!(text.contains("WRONGPASS"), "{text}");
    met.works(with("topsecret")).await;
    let speak_resp3 = async || {
        let masters = with("topsecret").connect().await.expect("it will do");
        let status = masters.status();
        let known = |node: &NodeStatus| node.connection.as_ref().expect("connected").capabilities;
        status
            .nodes
            .iter()
            .map(|node| known(node).resp3)
            .collect::<Vec<_>>()
    };
    assert_eq!(speak_resp3().await, [false; 3]);
    // A proxy lets nothing through before AUTH, and the server behind it speaks RESP3.
    met.stand_ins.iter().for_each(|one| one.follow(guarded.clone()));
    met.works(with("topsecret")).await;
    assert_eq!(speak_resp3().await, [true; 3]);
}

/// Google's Memorystore: a connection neither learns its number nor ends another.
#[tokio::test]
async fn without_client_id_and_client_kill() {
    let script = Script::new().knows_no("CLIENT ID").knows_no("CLIENT KILL");
    let met = Met::all(script).await;
    met.works(met.builder()).await;
}

/// Another program's script runs while the connection is set up. Without its subscription no waiter would be called over it.
#[tokio::test]
async fn a_connection_that_could_not_subscribe_is_made_again() {
    let busy = Script::new().says("SUBSCRIBE", "-BUSY Redis is busy running a script.");
    let met = Met::all(busy).await;
    let error = met
        .builder()
        .connect()
        .await
        .expect_err("no master is listened to");
    assert!(error.to_string().contains("BUSY"), "{error}");
    met.stand_ins.iter().for_each(|one| one.follow(Script::new()));
    met.works(met.builder()).await;
}

/// A proxy without channels. Nobody is called over such a connection, and the log says so.
#[tokio::test]
async fn a_server_that_lets_nobody_subscribe() {
    let (journal, _installed) = Journal::begin();
    let met = Met::all(Script::new().knows_no("SUBSCRIBE")).await;
    let masters = met.builder().connect().await.expect("masters that can be used");
    let guard = held_everywhere(&masters.multi_lock("a")).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let warnings = journal.warnings();
    let told = warnings
        .iter()
        .filter(|line| line.message.contains("SUBSCRIBE to multilock:* is refused"));
    assert_eq!(told.count(), 3, "{warnings:?}");
}

/// The same on a real server with an ACL that denies them.
#[tokio::test]
async fn a_user_who_may_end_no_connection() {
    let servers = three(&[]).await;
    let rules = ["on", ">secret", "~*", "&*", "+@all", "-client|id", "-client|kill"];
    for server in &servers {
        server
            .command(&[&["ACL", "SETUSER", "app"], &rules[..]].concat())
            .await;
    }
    let urls = servers
        .iter()
        .map(|server| format!("redis://app:secret@{}", label(server)));
    let masters = connect(urls).await;
    let guard = held_everywhere(&masters.multi_lock("a")).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// Redis Enterprise and Redis Cloud.
#[tokio::test]
async fn a_server_that_does_not_say_whether_it_evicts() {
    let met = Met::all(Script::new().without(&["maxmemory", "maxmemory_policy"])).await;
    let (reason, text) = met.refusal(met.builder()).await;
    assert_eq!(reason, Unfit::UnknownEviction);
    assert!(text.contains("MastersBuilder::allow_unknown_eviction"), "{text}");
    met.works(met.builder().allow_unknown_eviction(true)).await;
    met.works(met.builder().allow_eviction(true)).await;
    // A server that does evict is refused all the same.
    let evicting = Script::new()
        .fact("maxmemory", "1")
        .fact("maxmemory_policy", "allkeys-lru");
    met.stand_ins.iter().for_each(|one| one.follow(evicting.clone()));
    let (reason, _) = met.refusal(met.builder().allow_unknown_eviction(true)).await;
    assert!(matches!(reason, Unfit::Evicts { .. }), "{reason}");
}

/// Upstash. If INFO says nothing, ROLE may.
#[tokio::test]
async fn a_server_that_does_not_say_whether_it_is_a_master() {
    let silent = Script::new().without(&["role"]);
    let met = Met::all(silent.clone()).await;
    met.works(met.builder()).await;
    let mute = silent.knows_no("ROLE");
    met.stand_ins.iter().for_each(|one| one.follow(mute.clone()));
    let (reason, text) = met.refusal(met.builder()).await;
    assert_eq!(reason, Unfit::UnknownRole);
    assert!(text.contains("MastersBuilder::allow_unknown_role"), "{text}");
    met.works(met.builder().allow_unknown_role(true)).await;
    let replica = mute.says("ROLE", "*1\r\n$5\r\nslave");
    met.stand_ins.iter().for_each(|one| one.follow(replica.clone()));
    let (reason, _) = met.refusal(met.builder().allow_unknown_role(true)).await;
    assert_eq!(reason, Unfit::Replica);
}

#[tokio::test]
async fn garnet_is_refused_whatever_is_allowed() {
    let garnet = Script::new()
        .fact("garnet_version", "1.0.50")
        .without(&["maxmemory", "maxmemory_policy"]);
    let met = Met::all(garnet).await;
    let builder = met.builder().allow_eviction(true).allow_unknown_eviction(true);
    let (reason, text) = met.refusal(builder.allow_unknown_role(true)).await;
    let server = "Garnet 1.0.50".to_owned();
    assert_eq!(reason, Unfit::ScriptsNotAtomic { server });
    assert!(
        text.contains("does not run scripts atomically; use Redis"),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_without_lua() {
    let said = "-ERR Could not find scripting engine 'lua'";
    let valkey = Script::new().says("EVAL", said).says("SCRIPT LOAD", said);
    let met = Met::all(valkey).await;
    let (reason, text) = met.refusal(met.builder()).await;
    assert!(matches!(reason, Unfit::NoScripts { .. }), "{reason}");
    assert!(text.contains("Could not find scripting engine"), "{text}");
    // The same on a real server that knows neither of them.
    let hidden = ["--rename-command", "EVAL", "", "--rename-command", "SCRIPT", ""];
    let server = Server::start_with(&hidden).await;
    let urls = [server.url(), met.servers[0].url(), met.servers[1].url()];
    let (reason, _) = met.refusal(patient(urls)).await;
    assert!(matches!(reason, Unfit::NoScripts { .. }), "{reason}");
}

/// The scripts are loaded, and cannot be called.
#[tokio::test]
async fn a_server_that_renames_evalsha() {
    let met = Met::all(Script::new()).await;
    let server = Server::start_with(&["--rename-command", "EVALSHA", ""]).await;
    let urls = [server.url(), met.servers[0].url(), met.servers[1].url()];
    let (reason, text) = met.refusal(patient(urls)).await;
    assert!(matches!(reason, Unfit::Denied { .. }), "{reason}");
    assert!(text.contains("unknown command 'EVALSHA'"), "{text}");
}

const LEASE: Duration = Duration::from_secs(4);

/// With a quarantine of four seconds, and every master connected.
fn with_quarantine(builder: MastersBuilder) -> MastersBuilder {
    let builder = builder.quarantine(Quarantine::Auto).for_tests(LEASE);
    builder.node_timeout(LEASE * 2 / 5).require_all(true)
}

/// Whether the masters vote: all of them, or none.
async fn vote_of_all(masters: &Masters) -> bool {
    match masters.multi_lock("a").try_lock().await {
        Ok(guard) => {
            assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
            true
        }
        Err(LockError::Unreachable { votes, .. }) => {
            let has_none = |place| {
                let vote = vote(&votes, place);
                matches!(vote, Vote::Quarantined { .. } | Vote::NotSent { .. })
            };
            assert!((0..3).any(has_none), "{votes}");
            false
        }
        Err(other) => panic!("{other}"),
    }
}

/// A server that tells the run of its process votes at once if another client has met it before, also on a new
/// connection. A server that hides its run is in quarantine each time.
#[tokio::test]
async fn a_record_counts_where_the_run_is_that_of_the_process() {
    undisturbed(LEASE / 8, async || {
        let met = Met::all(Script::new()).await;
        let connect = async || with_quarantine(met.builder()).connect().await.expect("masters");
        let masters = connect().await;
        assert!(!vote_of_all(&masters).await, "a new set");
        until("its quarantine has ended", async || vote_of_all(&masters).await).await;
        assert!(vote_of_all(&connect().await).await, "its record is old");
        let redict = Script::new()
            .without(&["redis_build_id"])
            .fact("redict_version", "7.3.6")
            .fact("redict_build_id", "43a22ff13ad48b03");
        met.stand_ins.iter().for_each(|one| one.follow(redict.clone()));
        assert!(vote_of_all(&connect().await).await, "Redict");
        let hidden = Script::new().fact("executable", "-");
        met.stand_ins.iter().for_each(|one| one.follow(hidden.clone()));
        for _ in 0..2 {
            let masters = connect().await;
            assert!(!vote_of_all(&masters).await, "nobody can tell");
            let ends_its_predecessor = masters.status().nodes.iter().any(|node| {
                let connection = node.connection.as_ref();
                connection.is_ok_and(|connection| connection.capabilities.kill_fence)
            });
            assert!(!ends_its_predecessor, "it does not know its predecessor's server");
            until("its quarantine has ended", async || vote_of_all(&masters).await).await;
            let before: Vec<_> = met.stand_ins.iter().map(StandIn::connections).collect();
            met.stand_ins.iter().for_each(StandIn::reset);
            let connections = || met.stand_ins.iter().map(StandIn::connections);
            until("there are new connections", async || {
                connections().zip(&before).all(|(now, before)| now > *before)
            })
            .await;
            assert!(!vote_of_all(&masters).await, "it may have been started anew");
        }
    })
    .await;
}

/// Dragonfly: two addresses of one server are noticed by its replication id, and its restart as each new connection is.
#[tokio::test]
async fn a_server_without_a_run_id() {
    undisturbed(LEASE / 8, async || {
    let met = Met::all(Script::new().without(&["run_id", "executable"])).await;
    met.works(met.builder()).await;
    let twin = StandIn::before(&met.servers[0], Script::new().without(&["run_id"])).await;
    let urls = [&met.stand_ins[0], &twin, &met.stand_ins[1]].map(StandIn::url);
    let (reason, text) = met.refusal(patient(urls)).await;
    assert!(matches!(reason, Unfit::SameServer { .. }), "{text}");
    for server in &met.servers {
        server.command(&["DEL", "multilock_set"]).await;
    }
    let masters = with_quarantine(met.builder()).connect().await.expect("masters");
    until("they are known long enough", async || vote_of_all(&masters).await).await;
    for server in &met.servers {
        server.restart(Keep::Nothing).await;
    }
    // Of the last one: the quarantines of the others may have ended meanwhile.
    until("the restart is noticed", async || {
        let lock = masters.multi_lock("a").try_lock().await;
        matches!(&lock, Err(LockError::Unreachable { votes, .. }) if matches!(vote(votes, 2), Vote::Quarantined { .. }))
    })
    .await;
})
.await;
}
