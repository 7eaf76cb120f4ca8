//! Helpers about locks for the suites on real servers.

use std::time::Duration;

use multilock::{
    Masters, MastersBuilder, Mode, MultiLock, MultiLockGuard, Node, Quarantine, Rounds, Vote, Votes,
};
use redis::Value;
use tokio::time::{Instant, sleep, timeout};

use super::scripts::{ACQUIRE, EXTEND, RELEASE};
use super::server::Server;

/// The keys and channels that belong to a name.
fn key(prefix: &str, name: &str) -> String {
    format!("{prefix}:{{{name}}}")
}

/// Runs acquire by hand, unfenced, for a client that does not wait. Returns its answer after the stamp.
pub async fn acquire(server: &Server, names: &[&str], owner: &str, lease_ms: &str) -> Vec<Value> {
    let mut keys = Vec::new();
    for name in names {
        let beside = ["multilock_revoked", "multilock_deadlines"].map(|prefix| key(prefix, name));
        keys.push((*name).to_owned());
        keys.extend(beside);
    }
    keys.extend(names.iter().map(|name| key("multilock_fence", name)));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    after_stamp(eval(server, ACQUIRE, &keys, &[owner, lease_ms]).await)
}

/// Runs release by hand, unfenced, for one name; its answer.
pub async fn release(server: &Server, name: &str, owner: &str) -> Value {
    let deadlines = key("multilock_deadlines", name);
    let channel = key("redisson_lock__channel", name);
    let args = [owner, "announce", &channel];
    eval(server, RELEASE, &[name, &deadlines], &args).await
}

/// How many waiters stand in the queue for a name.
pub async fn waiters(server: &Server, name: &str) -> usize {
    let answer = server.command(&["ZCARD", &key("multilock_queue", name)]).await;
    redis::from_redis_value(answer).expect("a number")
}

/// Runs extend by hand, unfenced, for one hold of one name; its answer.
pub async fn extend(server: &Server, keys: &[&str], owner: &str, lease_ms: &str) -> Value {
    let args = ["0", owner, "1", lease_ms, "1", "0", "0", "0"];
    after_stamp(eval(server, EXTEND, keys, &args).await).remove(0)
}

fn after_stamp(reply: Value) -> Vec<Value> {
    match reply {
        Value::Array(parts) if matches!(parts[..], [Value::Int(1_600_000_000_000_000..), _, ..]) => {
            parts[1..].to_vec()
        }
        // A stamp alone grants.
        Value::Int(1_600_000_000_000_000..) => vec![Value::Int(1)],
        other => panic!("no stamp: {other:?}"),
    }
}

/// Deadline that no healthy node misses, however busy the machine is. Leases of 21 s and more leave room for it.
pub const PATIENT: Duration = Duration::from_secs(10);
/// Bound of every wait for an event that comes by itself. It is far above the usual time on a machine with other
/// work.
pub const WITHIN: Duration = Duration::from_secs(60);

/// A builder on which only a fault makes a node late, and that asks every master: tests look at each one's vote, also where
/// many locks at once make the client busy.
pub fn patient<N: Into<Node>>(nodes: impl IntoIterator<Item = N>) -> MastersBuilder {
    // The masters of a test have just been started.
    Masters::builder()
        .quarantine(Quarantine::Off)
        .rounds(Rounds::All)
        .nodes(nodes)
        .node_timeout(PATIENT)
        .connect_timeout(PATIENT)
}

/// Connected by [`patient`].
pub async fn connect<N: Into<Node>>(nodes: impl IntoIterator<Item = N>) -> Masters {
    patient(nodes).connect().await.expect("masters that can be used")
}

/// The same, with the option for progress beside Redisson's locks.
pub async fn connect_beside<N: Into<Node>>(nodes: impl IntoIterator<Item = N>) -> Masters {
    let builder = patient(nodes).beside_redisson(true);
    builder.connect().await.expect("masters that can be used")
}

/// The name of a master in votes and errors.
pub fn label(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Three servers of this test's own, with such options.
pub async fn three(args: &[&str]) -> Vec<Server> {
    start(3, args).await
}

/// Starts this number of servers for this test alone.
pub async fn start(count: usize, args: &[&str]) -> Vec<Server> {
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(Server::start_with(args).await);
    }
    servers
}

/// Waits until `condition` holds, for [`WITHIN`] at most. Panics if it does not come to that.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {WITHIN:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for an event, for [`WITHIN`] at most. Panics if it does not come.
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    let come = timeout(WITHIN, event).await;
    come.unwrap_or_else(|_| panic!("not within {WITHIN:?}: {what}"))
}

/// Checks that a call comes before a timer would, in one of three attempts. Each attempt returns its time.
///
/// A machine with other work is late once in a while; a waiter that is not called is late each time.
pub async fn called_before(timer: Duration, mut attempt: impl AsyncFnMut() -> Duration) {
    let mut all = Vec::new();
    for _ in 0..3 {
        let time = attempt().await;
        if time < timer {
            return;
        }
        all.push(time);
    }
    panic!("each after {timer:?}: {all:?}");
}

/// Waits until none of the servers has the key.
pub async fn until_free<'a>(servers: impl IntoIterator<Item = &'a Server>, name: &str) {
    for server in servers {
        let what = format!("{name} is free on {}", server.port());
        until(&what, async || !server.exists(name).await).await;
    }
}

/// Vote of the master at `place`.
#[track_caller]
pub fn vote(votes: &Votes, place: usize) -> Vote {
    let node = votes.iter().nth(place);
    node.unwrap_or_else(|| panic!("no vote {place} in {votes}"))
        .vote
        .clone()
}

/// Waits until every master has answered or missed its deadline.
pub async fn heard_from_all<M: Mode>(guard: &MultiLockGuard<M>) {
    until("every vote is in", async || {
        guard.votes().iter().all(|node| node.vote != Vote::Pending)
    })
    .await;
}

/// Takes the lock so that every master has granted it.
pub async fn held_everywhere(lock: &MultiLock) -> MultiLockGuard {
    let deadline = Instant::now() + WITHIN;
    loop {
        let guard = lock.clone().wait(WITHIN).lock().await.expect("free");
        heard_from_all(&guard).await;
        let votes = guard.votes();
        if votes.granted() == votes.iter().count() {
            return guard;
        }
        // A short deadline can be missed on a busy machine.
        assert!(Instant::now() < deadline, "not granted by all: {votes}");
        guard.unlock().await.expect("free again");
    }
}

/// Waits until every master has executed all earlier commands. Later commands on the same connection are executed
/// after them.
pub async fn all_executed(masters: &Masters) {
    let guard = masters.multi_lock("a name of its own").lock().await;
    guard
        .expect("every master answers")
        .unlock()
        .await
        .expect("every master answers");
}

/// The owner field under a name, or `None` where the name is free.
pub async fn field(server: &Server, name: &str) -> Option<String> {
    let fields = server.hgetall(name).await;
    assert!(fields.len() <= 1, "one owner at most: {fields:?}");
    fields.into_keys().next()
}

/// Runs one of the scripts by hand, like a client that sends a command late or twice.
async fn eval(server: &Server, script: &str, keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    let head = ["EVAL", script, &count];
    server.command(&[&head[..], keys, args].concat()).await
}
