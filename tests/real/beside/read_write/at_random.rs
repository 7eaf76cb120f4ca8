//! The random steps of the simulation, on a real server and in time that passes.

#[path = "../../../simulation/directed/beside_redisson/counts.rs"]
mod counts;
#[path = "../../../simulation/directed/beside_redisson/ours.rs"]
mod ours;
#[path = "../../../simulation/directed/beside_redisson/theirs.rs"]
mod theirs;
#[path = "../../../simulation/directed/beside_redisson/walk.rs"]
mod walk;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};

use self::counts::Counts;
use self::ours::Message;
use self::theirs::NAME;
use self::walk::{Master, Plan};
use crate::support::Server;

struct Served(MultiplexedConnection);

/// Without the time limits of the client library: half a second for an answer.
async fn served(server: &Server) -> Served {
    let client = redis::Client::open(server.url()).expect("a URL");
    let unbounded = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connection = client
        .get_multiplexed_async_connection_with_config(&unbounded)
        .await;
    Served(connection.expect("a connection"))
}

fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Array(parts) => parts.into_iter().flat_map(texts).collect(),
        Value::BulkString(bytes) => vec![String::from_utf8(bytes).expect("text")],
        Value::SimpleString(text) => vec![text],
        Value::Int(number) => vec![number.to_string()],
        Value::Okay => vec!["OK".into()],
        _ => Vec::new(),
    }
}

impl walk::Master for Served {
    async fn run(&self, words: &[&str]) -> Vec<String> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let reply = command.query_async(&mut self.0.clone()).await;
        texts(reply.expect("an answer"))
    }

    async fn run_script(&self, script: &str, keys: &[&str], args: &[&str]) -> Vec<String> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys).arg(args);
        let reply = command.query_async(&mut self.0.clone()).await;
        texts(reply.expect("an answer"))
    }
}

#[tokio::test]
async fn neither_side_gets_in_beside_the_other() {
    let mut counts = Counts::default();
    for seed in 0..4 {
        let server = Server::start_with(&["--appendonly", "no"]).await;
        let plan = Plan {
            seed,
            steps: 1_500,
            longest: Duration::from_millis(600),
        };
        println!("seed {seed}");
        walk::run(&served(&server).await, plan, &mut counts).await;
    }
    println!("{counts:?}");
    counts.check(10);
}

/// A TTL is counted from the moment at which it is asked for, and a script reads the clock before.
#[tokio::test]
async fn a_downgrade_ends_no_lease_earlier() {
    let server = Server::start_with(&["--appendonly", "no"]).await;
    let master = served(&server).await;
    let owner = "00000000-0000-8000-8000-000000000000:1";
    let downgrade = Message::downgrade(owner, Duration::from_millis(10));
    let number = |words: Vec<String>, what: &str| words[0].parse::<u64>().expect(what);
    let time = master.run(&["TIME"]).await;
    // None of these ends may pass before its turn.
    let first = number(time, "seconds") * 1_000 + 3_600_000;
    // The ms changes between the two in one of some hundred scripts.
    for ends in first..first + 5_000 {
        master.run(&["DEL", NAME]).await;
        master.run(&["HSET", NAME, owner, "1", "mode", "write"]).await;
        master.run(&["PEXPIREAT", NAME, &ends.to_string()]).await;
        assert!(downgrade.run(&master).await, "it is the owner's");
        let read_until = number(master.run(&["HGET", NAME, "multilock"]).await, "a ms");
        assert!(read_until >= ends, "{read_until} is before {ends}");
    }
}
