//! Errors of a real server that cannot execute a command. On one of three masters, this is a failed vote and nothing
//! more. On two, it is the reported reason, and never "held by another".

use std::fs;
use std::time::Duration;

use crate::journal::Journal;
use crate::support::{
    Proxy, Script, Server, StandIn, WITHIN, all_executed, connect, heard_from_all, held_everywhere, patient,
    three, until, until_free, vote, within,
};
use multilock::{Closing, LockError, Masters, Unlocked, Vote};
use redis::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tracing::Level;

/// So long that nothing here is freed by its end.
const LONG: Duration = Duration::from_secs(3600);
/// Comes soon, and long after everything that happens by itself.
const A_WHILE: Duration = Duration::from_millis(300);

async fn masters_of(servers: &[Server]) -> Masters {
    let builder = patient(servers.iter().map(Server::url)).for_tests(LONG);
    builder.connect().await.expect("masters that can be used")
}

async fn set(server: &Server, option: &str, value: &str) {
    server.command(&["CONFIG", "SET", option, value]).await;
}

/// Trouble that lets the connection live.
#[track_caller]
fn assert_failed(vote: &Vote, code: &str) {
    let Vote::Failed { error } = vote else {
        panic!("{code}: {vote}");
    };
    assert!(error.contains(code), "{code}: {error}");
}

/// With one of the masters in trouble: a red lock is granted by the others, a multi lock is not and
/// says why. Nothing is left behind.
async fn trouble_on_one(servers: &[Server], masters: &Masters, code: &str) {
    let guard = masters.red_lock("a").try_lock().await.expect("two are well");
    heard_from_all(&guard).await;
    assert_failed(&vote(&guard.votes(), 0), code);
    assert_eq!(guard.votes().granted(), 2);
    guard.extend(LONG).await.expect("two are well");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    let error = masters.multi_lock("a").try_lock().await.expect_err("one fails");
    let LockError::Unreachable { votes } = &error else {
        panic!("{code}: {error}");
    };
    assert_failed(&vote(votes, 0), code);
    until_free(&servers[1..], "a").await;
}

/// With two of them in trouble nobody can hold anything, and nobody is said to.
async fn trouble_on_two(masters: &Masters, code: &str) {
    for lock in [masters.red_lock("a"), masters.multi_lock("a")] {
        let error = lock.try_lock().await.expect_err("two fail");
        let LockError::Unreachable { votes } = &error else {
            panic!("{code}: {error}");
        };
        for place in 0..2 {
            assert_failed(&vote(votes, place), code);
        }
        // The trouble may pass, so a waiter waits, and gets the reason. The exception is a machine without time for
        // one round.
        until("a waiter is told why", async || {
            let error = lock.clone().wait(A_WHILE).lock().await.expect_err("two fail");
            let LockError::TimedOut { last: Some(last), .. } = &error else {
                panic!("{code}: {error}");
            };
            let LockError::Unreachable { votes } = &**last else {
                panic!("{code}: {error}");
            };
            let is_told = error.to_string().contains(code);
            assert!(
                is_told || votes.iter().all(|node| node.vote == Vote::Pending),
                "{error}"
            );
            is_told
        })
        .await;
    }
}

/// All is well again.
async fn healed(servers: &[Server], masters: &Masters) {
    let guard = masters
        .multi_lock("a")
        .wait(WITHIN)
        .lock()
        .await
        .expect("all are well");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    all_executed(masters).await;
    for server in servers {
        until("nothing is left", async || server.keys().await.is_empty()).await;
    }
}

#[tokio::test]
async fn out_of_memory() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    set(&servers[0], "maxmemory", "1").await;
    trouble_on_one(&servers, &masters, "OOM").await;
    set(&servers[1], "maxmemory", "1").await;
    trouble_on_two(&masters, "OOM").await;
    for server in &servers[..2] {
        assert_eq!(server.keys().await, Vec::<String>::new(), "nothing was written");
        set(server, "maxmemory", "0").await;
    }
    healed(&servers, &masters).await;
}

#[tokio::test]
async fn a_release_works_out_of_memory() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let (first, second) = (
        held_everywhere(&masters.red_lock("a")).await,
        held_everywhere(&masters.red_lock("b")).await,
    );
    for server in &servers {
        set(server, "maxmemory", "1").await;
    }
    assert_eq!(first.unlock().await, Ok(Unlocked::Released));
    drop(second);
    until_free(&servers, "a").await;
    until_free(&servers, "b").await;
}

#[tokio::test]
async fn an_extension_out_of_memory_loses_nothing() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let lock = masters.red_lock("a").lease(Duration::from_secs(60));
    let guard = held_everywhere(&lock).await;
    for server in &servers {
        set(server, "maxmemory", "1").await;
    }
    // Whether the extension counts or not, the entries are there, and for no shorter time.
    let extended = guard.extend(LONG).await;
    assert!(guard.is_valid(), "{extended:?}");
    heard_from_all(&guard).await;
    for server in &servers {
        assert_eq!(server.hgetall("a").await.len(), 1);
        assert!(server.pttl("a").await > 30_000);
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn snapshots_fail() {
    let servers = three(&["--save", "3600 1000000"]).await;
    let masters = masters_of(&servers).await;
    let stop_writes = async |server: &Server, stop: &str| {
        set(server, "stop-writes-on-bgsave-error", stop).await;
    };
    for server in &servers[..2] {
        stop_writes(server, "no").await;
        // A directory that is not empty stands where the file would go.
        let obstacle = server.dir().join("data/dump.rdb/obstacle");
        fs::create_dir_all(&obstacle).expect("a directory");
        server.command(&["BGSAVE"]).await;
        until("the snapshot has failed", async || {
            let info = server.command(&["INFO", "persistence"]).await;
            format!("{info:?}").contains("rdb_last_bgsave_status:err")
        })
        .await;
    }
    stop_writes(&servers[0], "yes").await;
    trouble_on_one(&servers, &masters, "MISCONF").await;
    stop_writes(&servers[1], "yes").await;
    trouble_on_two(&masters, "MISCONF").await;
    for server in &servers[..2] {
        assert_eq!(server.keys().await, Vec::<String>::new(), "nothing was written");
        stop_writes(server, "no").await;
    }
    healed(&servers, &masters).await;
}

#[tokio::test]
async fn too_few_replicas() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    set(&servers[0], "min-replicas-to-write", "1").await;
    trouble_on_one(&servers, &masters, "NOREPLICAS").await;
    set(&servers[1], "min-replicas-to-write", "1").await;
    trouble_on_two(&masters, "NOREPLICAS").await;
    for server in &servers[..2] {
        assert_eq!(server.keys().await, Vec::<String>::new(), "nothing was written");
        set(server, "min-replicas-to-write", "0").await;
    }
    healed(&servers, &masters).await;
}

/// A master that takes no writes cannot drop the waiters that have died. Each script still comes to its end there.
#[tokio::test]
async fn dead_readers_in_a_queue_without_writes() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    for number in 0..3 {
        let waiter = format!("nobody:{number}r:1000");
        for (key, score) in [
            ("multilock_readers_queue:{a}", "1"),
            ("multilock_deadlines:{a}", "4102444800000"),
        ] {
            servers[0].command(&["ZADD", key, score, &waiter]).await;
        }
    }
    set(&servers[0], "min-replicas-to-write", "1").await;
    let lock = masters.red_lock("a");
    let reader = lock.clone().read().try_lock().await.expect("two are well");
    heard_from_all(&reader).await;
    assert_failed(&vote(&reader.votes(), 0), "NOREPLICAS");
    assert_eq!(reader.unlock().await, Ok(Unlocked::Released));
    let writer = lock.try_lock().await.expect("two are well");
    heard_from_all(&writer).await;
    // The dead waiters are still ahead of a try. The extension of a hold passes them, and fails.
    let answer = vote(&writer.votes(), 0);
    assert!(
        matches!(answer, Vote::Refused { .. } | Vote::Failed { .. }),
        "{answer}"
    );
    assert_eq!(writer.unlock().await, Ok(Unlocked::Released));
    set(&servers[0], "min-replicas-to-write", "0").await;
    until_free(&servers, "a").await;
}

/// A release that is refused by a passing fault stays pending, and is sent again when the fault has passed.
#[tokio::test]
async fn a_refused_release_is_paid_later() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let (first, second) = (
        held_everywhere(&masters.red_lock("a")).await,
        held_everywhere(&masters.red_lock("b")).await,
    );
    set(&servers[0], "min-replicas-to-write", "1").await;
    assert_eq!(first.unlock().await, Ok(Unlocked::Released), "by the two others");
    drop(second);
    until_free(&servers[1..], "a").await;
    until_free(&servers[1..], "b").await;
    assert!(servers[0].exists("a").await && servers[0].exists("b").await);
    set(&servers[0], "min-replicas-to-write", "0").await;
    until_free(&servers, "a").await;
    until_free(&servers, "b").await;
}

/// Keeps a server in a script until told to stop.
async fn keep_busy(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))
        .await
        .expect("a connection");
    stream
        .write_all(b"EVAL \"while true do end\" 0\r\n")
        .await
        .expect("sent");
    until("it is busy", async || {
        let answer = server.try_command(&["PING"]).await;
        answer.is_err_and(|error| format!("{error:#}").contains("BUSY"))
    })
    .await;
    stream
}

/// Ends the script that keeps a server busy, and waits until it has ended.
async fn end_script(server: &Server) {
    server.command(&["SCRIPT", "KILL"]).await;
    until("it is idle again", async || {
        server.try_command(&["GET", "a-string"]).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn busy_with_a_script() {
    let servers = three(&["--lua-time-limit", "20"]).await;
    let masters = masters_of(&servers).await;
    let _first = keep_busy(&servers[0]).await;
    trouble_on_one(&servers, &masters, "BUSY").await;
    let _second = keep_busy(&servers[1]).await;
    trouble_on_two(&masters, "BUSY").await;
    for server in &servers[..2] {
        end_script(server).await;
    }
    healed(&servers, &masters).await;
}

/// Lets a server load its data again, which takes it a minute.
async fn keep_loading(server: &Server) -> TcpStream {
    // Between two of these it looks at its connections.
    let value = "x".repeat(2048);
    let keys: Vec<String> = (0..600).map(|i| format!("filler{i}")).collect();
    let mut filling = vec!["MSET"];
    filling.extend(keys.iter().flat_map(|key| [key.as_str(), value.as_str()]));
    server.command(&filling).await;
    set(server, "loading-process-events-interval-bytes", "1024").await;
    set(server, "key-load-delay", "100000").await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))
        .await
        .expect("a connection");
    stream.write_all(b"DEBUG RELOAD\r\n").await.expect("sent");
    until("it is loading", async || {
        let answer = server.try_command(&["GET", "filler0"]).await;
        answer.is_err_and(|error| format!("{error:#}").contains("loading the dataset"))
    })
    .await;
    stream
}

#[tokio::test]
async fn loading_its_data() {
    let servers = three(&["--enable-debug-command", "yes", "--rdbcompression", "no"]).await;
    let masters = masters_of(&servers).await;
    let _first = keep_loading(&servers[0]).await;
    trouble_on_one(&servers, &masters, "LOADING").await;
    let _second = keep_loading(&servers[1]).await;
    trouble_on_two(&masters, "LOADING").await;
    for server in &servers[..2] {
        set(server, "key-load-delay", "0").await;
        until("it is loaded", async || {
            server.try_command(&["GET", "filler0"]).await.is_ok()
        })
        .await;
        server.flushall().await;
    }
    healed(&servers, &masters).await;
}

/// A port on which nobody listens.
async fn dead_end(server: &Server) -> Proxy {
    let proxy = Proxy::start(server.port()).await;
    proxy.cut().await;
    proxy
}

#[tokio::test]
async fn turned_into_a_replica() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let original = dead_end(&servers[2]).await;
    let port = original.port().to_string();
    servers[0].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    // Its connection was made to a master: the first answer tells otherwise, from then on it is known.
    let guard = masters.red_lock("a").try_lock().await.expect("two are well");
    heard_from_all(&guard).await;
    assert_failed(&vote(&guard.votes(), 0), "READONLY");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until("it is known for a replica", async || {
        let guard = masters.red_lock("a").try_lock().await.expect("two are well");
        heard_from_all(&guard).await;
        assert_eq!(guard.votes().granted(), 2);
        let vote = vote(&guard.votes(), 0);
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        matches!(vote, Vote::NotSent { reason } if reason.contains("it is a replica"))
    })
    .await;
    let error = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect_err("one is a replica");
    assert!(error.to_string().contains("it is a replica"), "{error}");
    assert!(!matches!(error, LockError::Contended { .. }), "{error}");
    servers[0].command(&["REPLICAOF", "NO", "ONE"]).await;
    until("it votes again", async || {
        masters.multi_lock("a").try_lock().await.is_ok()
    })
    .await;
    healed(&servers, &masters).await;
}

/// A proxy in front of a replica tells of a master, so each connection is set up, and then ends by the first answer.
#[tokio::test]
async fn a_replica_that_passes_for_a_master_is_connected_to_after_pauses() {
    let servers = three(&[]).await;
    let proxy = StandIn::before(&servers[0], Script::new()).await;
    let urls = [proxy.url(), servers[1].url(), servers[2].url()];
    let masters = patient(urls).for_tests(LONG).connect().await.expect("masters");
    // A waiter would subscribe, and from then on the connection would be the server's alone.
    let guard = masters.multi_lock("a").try_lock().await.expect("free");
    let readonly = "-READONLY You can't write against a read only replica.";
    proxy.follow(Script::new().says("EVALSHA", readonly));
    let (before, begun) = (proxy.connections(), Instant::now());
    drop(guard);
    let made = || proxy.connections() - before;
    until("it is connected to again and again", async || made() >= 6).await;
    // With pauses of 10, 20, 40, 80 and 160 ms at the least.
    assert!(
        begun.elapsed() >= Duration::from_millis(310),
        "{:?}",
        begun.elapsed()
    );
    sleep(Duration::from_secs(1)).await;
    let (made, seconds) = (made(), begun.elapsed().as_secs() + 1);
    assert!(made as u64 <= 6 + 10 * seconds, "{made} in {seconds} s");
    until("the reason is told", async || {
        let nodes = masters.status().nodes;
        let error = nodes[0].connection.as_ref().err();
        error.is_some_and(|error| error.to_string().contains("READONLY"))
    })
    .await;
    until_free(&servers[1..], "a").await;
    assert!(servers[0].exists("a").await, "the release is owed");
    proxy.follow(Script::new());
    until_free(&servers, "a").await;
}

/// Nobody has to change a configuration for a failover to end.
#[tokio::test]
async fn a_majority_that_is_replicas_for_a_moment_is_waited_for() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let original = dead_end(&servers[2]).await;
    let port = original.port().to_string();
    for server in &servers[..2] {
        server.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    }
    let lock = masters.red_lock("a");
    until("both are known for replicas", async || {
        let error = lock.try_lock().await.expect_err("two are replicas");
        let LockError::Unreachable { votes } = &error else {
            panic!("{error}");
        };
        (0..2).all(|place| vote(votes, place).to_string().contains("it is a replica"))
    })
    .await;
    let waiting = tokio::spawn({
        let lock = lock.clone().wait(WITHIN);
        async move { lock.lock().await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished());
    for server in &servers[..2] {
        server.command(&["REPLICAOF", "NO", "ONE"]).await;
    }
    let guard = waiting.await.expect("no panic").expect("they are masters again");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    until_free(&servers, "a").await;
}

/// A master of a held lock becomes a replica. The release to it stays pending, and is sent again when it is a master
/// again.
#[tokio::test]
async fn a_release_to_a_replica_is_paid_when_it_is_a_master_again() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let original = dead_end(&servers[2]).await;
    let port = original.port().to_string();
    servers[0].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released), "by the two others");
    until_free(&servers[1..], "a").await;
    assert!(servers[0].exists("a").await);
    servers[0].command(&["REPLICAOF", "NO", "ONE"]).await;
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn scripts_forgotten() {
    let servers = three(&[]).await;
    let masters = connect(servers.iter().map(Server::url)).await;
    let forget = async || {
        for server in &servers {
            server.command(&["SCRIPT", "FLUSH"]).await;
        }
    };
    for lock in [masters.red_lock("a"), masters.multi_lock("a")] {
        forget().await;
        let guard = lock.try_lock().await.expect("the text is sent");
        forget().await;
        guard
            .extend(Duration::from_secs(30))
            .await
            .expect("the text is sent");
        forget().await;
        let inspection = lock.inspect().await.expect("the text is sent").remove(0);
        assert!(inspection.agreed.is_some(), "{inspection:?}");
        forget().await;
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        until_free(&servers, "a").await;
        forget().await;
        drop(lock.try_lock().await.expect("the text is sent"));
        until_free(&servers, "a").await;
        forget().await;
        let forced = lock.force_release().await.expect("the text is sent");
        assert_eq!(forced.votes.granted(), 3);
    }
    // A pending release finds no script either.
    let guard = held_everywhere(&masters.red_lock("a")).await;
    set(&servers[0], "min-replicas-to-write", "1").await;
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    forget().await;
    set(&servers[0], "min-replicas-to-write", "0").await;
    until_free(&servers, "a").await;
}

/// Releases in one call are refused one by one, by something that passes. They are sent again after pauses, and closing does not
/// wait for the end of the trouble.
#[tokio::test]
async fn closing_leaves_what_is_refused() {
    let servers = three(&[]).await;
    let builder = patient(servers.iter().map(Server::url)).for_tests(LONG);
    let builder = builder.node_timeout(A_WHILE);
    let masters = builder.connect().await.expect("masters that can be used");
    let names: Vec<String> = (0..10).map(|number| format!("job:{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(held_everywhere(&masters.red_lock(name.as_str())).await);
    }
    set(&servers[0], "min-replicas-to-write", "1").await;
    servers[0].command(&["CONFIG", "RESETSTAT"]).await;
    let closed = within(
        "closed beside a master that refuses",
        masters.close(Closing::Release),
    )
    .await;
    let left: Vec<u64> = closed.left.iter().map(|(_, count)| *count).collect();
    assert_eq!((closed.released, left), (10, vec![10]));
    let calls = servers[0].command(&["INFO", "commandstats"]).await;
    let calls = format!("{calls:?}");
    let sent = calls.split("cmdstat_evalsha:calls=").nth(1).map_or(0, |rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    });
    assert!((1..100).contains(&sent), "{sent} calls: {calls}");
    for server in &servers[1..] {
        assert!(!server.exists("job:0").await, "released");
    }
}

async fn three_with_a_user() -> (Vec<Server>, Masters) {
    let servers = three(&[]).await;
    for server in &servers {
        server
            .command(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"])
            .await;
    }
    let urls = servers
        .iter()
        .map(|server| format!("redis://app:secret@127.0.0.1:{}", server.port()));
    let masters = connect(urls).await;
    (servers, masters)
}

/// At once, though no wait is set.
async fn denied(masters: &Masters, word: &str) {
    for lock in [masters.red_lock("a"), masters.multi_lock("a")] {
        let error = within("it is told at once", lock.lock())
            .await
            .expect_err("denied");
        let LockError::Misconfigured { votes } = &error else {
            panic!("{error}");
        };
        assert!(votes.to_string().contains(word), "{votes}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn scripts_denied() {
    let (servers, masters) = three_with_a_user().await;
    let deny = async |server: &Server, rules: &[&str]| {
        server
            .command(&[&["ACL", "SETUSER", "app"], rules].concat())
            .await;
    };
    deny(&servers[0], &["-evalsha", "-eval"]).await;
    let guard = masters.red_lock("a").try_lock().await.expect("two are well");
    heard_from_all(&guard).await;
    assert_failed(&vote(&guard.votes(), 0), "NOPERM");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    // One is all that a multi lock can be denied: it needs them all.
    let error = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect_err("one is denied");
    assert!(matches!(error, LockError::Misconfigured { .. }), "{error}");
    deny(&servers[1], &["-evalsha", "-eval"]).await;
    denied(&masters, "NOPERM").await;
    for server in &servers[..2] {
        deny(server, &["+@all"]).await;
    }
    healed(&servers, &masters).await;
}

/// Denied in the midst of a script, after its first write. The error names the command at once, and the write is
/// taken back.
#[tokio::test]
async fn a_command_inside_a_script_is_denied() {
    let (servers, masters) = three_with_a_user().await;
    for server in &servers {
        server.command(&["ACL", "SETUSER", "app", "-pexpire"]).await;
    }
    denied(&masters, "(pexpire in acquire)").await;
    for server in &servers {
        until("nothing is left", async || server.keys().await.is_empty()).await;
        server.command(&["ACL", "SETUSER", "app", "+pexpire"]).await;
    }
    healed(&servers, &masters).await;
}

#[tokio::test]
async fn keys_denied() {
    let (servers, masters) = three_with_a_user().await;
    for server in &servers[..2] {
        server
            .command(&["ACL", "SETUSER", "app", "resetkeys", "~other*"])
            .await;
    }
    denied(&masters, "NOPERM").await;
    let guard = masters.multi_lock("a").try_lock().await;
    assert!(guard.is_err());
    until_free(&servers, "a").await;
}

/// The scripts go on without `PUBLISH`, so the client asks for it with its label, at each connection and once a minute.
#[tokio::test]
async fn publish_denied() {
    let (journal, _installed) = Journal::begin();
    let (servers, masters) = three_with_a_user().await;
    let app = |rule: &'static str| {
        let servers = &servers;
        async move {
            servers[0].command(&["ACL", "SETUSER", "app", rule]).await;
            servers[0].command(&["CLIENT", "KILL", "USER", "app"]).await;
        }
    };
    let lines = |begin: &str| {
        let mut lines = journal.lines();
        lines.retain(|line| line.message.starts_with(begin));
        lines
    };
    app("-publish").await;
    let denied = "PUBLISH is refused inside scripts";
    until("it is told", async || !lines(denied).is_empty()).await;
    let line = &lines(denied)[0];
    assert_eq!(line.level, Level::WARN);
    assert_eq!(line.fields["node"], format!("127.0.0.1:{}", servers[0].port()));
    assert!(!line.fields["reason"].is_empty(), "{line}");
    assert!(line.message.contains("allow +publish"), "{line}");
    app("+publish").await;
    let allowed = "PUBLISH is no longer refused inside scripts";
    until("it is told", async || !lines(allowed).is_empty()).await;
    assert_eq!((lines(denied).len(), lines(allowed).len()), (1, 1));
    healed(&servers, &masters).await;
}

/// A channel that may not be published to costs the waiters a timer, and nobody an error.
#[tokio::test]
async fn channels_denied() {
    let (servers, masters) = three_with_a_user().await;
    for server in &servers {
        server.command(&["ACL", "SETUSER", "app", "resetchannels"]).await;
    }
    let guard = masters.multi_lock("a").wait(WITHIN).lock().await.expect("free");
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    healed(&servers, &masters).await;
}

#[tokio::test]
async fn the_user_is_gone() {
    let (servers, masters) = three_with_a_user().await;
    for server in &servers[..2] {
        server.command(&["ACL", "DELUSER", "app"]).await;
    }
    // Its connections are closed, and no new one is let in.
    denied(&masters, "denies access").await;
    for server in &servers[..2] {
        server
            .command(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"])
            .await;
    }
    until("it is let in again", async || {
        masters.multi_lock("a").try_lock().await.is_ok()
    })
    .await;
    healed(&servers, &masters).await;
}

/// Another value stands at the key of an operator's mark.
#[tokio::test]
async fn a_key_of_the_wrong_type() {
    let servers = three(&[]).await;
    let masters = masters_of(&servers).await;
    servers[0].command(&["SET", "multilock_revoked:{a}", "x"]).await;
    trouble_on_one(&servers, &masters, "WRONGTYPE").await;
    servers[1].command(&["SET", "multilock_revoked:{a}", "x"]).await;
    trouble_on_two(&masters, "WRONGTYPE").await;
    for server in &servers[..2] {
        let value = server.command(&["GETDEL", "multilock_revoked:{a}"]).await;
        assert_eq!(value, Value::BulkString(b"x".to_vec()), "left alone");
    }
    healed(&servers, &masters).await;
}
