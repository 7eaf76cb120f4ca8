//! The stand-ins by themselves: their behaviour, and their numbers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::Value;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{ALONE_FOR, asked, quick_masters, run_alone, take, until_asleep, urls};
use crate::support::contest::{Contest, Side, Tally};
use crate::support::foreign::multi_lock::{self, LockList};
use crate::support::foreign::{Lock, fair, node_redlock, redsync, rlock};
use crate::support::{Cluster, Server, WITHIN, field, until, until_free};

/// Of the order that was seen of the original, for which [`run_alone`] has waited: no more than sections of that length
/// leave room for.
#[track_caller]
fn assert_below(tally: &Tally, a_second: usize) {
    let seconds = usize::try_from(ALONE_FOR.as_secs()).expect("a few");
    assert!(tally.grants < a_second * seconds, "{tally:?}");
}

async fn listeners(server: &Server) -> usize {
    let answer = server
        .command(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{a}"])
        .await;
    let (_, count): (String, usize) = redis::from_redis_value(answer).expect("a channel and its listeners");
    count
}

#[tokio::test]
async fn rlock_is_a_hash_with_a_count_and_tells_its_release() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let client = rlock::Client::connect(server.url()).await;
    let lock = client.lock("a");
    let first = lock.lock(None).await.expect("free");
    let second = lock.lock(None).await.expect("its own");
    let fields = server.hgetall("a").await;
    assert_eq!(
        fields.into_iter().collect::<Vec<_>>(),
        [(lock.owner().to_owned(), "2".to_owned())]
    );
    assert!((20_000..=30_000).contains(&server.pttl("a").await));
    let other = client.lock("a");
    assert!(other.lock(Some(Duration::ZERO)).await.is_none(), "another thread");
    assert_eq!(listeners(server).await, 0, "without a wait nobody listens");
    let waiting = tokio::spawn(async move { other.lock(None).await });
    until("it listens", async || listeners(server).await == 1).await;
    assert!(lock.unlock(first).await, "held twice");
    assert!(lock.unlock(second).await, "held once");
    let got = timeout(WITHIN, waiting).await.expect("woken").expect("no panic");
    assert!(got.is_some());
    until("nobody listens", async || listeners(server).await == 0).await;
}

/// Waiters get in in order of arrival, each by a message of its own, also behind a dead waiter.
#[tokio::test]
async fn a_fair_lock_is_taken_in_order_of_arrival() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let clients = [
        fair::Client::connect(server.url()).await,
        fair::Client::connect(server.url()).await,
    ];
    let queue = "redisson_lock_queue:{a}";
    let lock = clients[0].lock("a");
    let held = lock.lock(None).await.expect("free");
    server.command(&["RPUSH", queue, "dead:1"]).await;
    let times = ["ZADD", "redisson_lock_timeout:{a}", "1", "dead:1"];
    server.command(&times).await;
    let (order, mut waiting) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    for number in 0..4 {
        let (lock, order) = (clients[number % 2].lock("a"), Arc::clone(&order));
        let owner = lock.owner().to_owned();
        waiting.spawn(async move {
            let held = lock.lock(Some(WITHIN)).await.expect("granted");
            order.lock().expect("not poisoned").push(number);
            assert!(lock.unlock(held).await, "held");
        });
        until("it stands in the list", async || {
            let last = server.command(&["LINDEX", queue, "-1"]).await;
            last == Value::BulkString(owner.clone().into_bytes())
        })
        .await;
    }
    assert!(
        clients[0].lock("a").lock(Some(Duration::ZERO)).await.is_none(),
        "held"
    );
    assert!(lock.unlock(held).await, "held");
    let all = timeout(WITHIN, waiting.join_all()).await;
    all.expect("each is woken");
    assert_eq!(*order.lock().expect("not poisoned"), [0, 1, 2, 3]);
    assert_eq!(server.keys().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_wakes_one_waiter_of_each_process() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let _holds = take([server]).await;
    let mut waiting = JoinSet::new();
    for _ in 0..2 {
        let client = rlock::Client::connect(server.url()).await;
        for _ in 0..3 {
            let lock = client.lock("a");
            waiting.spawn(async move { lock.lock(None).await.is_some() });
        }
    }
    let before = 1 + 2 * 6;
    until("all sleep", async || asked(server).await == before).await;
    assert_eq!(listeners(server).await, 2, "one subscription of a process");
    server
        .command(&["PUBLISH", "redisson_lock__channel:{a}", "0"])
        .await;
    until("they ask", async || asked(server).await >= before + 2).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(asked(server).await, before + 2);
}

#[tokio::test]
async fn rlock_sleeps_no_longer_than_the_key_lives() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let _holds = take([server]).await;
    server.command(&["PEXPIRE", "a", "300"]).await;
    let lock = rlock::Client::connect(server.url()).await.lock("a");
    assert!(lock.lock(Some(WITHIN)).await.is_some());
    // A string is no lock to it, but an error.
    server.command(&["SET", "b", "x"]).await;
    let lock = rlock::Client::connect(server.url()).await.lock("b");
    assert!(lock.lock(None).await.is_none());
}

/// Both keep their holds while they wait for the next master, and give them back when time is over.
#[tokio::test]
async fn a_list_holds_while_it_waits() {
    let cluster = Cluster::start(5).await;
    let client = multi_lock::Client::connect(cluster.urls()).await;
    let _holds = take([cluster.server(2)]).await;
    // Each waits five seconds for a master, in which the looks below have to come.
    let (short, long) = (Duration::from_secs(5), Duration::from_secs(25));
    for (lock, wait) in [(client.multi_lock("a"), short), (client.red_lock("a"), long)] {
        let owner = lock.owners().next().map(str::to_owned);
        cluster.server(2).reset_stats().await;
        let waiting = tokio::spawn(async move { lock.lock(Some(wait)).await.is_some() });
        until_asleep(cluster.server(2)).await;
        assert_eq!(field(cluster.server(0), "a").await, owner);
        assert!(!cluster.server(3).exists("a").await, "one after the other");
        let got = waiting.await.expect("no panic");
        if got {
            // The RedLock, which did without that master.
            assert!(cluster.server(4).exists("a").await);
        } else {
            until_free([cluster.server(0), cluster.server(1)], "a").await;
        }
    }
}

#[tokio::test]
async fn a_red_lock_does_without_a_minority() {
    let cluster = Cluster::start(5).await;
    let client = multi_lock::Client::connect(cluster.urls()).await;
    let mut holds = take(&cluster.servers()[3..]).await;
    let wait = Some(Duration::from_millis(500));
    let lock = client.red_lock("a");
    // It waits for a fifth of this, and fails if three answers take all of it.
    let long = Some(Duration::from_secs(5));
    let held = lock.lock(long).await.expect("three are free");
    assert!(client.red_lock("a").lock(wait).await.is_none(), "held");
    assert!(client.multi_lock("a").lock(wait).await.is_none(), "held");
    assert!(lock.unlock(held).await, "held by a majority");
    holds.extend(take([cluster.server(0)]).await);
    assert!(client.red_lock("a").lock(wait).await.is_none(), "two are free");
    until_free(&cluster.servers()[1..3], "a").await;
}

#[tokio::test]
async fn redsync_gives_back_at_once_and_node_redlock_at_last() {
    let cluster = Cluster::start(5).await;
    let (some, others) = cluster.servers().split_at(3);
    let _holds = take(some).await;
    let wait = Some(Duration::from_millis(100));
    let redsync = redsync::Client::connect(cluster.urls()).await.lock("a");
    assert!(redsync.lock(wait).await.is_none(), "two are free");
    until_free(others, "a").await;

    let lock = Arc::new(node_redlock::Client::connect(cluster.urls()).await.lock("a"));
    assert!(lock.lock(wait).await.is_none(), "two are free");
    until_free(others, "a").await;
    let begun = Instant::now();
    let waiting = tokio::spawn({
        let lock = Arc::clone(&lock);
        async move { lock.lock(None).await }
    });
    for server in others {
        until("it keeps what it got", async || server.exists("a").await).await;
    }
    // It then has a majority, but not of one try, so it begins again before it wins.
    some[0].command(&["DEL", "a"]).await;
    let held = timeout(WITHIN, waiting).await.expect("free").expect("no panic");
    assert!(begun.elapsed() >= Duration::from_secs(1), "ten pauses");
    assert!(lock.unlock(held.expect("three were free")).await);
    until_free(others, "a").await;
    for server in some {
        server.command(&["DEL", "a"]).await;
    }
    until_free(cluster.servers(), "a").await;
    let held = redsync.lock(wait).await.expect("free");
    assert_eq!(
        some[0].command(&["TYPE", "a"]).await,
        Value::SimpleString("string".into())
    );
    assert!(redsync.unlock(held).await);
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn nothing_is_left_of_a_client() {
    let cluster = Cluster::start(3).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    {
        let list = multi_lock::Client::connect(cluster.urls()).await.multi_lock("a");
        let held = list.lock(None).await.expect("free");
        list.unlock(held).await;
        let redsync = redsync::Client::connect(cluster.urls()).await.lock("a");
        let held = redsync.lock(None).await.expect("free");
        redsync.unlock(held).await;
        let _node_redlock = node_redlock::Client::connect(cluster.urls()).await.lock("a");
        assert!(tasks() > before);
    }
    until("no task is left", async || tasks() == before).await;
}

/// Two processes of two tasks.
fn two_and_two<C, L: Lock + 'static>(clients: &[C; 2], lock: impl Fn(&C) -> L) -> Contest {
    let mut contest = Contest::default();
    for client in clients {
        contest.enter(Side::Theirs, lock(client));
        contest.enter(Side::Theirs, lock(client));
    }
    contest
}

pub(super) async fn rlocks() -> Tally {
    let servers = quick_masters(1).await;
    let connect = async || rlock::Client::connect(servers[0].url()).await;
    let clients = [connect().await, connect().await];
    run_alone(two_and_two(&clients, |client| client.lock("a")), 50).await
}

async fn lists(lock: fn(&multi_lock::Client) -> LockList) -> Tally {
    let servers = quick_masters(5).await;
    let connect = async || multi_lock::Client::connect(urls(&servers)).await;
    let clients = [connect().await, connect().await];
    run_alone(two_and_two(&clients, lock), 10).await
}

pub(super) async fn red_locks() -> Tally {
    lists(|client| client.red_lock("a")).await
}

pub(super) async fn multi_locks() -> Tally {
    lists(|client| client.multi_lock("a")).await
}

pub(super) async fn redsyncs() -> Tally {
    let servers = quick_masters(5).await;
    let connect = async || redsync::Client::connect(urls(&servers)).await;
    let clients = [connect().await, connect().await];
    run_alone(two_and_two(&clients, |client| client.lock("a")), 20).await
}

/// Processes of one task each.
pub(super) async fn node_redlocks(processes: usize) -> Tally {
    let servers = quick_masters(5).await;
    let mut contest = Contest::default();
    for _ in 0..processes {
        let client = node_redlock::Client::connect(urls(&servers)).await;
        contest.enter(Side::Theirs, client.lock("a"));
    }
    run_alone(contest, 20).await
}

/// Median time of a lock and its unlock without other clients.
async fn pair<L: Lock>(lock: L) -> Duration {
    let mut times = Vec::new();
    for _ in 0..1000 {
        let begun = Instant::now();
        let held = lock.lock(None).await.expect("free");
        assert!(lock.unlock(held).await, "held");
        times.push(begun.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

pub(super) async fn rlock_pair() -> Duration {
    let servers = quick_masters(1).await;
    let client = rlock::Client::connect(servers[0].url()).await;
    pair(client.lock("a")).await
}

pub(super) async fn red_lock_pair() -> Duration {
    let servers = quick_masters(5).await;
    let client = multi_lock::Client::connect(urls(&servers)).await;
    pair(client.red_lock("a")).await
}

/// Nobody stands still for as long as a hold would last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn red_lock_in_numbers() {
    let tally = red_locks().await;
    assert_below(&tally, 700);
    assert!(tally.standstill < Duration::from_secs(15), "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn multi_lock_in_numbers() {
    assert_below(&multi_locks().await, 700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rlock_in_numbers() {
    assert_below(&rlocks().await, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redsync_in_numbers() {
    assert_below(&redsyncs().await, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redlock_in_numbers() {
    assert_below(&node_redlocks(1).await, 1000);
}
