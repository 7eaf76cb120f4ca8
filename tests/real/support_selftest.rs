//! The test support keeps to its documentation; without that the other suites would prove nothing.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::{AsyncConnectionConfig, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::support::{
    Cluster, Direction, Keep, Proxy, Server, in_a_child, is_child, undisturbed, until, within,
};

/// Long enough to see that something does not happen.
const A_WHILE: Duration = Duration::from_millis(200);

async fn dial(port: u16) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .expect("a connection")
}

async fn read(stream: &mut TcpStream, bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    within("an answer", stream.read_exact(&mut buffer))
        .await
        .expect("an answer");
    String::from_utf8(buffer).expect("text")
}

/// The stream ends, in order or not.
async fn ends(stream: &mut TcpStream) -> bool {
    let ended = within("the end of the stream", stream.read(&mut [0; 64])).await;
    matches!(ended, Ok(0) | Err(_))
}

async fn silent(stream: &mut TcpStream) -> bool {
    timeout(A_WHILE, stream.read(&mut [0; 64])).await.is_err()
}

async fn ping(port: u16) -> String {
    let mut stream = dial(port).await;
    stream.write_all(b"PING\r\n").await.expect("sent");
    read(&mut stream, 7).await
}

async fn run_id(server: &Server) -> String {
    let info: String = redis::from_redis_value(server.command(&["INFO", "server"]).await).expect("text");
    info.lines()
        .find_map(|line| line.strip_prefix("run_id:"))
        .expect("a run_id")
        .to_owned()
}

#[tokio::test]
async fn nobody_else_is_given_a_port_of_a_server() {
    let server = Server::start_with(&[]).await;
    // No client of the server has been on this port, so that nothing else keeps it from others.
    let socket = TcpSocket::new_v4().expect("a socket");
    let taken = socket.bind((Ipv4Addr::LOCALHOST, server.tls_port()).into());
    assert_eq!(
        taken.expect_err("a port that is held").kind(),
        ErrorKind::AddrInUse
    );
}

#[tokio::test]
async fn masters_are_independent() {
    let cluster = Cluster::start(5).await;
    assert_eq!(cluster.urls().len(), 5);
    cluster.server(0).command(&["SET", "key", "value"]).await;
    assert_eq!(cluster.server(0).keys().await, ["key"]);
    for server in &cluster.servers()[1..] {
        assert!(server.keys().await.is_empty());
        let Value::Array(role) = server.command(&["ROLE"]).await else {
            panic!("ROLE answers an array")
        };
        assert_eq!(role[0], Value::BulkString(b"master".to_vec()));
    }
}

#[tokio::test]
async fn questions_are_answered() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    server.command(&["HSET", "hash", "field", "1"]).await;
    server.command(&["PEXPIRE", "hash", "60000"]).await;
    assert!(server.exists("hash").await);
    assert!(!server.exists("other").await);
    assert_eq!(
        server.hgetall("hash").await,
        [("field".to_owned(), "1".to_owned())].into()
    );
    assert!((1..=60_000).contains(&server.pttl("hash").await));
    assert_eq!(server.pttl("other").await, -2);
    assert!(
        server.try_command(&["GET", "hash"]).await.is_err(),
        "a wrong type is an error"
    );
    server.flushall().await;
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn commands_are_counted() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    server.reset_stats().await;
    for _ in 0..3 {
        server.command(&["GET", "key"]).await;
    }
    let stats = server.commandstats().await;
    assert_eq!(stats.get("get"), Some(&3));
    // Before Redis 7.0 a subcommand is counted under its command.
    let expected = ["get", "config|resetstat", "config", "ping"];
    let others: Vec<_> = stats
        .keys()
        .filter(|name| !expected.contains(&name.as_str()))
        .collect();
    assert!(
        others.is_empty(),
        "the questions add nothing of their own: {others:?}"
    );
}

#[tokio::test]
async fn a_cluster_starts_clean() {
    {
        let cluster = Cluster::start(1).await;
        cluster.server(0).command(&["SET", "key", "value"]).await;
        cluster.server(0).freeze().await;
    }
    let cluster = Cluster::start(1).await;
    assert!(cluster.server(0).keys().await.is_empty());
    assert!(!cluster.server(0).commandstats().await.contains_key("set"));
}

#[tokio::test]
async fn clusters_of_concurrent_tests_do_not_meet() {
    let one = async |value: &'static str| {
        let cluster = Cluster::start(2).await;
        cluster.server(1).command(&["SET", value, value]).await;
        sleep(A_WHILE).await;
        assert_eq!(cluster.server(1).keys().await, [value]);
    };
    tokio::join!(one("a"), one("b"));
}

#[tokio::test]
async fn a_frozen_server_answers_when_thawed() {
    let cluster = Cluster::start(2).await;
    let server = cluster.server(0);
    server.freeze().await;
    server.freeze().await;
    let mut stream = dial(server.port()).await;
    stream
        .write_all(b"PING\r\n")
        .await
        .expect("the system takes the bytes");
    assert!(silent(&mut stream).await, "no answer while frozen");
    cluster.server(1).command(&["PING"]).await;
    server.thaw().await;
    assert_eq!(read(&mut stream, 7).await, "+PONG\r\n");
    server.thaw().await;
}

#[tokio::test]
async fn a_killed_server_refuses_and_comes_back_with_its_data() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let (port, before) = (server.port(), run_id(server).await);
    server.command(&["SET", "key", "value"]).await;
    let mut stream = dial(port).await;
    server.kill().await;
    assert!(ends(&mut stream).await);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
    server.kill().await;
    server.restart(Keep::Data).await;
    assert_eq!(server.port(), port);
    assert_eq!(server.keys().await, ["key"]);
    assert_ne!(run_id(server).await, before);
}

#[tokio::test]
async fn a_restart_can_lose_everything() {
    let cluster = Cluster::start(2).await;
    let server = cluster.server(0);
    let (port, before) = (server.port(), run_id(server).await);
    for server in cluster.servers() {
        server.command(&["SET", "key", "value"]).await;
    }
    // Frozen, too: a restart must not depend on the server's help.
    server.freeze().await;
    server.restart(Keep::Nothing).await;
    assert_eq!(server.port(), port);
    assert!(server.keys().await.is_empty());
    assert_ne!(run_id(server).await, before);
    assert_eq!(cluster.server(1).keys().await, ["key"]);
    // And nothing comes back later.
    server.restart(Keep::Data).await;
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn a_server_takes_options() {
    let server = Server::start_with(&["--requirepass", "secret", "--unixsocket", "{dir}/redis.sock"]).await;
    assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
    assert!(ping(server.port()).await.starts_with("-NOAUTH"));
    server.command(&["SET", "key", "value"]).await;
    assert!(server.dir().join("redis.sock").exists());

    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &server.port().to_string()]).await;
    assert!(
        replica.try_command(&["SET", "key", "value"]).await.is_err(),
        "a replica is read-only"
    );

    let cluster_node = Server::start_with(&["--cluster-enabled", "yes"]).await;
    assert!(
        cluster_node.try_command(&["GET", "key"]).await.is_err(),
        "the cluster is down"
    );

    let small = Server::start_with(&["--maxmemory", "1"]).await;
    let error = small
        .try_command(&["SET", "key", "value"])
        .await
        .expect_err("there is no memory");
    assert!(format!("{error:?}").contains("OOM"), "{error:?}");
}

#[tokio::test]
#[should_panic(expected = "its log:")]
async fn a_server_that_cannot_start_says_why() {
    Server::start_with(&["--no-such-option", "yes"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_outlives_its_test() {
    let is_there = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
    let started = async || {
        let server = Server::start_with(&[]).await;
        let pid = server.pid().expect("it runs");
        assert!(is_there(pid));
        (server, pid)
    };
    let (server, dropped) = started().await;
    let dir = server.dir().to_owned();
    drop(server);
    let (server, frozen) = started().await;
    server.freeze().await;
    drop(server);
    let (server, panicked) = started().await;
    let test = tokio::spawn(async move {
        let _server = server;
        std::panic::resume_unwind(Box::new("a test fails"));
    });
    assert!(test.await.is_err());
    for pid in [dropped, frozen, panicked] {
        assert!(!is_there(pid), "{pid} is still there");
    }
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_delay_keeps_order_and_pipelines() {
    const DELAY: Duration = Duration::from_millis(300);
    const MANY: usize = 60;
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    assert_eq!(ping(proxy.port()).await, "+PONG\r\n");
    proxy.set_delay(Direction::ToServer, DELAY);
    let mut stream = dial(proxy.port()).await;
    let begun = Instant::now();
    let sent: String = ('a'..='z').cycle().take(MANY).collect();
    for letter in sent.chars() {
        stream
            .write_all(format!("ECHO {letter}\r\n").as_bytes())
            .await
            .expect("sent");
        sleep(Duration::from_millis(5)).await;
    }
    // The delay is shortened only for later bytes, which must not overtake.
    proxy.set_delay(Direction::ToServer, Duration::ZERO);
    stream.write_all(b"ECHO !\r\n").await.expect("sent");
    let answers = read(&mut stream, (MANY + 1) * 7).await;
    let took = begun.elapsed();
    assert_eq!(
        answers.replace("$1", "").split_whitespace().collect::<String>(),
        sent + "!"
    );
    assert!(took >= DELAY, "{took:?}");
    // A third of the sum of all delays.
    assert!(took < DELAY * 20, "the delays must not add up: {took:?}");

    proxy.set_delay(Direction::ToServer, DELAY);
    proxy.set_delay(Direction::ToClient, DELAY);
    let begun = Instant::now();
    assert_eq!(ping(proxy.port()).await, "+PONG\r\n");
    assert!(begun.elapsed() >= DELAY * 2);
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn a_delay_of_a_millisecond_is_not_two() {
    const DELAY: Duration = Duration::from_millis(1);
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    proxy.set_delay(Direction::ToServer, DELAY);
    proxy.set_delay(Direction::ToClient, DELAY);
    let mut stream = dial(proxy.port()).await;
    let mut least = Duration::MAX;
    let mut round_trip = async || {
        let begun = Instant::now();
        stream.write_all(b"PING\r\n").await.expect("sent");
        assert_eq!(read(&mut stream, 7).await, "+PONG\r\n");
        let took = begun.elapsed();
        assert!(took >= DELAY * 2, "delivered early: {took:?}");
        least = least.min(took);
        least
    };
    for _ in 0..200 {
        round_trip().await;
    }
    // The runtime's timers would take 3 ms or more; only the best of all is not at the machine's mercy.
    until("one of them is exact", async || {
        round_trip().await < DELAY * 27 / 10
    })
    .await;
}

#[tokio::test]
async fn much_data_passes_unchanged() {
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    proxy.set_delay(Direction::ToClient, Duration::from_millis(5));
    let value: String = ('a'..='z').cycle().take(4_000_000).collect();
    let client = redis::Client::open(proxy.url()).expect("a URL");
    // It takes as long as it takes.
    let unbounded = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&unbounded)
        .await
        .expect("a connection");
    for direction in ["SET", "GET"] {
        let mut command = redis::cmd(direction);
        command.arg("key");
        if direction == "SET" {
            command.arg(&value);
        }
        let answer: String = command.query_async(&mut connection).await.expect("an answer");
        assert!(direction == "SET" || answer == value);
    }
}

#[tokio::test]
async fn a_paused_direction_delivers_later() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let proxy = Proxy::start(server.port()).await;
    let mut stream = dial(proxy.port()).await;

    proxy.pause(Direction::ToServer);
    stream.write_all(b"INCR up\r\n").await.expect("sent");
    sleep(A_WHILE).await;
    assert!(!server.exists("up").await);
    proxy.resume(Direction::ToServer);
    assert_eq!(read(&mut stream, 4).await, ":1\r\n");

    proxy.pause(Direction::ToClient);
    stream.write_all(b"INCR down\r\n").await.expect("sent");
    until("it is run, though the answer is held", async || {
        server.exists("down").await
    })
    .await;
    assert!(silent(&mut stream).await);
    proxy.resume(Direction::ToClient);
    assert_eq!(read(&mut stream, 4).await, ":1\r\n");

    // Bytes that a client has sent arrive although the client has closed its connection since.
    proxy.pause(Direction::ToServer);
    stream.write_all(b"INCR late\r\n").await.expect("sent");
    drop(stream);
    sleep(A_WHILE).await;
    assert!(!server.exists("late").await);
    proxy.resume(Direction::ToServer);
    until("it is delivered", async || server.exists("late").await).await;
}

#[tokio::test]
async fn a_cut_refuses_until_healed() {
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    for _ in 0..3 {
        let mut stream = dial(proxy.port()).await;
        stream.write_all(b"PING\r\n").await.expect("sent");
        assert_eq!(read(&mut stream, 7).await, "+PONG\r\n");
        proxy.cut().await;
        assert!(ends(&mut stream).await);
        assert!(
            TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))
                .await
                .is_err()
        );
        proxy.cut().await;
        proxy.heal();
        assert_eq!(ping(proxy.port()).await, "+PONG\r\n");
    }
    assert_eq!(proxy.connections(), 6);
}

#[tokio::test]
async fn a_reset_closes_only_what_is_there() {
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    let mut stream = dial(proxy.port()).await;
    stream.write_all(b"PING\r\n").await.expect("sent");
    assert_eq!(read(&mut stream, 7).await, "+PONG\r\n");
    proxy.reset_connections().await;
    assert!(ends(&mut stream).await);
    assert_eq!(ping(proxy.port()).await, "+PONG\r\n");
}

#[tokio::test]
async fn a_dead_server_ends_the_connections_through_a_proxy() {
    let cluster = Cluster::start(1).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    let mut stream = dial(proxy.port()).await;
    stream.write_all(b"PING\r\n").await.expect("sent");
    assert_eq!(read(&mut stream, 7).await, "+PONG\r\n");
    cluster.server(0).kill().await;
    assert!(ends(&mut stream).await);
    assert!(ends(&mut dial(proxy.port()).await).await);
}

#[tokio::test]
async fn an_abandoned_connection_may_still_be_run() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let proxy = Proxy::start(server.port()).await;
    let mut streams = [dial(proxy.port()).await, dial(proxy.port()).await];
    for stream in &mut streams {
        stream.write_all(b"PING\r\n").await.expect("sent");
        assert_eq!(read(stream, 7).await, "+PONG\r\n");
    }
    proxy.pause(Direction::ToServer);
    streams[0].write_all(b"RPUSH list a\r\n").await.expect("sent");
    sleep(Duration::from_millis(20)).await;
    // Without a moment for the proxy to read it.
    streams[1].write_all(b"RPUSH list b\r\n").await.expect("sent");
    proxy.abandon().await;
    for stream in &mut streams {
        assert!(ends(stream).await);
    }
    // The line itself is well again, but the abandoned bytes stay where they are.
    proxy.resume(Direction::ToServer);
    assert_eq!(ping(proxy.port()).await, "+PONG\r\n");
    sleep(A_WHILE).await;
    assert!(!server.exists("list").await);

    assert_eq!(proxy.deliver_abandoned().await, 2 * "RPUSH list a\r\n".len());
    let list: Vec<String> =
        redis::from_redis_value(server.command(&["LRANGE", "list", "0", "-1"]).await).expect("a list");
    assert_eq!(list, ["a", "b"]);
    assert_eq!(proxy.deliver_abandoned().await, 0, "only once");
}

/// Of a process of its own, which this test may stop.
#[tokio::test]
async fn an_attempt_that_fails_is_repeated_after_a_standstill_alone() {
    if !is_child() {
        let test = "support_selftest::an_attempt_that_fails_is_repeated_after_a_standstill_alone";
        return in_a_child(test, &[]).await;
    }
    let mut attempts = 0;
    undisturbed(A_WHILE * 2, async || {
        attempts += 1;
        if attempts < 3 {
            let script = "kill -STOP $PPID; sleep 1; kill -CONT $PPID";
            let mut stopping = std::process::Command::new("sh")
                .args(["-c", script])
                .spawn()
                .expect("a shell");
            assert!(stopping.wait().expect("its end").success());
        }
        assert_eq!(attempts, 3, "it fails after a standstill");
    })
    .await;
    assert_eq!(attempts, 3);
    let failing = tokio::spawn(undisturbed(A_WHILE * 2, async || panic!("a mistake of the code")));
    assert!(
        failing.await.is_err_and(|ended| ended.is_panic()),
        "nothing stood still"
    );
}
