//! What clients agreed upon is lowered again, or is not, and then it is said why.

use std::sync::Arc;
use std::time::Duration;

use crate::support::by_hand::ByHand;
use crate::support::foreign::read_write::Mode;
use crate::support::{Direction, Keep, PATIENT, Proxy, Server, acquire, label, three, until};
use multilock::{
    Charter, CharterState, Closing, LockError, Masters, MastersBuilder, Objection, Quarantine, ResetError,
};
use redis::FromRedisValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

const LONG: Duration = Duration::from_secs(300);
const CHARTER: &str = "multilock_charter";
const OWNER: &str = "0195b0a2-8c3f-8d1e-9a77-001122334455:1";
/// A master a second away makes a look at it take several.
const FAR: Duration = Duration::from_millis(300);

async fn servers() -> Vec<Server> {
    three(&["--appendonly", "no"]).await
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

fn builder(urls: &[String]) -> MastersBuilder {
    Masters::builder()
        .nodes(urls.iter().map(String::as_str))
        .node_timeout(PATIENT)
        .connect_timeout(PATIENT)
        .lease(Duration::from_secs(30))
}

/// As an operator resets whose masters have just been started, and are known to have kept everything.
async fn reset(urls: &[String]) -> Result<Charter, ResetError> {
    let operator = builder(urls).quarantine(Quarantine::Off);
    operator.reset_charter().await
}

async fn charter(servers: &[Server]) -> Charter {
    let asked = builder(&urls(servers)).charter().await;
    asked.expect("the list can be used")
}

async fn until_in_force(servers: &[Server], lease: Duration) {
    until("the lease is in force", async || {
        charter(servers).await.state() == CharterState::InForce(lease)
    })
    .await;
}

async fn store(servers: &[Server], text: &str) {
    for server in servers {
        server.command(&["SET", CHARTER, text]).await;
    }
}

async fn ask<T: FromRedisValue>(server: &Server, args: &[&str]) -> T {
    redis::from_redis_value(server.command(args).await).expect("as asked")
}

/// A connected client that has agreed upon `LONG`, and is called `billing@host:1`.
async fn agreeing(urls: &[String]) -> Masters {
    let client = builder(urls).max_lease(LONG).client_label("billing@host:1");
    client.connect().await.expect("masters that can be used")
}

type Objections = Vec<(Arc<str>, Objection)>;

#[track_caller]
fn refused(reset: Result<Charter, ResetError>) -> (Objections, Vec<String>) {
    match reset {
        Err(ResetError::Refused { objections, labels }) => (objections, labels),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn put_back(reset: Result<Charter, ResetError>) -> Objections {
    match reset {
        Err(ResetError::PutBack {
            objections, missing, ..
        }) if missing.is_empty() => objections,
        other => panic!("{other:?}"),
    }
}

/// Leases of 3 s, where those of 1 s need no agreement.
#[tokio::test]
async fn success_leaves_nothing_and_longer_leases_are_agreed_upon_anew() {
    let servers = servers().await;
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(3));
    let urls = urls(&servers);
    let builder = || {
        let builder = Masters::builder().nodes(urls.iter().map(String::as_str));
        let builder = builder.lease_without_charter(short).lease(short);
        builder
            .node_timeout(Duration::from_millis(400))
            .connect_timeout(PATIENT)
    };
    let client = builder().max_lease(long).connect().await.expect("connects");
    until_in_force(&servers, long).await;
    client.close(Closing::Release).await;
    // Until each master was started 4.03 s ago, and has seen the end of the client's connection.
    let mut before = None;
    until("it is lowered", async || match builder().reset_charter().await {
        Ok(charter) => {
            before = Some(charter);
            true
        }
        Err(ResetError::Refused { objections, .. }) => {
            let passes = |objection: &Objection| match objection {
                Objection::Started { wait } => *wait <= Duration::from_millis(4_032),
                objection => matches!(objection, Objection::Connected { .. }),
            };
            assert!(
                objections.iter().all(|(_, objection)| passes(objection)),
                "{objections:?}"
            );
            sleep(Duration::from_millis(200)).await;
            false
        }
        Err(error) => panic!("{error}"),
    })
    .await;
    let before = before.expect("lowered");
    assert_eq!(before.state(), CharterState::InForce(long), "what stood there");
    assert_eq!(charter(&servers).await.state(), CharterState::Nothing);
    // Who wants no more than that needs nothing.
    let fresh = builder().connect().await.expect("connects");
    let guard = fresh.red_lock("a").lock().await.expect("free");
    guard.unlock().await.expect("held");
    assert_eq!(charter(&servers).await.state(), CharterState::Nothing);
    // Who wants more has to agree upon it with all of them.
    servers[2].kill().await;
    let client = builder().max_lease(long).connect().await.expect("a majority");
    let lock = client.red_lock("b").lease(long);
    let refused = lock.try_lock().await.expect_err("not in force");
    assert!(matches!(refused, LockError::Unchartered(_)), "{refused}");
    servers[2].restart(Keep::Nothing).await;
    let guard = lock.wait(PATIENT).lock().await.expect("in force");
    guard.unlock().await.expect("held");
    until_in_force(&servers, long).await;
}

#[tokio::test]
async fn who_is_connected_is_named() {
    let servers = servers().await;
    let urls = urls(&servers);
    let client = agreeing(&urls).await;
    // It remembers as well what others have agreed upon.
    let short = builder(&urls).client_label("other@host:2").connect().await;
    let short = short.expect("connects");
    until_in_force(&servers, LONG).await;
    for server in &servers {
        until("labels are told", async || {
            ask::<Vec<String>>(server, &["KEYS", "multilock_client:*"])
                .await
                .len()
                == 2
        })
        .await;
    }
    let (objections, labels) = refused(reset(&urls).await);
    assert_eq!(objections.len(), 6, "{objections:?}");
    for server in &servers {
        let list: String = ask(server, &["CLIENT", "LIST"]).await;
        let here = objections.iter().filter(|(node, _)| **node == *label(server));
        for (_, objection) in here {
            let Objection::Connected { address } = objection else {
                panic!("{objection}");
            };
            let line = list
                .lines()
                .find(|line| line.contains(&format!(" addr={address} ")));
            assert!(
                line.is_some_and(|line| line.contains(" name=multilock:")),
                "{list}"
            );
        }
    }
    assert_eq!(labels, ["billing@host:1", "other@host:2"]);
    client.close(Closing::Release).await;
    let (_, labels) = refused(reset(&urls).await);
    assert_eq!(labels, ["other@host:2"], "one that has taken its label back");
    assert_eq!(charter(&servers).await.state(), CharterState::InForce(LONG));
    short.close(Closing::Release).await;
    until("their connections have ended", async || {
        reset(&urls).await.is_ok()
    })
    .await;
    assert_eq!(charter(&servers).await.state(), CharterState::Nothing);
    assert!(reset(&urls).await.is_ok(), "nothing to lower");
}

#[tokio::test]
async fn what_is_locked_for_long_is_named() {
    let servers = servers().await;
    let urls = urls(&servers);
    // What is no lock, and what is locked for no longer than others reckon with.
    servers[0]
        .command(&["HSET", "settings", "page:7", "1", "mode", "dark"])
        .await;
    acquire(&servers[0], &["short"], OWNER, "29000").await;
    let asked = builder(&urls).quarantine(Quarantine::Off);
    asked.clone().reset_charter().await.expect("nothing stands there");
    acquire(&servers[1], &["held"], OWNER, "100000").await;
    let reading = ByHand::new("read", OWNER, Mode::Read);
    let mut connection = redis::Client::open(servers[2].url()).expect("a URL");
    redis::cmd("PING").exec(&mut connection).expect("it answers");
    reading
        .acquire(Duration::from_secs(200))
        .exec(&mut connection)
        .expect("free");
    drop(connection);
    servers[2].command(&["HSET", "endless", OWNER, "1"]).await;
    // Kept, though nobody is inside.
    servers[2].command(&["HSET", "kept", OWNER, "0"]).await;
    servers[2].command(&["PEXPIRE", "kept", "90000"]).await;
    store(&servers, "300000 300000").await;
    let (mut objections, labels) = refused(reset(&urls).await);
    objections.sort_by_key(|(_, objection)| objection.to_string());
    let told: Vec<(&str, &str)> = objections
        .iter()
        .map(|(node, objection)| match objection {
            Objection::Lease { name, left } => {
                let seconds = |s| Duration::from_secs(s);
                let (least, most) = match name.as_str() {
                    "held" => (seconds(60), seconds(100)),
                    "kept" => (seconds(50), seconds(90)),
                    "read" => (seconds(160), seconds(200)),
                    _ => (Duration::ZERO, Duration::ZERO),
                };
                let left = left.unwrap_or_default();
                assert!((least..=most).contains(&left), "{objection}");
                (&**node, name.as_str())
            }
            other => panic!("{other}"),
        })
        .collect();
    let [one, two] = [label(&servers[1]), label(&servers[2])];
    let expected = [
        (&*two, "endless"),
        (&*one, "held"),
        (&*two, "kept"),
        (&*two, "read"),
    ];
    assert_eq!(told, expected);
    assert!(
        objections[0]
            .1
            .to_string()
            .ends_with("for ever: it has no expiry")
    );
    assert!(labels.is_empty());
    for name in ["held", "kept", "read", "endless"] {
        for server in &servers {
            server.command(&["DEL", name]).await;
        }
    }
    reset(&urls).await.expect("nothing is locked for long");
    assert!(servers[0].exists("settings").await && servers[0].exists("short").await);
}

#[tokio::test]
async fn every_master_has_to_tell_and_to_remember() {
    let servers = servers().await;
    let urls = urls(&servers);
    store(&servers, "300000 300000").await;
    servers[1].command(&["SET", "multilock_masters", "5"]).await;
    let (objections, _) = refused(reset(&urls).await);
    let expected = Objection::OtherSet {
        masters: 5,
        listed: 3,
    };
    assert_eq!(objections, [(label(&servers[1]).into(), expected)]);
    servers[1].command(&["DEL", "multilock_masters"]).await;
    let twice = [
        urls[0].clone(),
        urls[0].replace("127.0.0.1", "localhost"),
        urls[2].clone(),
    ];
    let (objections, _) = refused(reset(&twice).await);
    assert!(
        matches!(&objections[..], [(_, Objection::SameServer { other })] if **other == *label(&servers[0])),
        "{objections:?}"
    );
    servers[2].kill().await;
    let (objections, _) = refused(reset(&urls).await);
    assert!(
        matches!(&objections[..], [(node, Objection::Silent(_))] if **node == *label(&servers[2])),
        "{objections:?}"
    );
    let stands: String = ask(&servers[0], &["GET", CHARTER]).await;
    assert_eq!(stands, "300000 300000");
    servers[2].restart(Keep::Nothing).await;
    // They were started half a minute ago at most.
    let (objections, _) = refused(builder(&urls).reset_charter().await);
    let waits = |objection: &Objection| match objection {
        Objection::Started { wait } => (270_000..=304_002).contains(&wait.as_millis()),
        _ => false,
    };
    assert_eq!(objections.len(), 3);
    assert!(
        objections.iter().all(|(_, objection)| waits(objection)),
        "{objections:?}"
    );
    reset(&urls)
        .await
        .expect("they keep what they acknowledge, it is said");
    assert_eq!(charter(&servers).await.state(), CharterState::Nothing);
}

/// Who holds and leaves between the two questions is seen by what it holds, if connections are asked for first.
#[tokio::test]
async fn connections_are_asked_for_before_keys() {
    let servers = servers().await;
    store(&servers, "300000 300000").await;
    let mut urls = urls(&servers);
    urls[1] = user(&servers[1], "blind", &["+client", "-scan"]).await;
    servers[1].reset_stats().await;
    let (objections, _) = refused(reset(&urls).await);
    assert!(
        matches!(&objections[..], [(node, Objection::Silent(_))] if **node == *label(&servers[1])),
        "{objections:?}"
    );
    let stats = servers[1].commandstats().await;
    assert!(stats.contains_key("client|list"), "{stats:?}");
}

/// What takes it away may be stuck on its way until after it was put back.
#[tokio::test]
async fn what_comes_too_late_takes_nothing_away() {
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let text = "300000 300000";
    server.command(&["SET", CHARTER, text]).await;
    let script = include_str!("../../lua/uncharter.lua");
    let time: (u64, u64) = ask(&server, &["TIME"]).await;
    let now = time.0 * 1_000_000 + time.1;
    let take_away = async |text: &str, latest: u64| {
        let args = ["EVAL", script, "1", CHARTER, text, &latest.to_string()];
        ask::<i64>(&server, &args).await
    };
    let later = now + 60_000_000;
    assert_eq!(take_away(text, now).await, -1);
    assert_eq!(take_away("300000 0", later).await, 0);
    assert!(server.exists(CHARTER).await);
    assert_eq!(take_away(text, later).await, 1);
    assert!(!server.exists(CHARTER).await);
    assert_eq!(take_away("", later).await, 1, "nothing stood there");
}

/// Of a user who may do everything but for some of `CLIENT`.
async fn user(server: &Server, name: &str, subcommands: &[&str]) -> String {
    let all = [
        "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all", "-client",
    ];
    server.command(&[&all, subcommands].concat()).await;
    format!("redis://{name}:secret@127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn where_connections_are_hidden_nobody_can_tell() {
    let servers = servers().await;
    let plain = urls(&servers);
    store(&servers, "300000 300000").await;
    for denied in [["+client|id", "+client|setname"], ["+client|id", "+client|list"]] {
        let mut urls = plain.clone();
        let name = denied[1].replace("+client|", "without-");
        urls[1] = user(&servers[1], &name.replace('|', "-"), &denied).await;
        let (objections, _) = refused(reset(&urls).await);
        assert!(
            matches!(&objections[..], [(node, Objection::ClientsHidden { .. })] if **node == *label(&servers[1])),
            "{objections:?}"
        );
    }
    // A client whose user may not say its name.
    let mut urls = plain.clone();
    urls[0] = user(&servers[0], "app", &["+client|id", "+client|kill"]).await;
    let mut single = vec![urls[0].clone()];
    servers[0].command(&["SET", "multilock_masters", "1"]).await;
    let client = builder(&single).connect().await.expect("connects");
    single.clear();
    servers[0].command(&["SET", "multilock_masters", "3"]).await;
    let (objections, _) = refused(reset(&plain).await);
    assert!(
        matches!(&objections[..], [(node, Objection::Nameless { .. })] if **node == *label(&servers[0])),
        "{objections:?}"
    );
    client.close(Closing::Release).await;
    until("its connection has ended", async || reset(&plain).await.is_ok()).await;
}

/// A reset that has looked at the first two masters, and is kept from looking at the third one, and then goes on. What
/// happens in between is seen at its second look.
async fn with_something_in_between(
    servers: &[Server],
    in_between: impl AsyncFnOnce(),
) -> Result<Charter, ResetError> {
    let proxy = Proxy::start(servers[2].port()).await;
    proxy.set_delay(Direction::ToServer, FAR);
    let urls = [servers[0].url(), servers[1].url(), proxy.url()];
    for server in &servers[..2] {
        server.reset_stats().await;
    }
    let resetting = tokio::spawn(async move { reset(&urls).await });
    for server in &servers[..2] {
        until("it was looked through", async || {
            server.commandstats().await.contains_key("scan")
        })
        .await;
    }
    proxy.pause(Direction::ToServer);
    for server in servers {
        assert!(server.exists(CHARTER).await, "nothing was taken away yet");
    }
    in_between().await;
    proxy.resume(Direction::ToServer);
    resetting.await.expect("no panic")
}

/// What one server has been asked since.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    async fn of(server: &Server) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port()))
            .await
            .expect("runs");
        stream.write_all(b"MONITOR\r\n").await.expect("takes it");
        let mut lines = BufReader::new(stream);
        let mut begun = String::new();
        lines.read_line(&mut begun).await.expect("answers");
        assert_eq!(begun, "+OK\r\n");
        Self(lines)
    }

    /// All of it until now.
    async fn told(self, server: &Server) -> Vec<String> {
        server.command(&["ECHO", "until now"]).await;
        let mut lines = self.0.lines();
        let mut told = Vec::new();
        while let Some(line) = lines.next_line().await.expect("answers") {
            if line.ends_with("\"until now\"") {
                return told;
            }
            told.push(line);
        }
        panic!("the server has ended: {told:#?}");
    }
}

#[tokio::test]
async fn who_comes_in_between_has_it_put_back() {
    let servers = servers().await;
    let text = "300000 300000 the night's jobs";
    store(&servers, text).await;
    // It does not reach the third master, where it would be seen at the first look.
    let away = Proxy::start(servers[2].port()).await;
    away.cut().await;
    let urls = [servers[0].url(), servers[1].url(), away.url()];
    let mut client = None;
    let asked = Monitor::of(&servers[0]).await;
    let reset_meanwhile = with_something_in_between(&servers, async || {
        client = Some(
            builder(&urls)
                .client_label("late@host:3")
                .connect()
                .await
                .expect("a majority"),
        );
    })
    .await;
    let objections = put_back(reset_meanwhile);
    let nodes: Vec<&str> = objections.iter().map(|(node, _)| &**node).collect();
    assert_eq!(nodes, [label(&servers[0]), label(&servers[1])]);
    let is_client = |objection: &Objection| matches!(objection, Objection::Connected { .. });
    assert!(
        objections.iter().all(|(_, objection)| is_client(objection)),
        "{objections:?}"
    );
    for server in &servers {
        assert_eq!(ask::<String>(server, &["GET", CHARTER]).await, text);
    }
    // While the charter is away a master must not be started again: what clients call themselves is asked for afterwards.
    let asked = asked.told(&servers[0]).await;
    let first = |word: &str| asked.iter().position(|line| line.contains(word));
    let (put_back, looked) = (
        first("\"EVAL\" \"-- charter: raise"),
        first("\"multilock_client:*\""),
    );
    assert!(put_back.is_some() && put_back < looked, "{asked:#?}");
    client.expect("connected").close(Closing::Release).await;
}

#[tokio::test]
async fn what_is_locked_or_raised_in_between_has_it_put_back() {
    let servers = servers().await;
    let text = "300000 300000";
    store(&servers, text).await;
    let locked = with_something_in_between(&servers, async || {
        servers[0].command(&["HSET", "a", OWNER, "1"]).await;
        servers[0].command(&["PEXPIRE", "a", "200000"]).await;
    });
    let objections = put_back(locked.await);
    assert!(
        matches!(&objections[..], [(node, Objection::Lease { .. })] if **node == *label(&servers[0])),
        "{objections:?}"
    );
    for server in &servers {
        assert_eq!(ask::<String>(server, &["GET", CHARTER]).await, text);
    }
    servers[0].command(&["DEL", "a"]).await;
    let higher = "600000 300000 other@host:4";
    let raised = with_something_in_between(&servers, async || {
        servers[1].command(&["SET", CHARTER, higher]).await;
    });
    let objections = put_back(raised.await);
    let expected = Objection::Raised {
        longest: LONG * 2,
        by: Some("other@host:4".into()),
    };
    assert_eq!(objections, [(label(&servers[1]).into(), expected)]);
    for (server, stands) in servers.iter().zip([text, higher, text]) {
        assert_eq!(ask::<String>(server, &["GET", CHARTER]).await, stands);
    }
}

#[tokio::test]
async fn who_remembers_writes_it_again_and_is_named() {
    let servers = servers().await;
    let mut proxies = Vec::new();
    for server in &servers {
        proxies.push(Proxy::start(server.port()).await);
    }
    let through: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let _client = agreeing(&through).await;
    until_in_force(&servers, LONG).await;
    for proxy in &proxies {
        proxy.cut().await;
    }
    let urls = urls(&servers);
    until("its connections have ended", async || reset(&urls).await.is_ok()).await;
    assert_eq!(charter(&servers).await.state(), CharterState::Nothing);
    for proxy in &proxies {
        proxy.heal();
    }
    until_in_force(&servers, LONG).await;
    for (node, stored) in charter(&servers).await.nodes {
        let stored = stored.expect("it tells");
        assert_eq!(stored.raised_by.as_deref(), Some("billing@host:1"), "{node}");
        assert_eq!(stored.masters, Some(3));
    }
}
