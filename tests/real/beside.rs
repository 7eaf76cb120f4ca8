//! Beside the lock libraries of others, on the same names: never two inside, both sides get in, and their sleepers
//! are woken by our releases.
//!
//! The others are stand-ins, so each is looked at alone first: whether it behaves like its original, and about as
//! often.

mod alone;
mod read_write;

use std::time::{Duration, Instant};

use crate::support::contest::{Contest, Ours, Side, Tally};
use crate::support::foreign::multi_lock::{self, LockList};
use crate::support::foreign::rlock::{self, Pace};
use crate::support::foreign::{Lock, fair, node_redlock, redsync};
use crate::support::{
    Cluster, Direction, Proxy, Server, WITHIN, called_before, connect, connect_beside, held_everywhere,
    patient, until, until_free, within,
};
use futures::StreamExt;
use futures::future::join_all;
use multilock::{Masters, MultiLock};

/// Duration of a run that is judged by numbers.
const ALONE_FOR: Duration = Duration::from_secs(3);
/// As long as this at least, and until both sides have been in.
const SHORT: Duration = Duration::from_secs(2);
/// Neither side keeps the other out: so often each is in beside Redisson's locks.
const OFTEN: usize = 20;
const LONG: Duration = Duration::from_secs(30);
/// Bound for a sleeper to get in after a release. A sleeper that is not woken sleeps until a lease of 30 s has ended.
const WOKEN_BEFORE: Duration = Duration::from_secs(10);

/// Masters that write nothing to their disks: waiting for the disks would be most of the count.
async fn quick_masters(n: usize) -> Vec<Server> {
    join_all((0..n).map(|_| Server::start_with(&["--appendonly", "no"]))).await
}

fn urls(servers: &[Server]) -> impl Iterator<Item = String> {
    servers.iter().map(Server::url)
}

/// Runs as if nobody of ours were there, until they had at least as much in a second as the original. Returns their
/// tally.
async fn run_alone(contest: Contest, a_second: usize) -> Tally {
    let least = a_second * usize::try_from(ALONE_FOR.as_secs()).expect("a few");
    let [_, theirs] = contest.run(ALONE_FOR, &[Side::Theirs], least).await;
    theirs
}

/// How often a stand-in has asked. Our own calls are `EVALSHA`.
async fn asked(server: &Server) -> u64 {
    server.commandstats().await.get("eval").copied().unwrap_or(0)
}

/// Waits until one waiter of theirs has asked before and after its subscription, and so sleeps.
async fn until_asleep(server: &Server) {
    until("it sleeps", async || asked(server).await >= 2).await;
}

/// One `RLock` on each of these masters.
async fn take<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Vec<rlock::RLock> {
    let mut locks = Vec::new();
    for server in servers {
        let lock = rlock::Client::connect(server.url()).await.lock("a");
        lock.lock(Some(WITHIN)).await.expect("free");
        locks.push(lock);
    }
    locks
}

/// A client that asks without any pause may keep the others out on one master: the figures show that.
fn often(pace: Pace) -> usize {
    match pace {
        Pace::Java => OFTEN,
        Pace::AtOnce => 0,
    }
}

async fn beside_rlock(least: Duration, pace: Pace) -> [Tally; 2] {
    let servers = quick_masters(1).await;
    let ours = connect_beside(urls(&servers)).await;
    let theirs = rlock::Client::with_pace(servers[0].url(), pace).await;
    let contest = Contest::four_and_four(&ours.red_lock("a"), || theirs.lock("a"));
    contest.run(least, &[Side::Ours, Side::Theirs], often(pace)).await
}

async fn beside_fair_lock(least: Duration) -> [Tally; 2] {
    let servers = quick_masters(1).await;
    let ours = connect_beside(urls(&servers)).await;
    let theirs = fair::Client::connect(servers[0].url()).await;
    let contest = Contest::four_and_four(&ours.red_lock("a"), || theirs.lock("a"));
    contest.run(least, &[Side::Ours, Side::Theirs], OFTEN).await
}

async fn beside_list(
    least: Duration,
    pace: Pace,
    ours: fn(&Masters) -> MultiLock,
    theirs: fn(&multi_lock::Client) -> LockList,
) -> [Tally; 2] {
    let servers = quick_masters(5).await;
    let masters = connect_beside(urls(&servers)).await;
    let client = multi_lock::Client::with_pace(urls(&servers), pace).await;
    let contest = Contest::four_and_four(&ours(&masters), || theirs(&client));
    contest.run(least, &[Side::Ours, Side::Theirs], often(pace)).await
}

async fn beside_red_lock(least: Duration, pace: Pace) -> [Tally; 2] {
    beside_list(
        least,
        pace,
        |ours| ours.red_lock("a"),
        |theirs| theirs.red_lock("a"),
    )
    .await
}

async fn beside_multi_lock(least: Duration, pace: Pace) -> [Tally; 2] {
    beside_list(
        least,
        pace,
        |ours| ours.multi_lock("a"),
        |theirs| theirs.multi_lock("a"),
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_of_ours_and_four_rlocks() {
    beside_rlock(SHORT, Pace::Java).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_red_locks_of_each() {
    beside_red_lock(SHORT, Pace::Java).await;
}

/// Ours, which keep nothing while they wait, get about as often in as theirs: a quarter of that if they ask all masters at
/// once. The machine may be busy, so a few tries are allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_multi_locks_of_each() {
    let mut grants = Vec::new();
    for _ in 0..6 {
        let [ours, theirs] = beside_multi_lock(SHORT, Pace::Java).await;
        if 4 * ours.grants > ours.grants + theirs.grants {
            return;
        }
        grants.push((ours.grants, theirs.grants));
    }
    panic!("ours had less than half of an equal share: {grants:?}");
}

/// Both sides get in beside `RFairLock`. Its waiters listen to channels of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_of_ours_and_four_fair_locks() {
    beside_fair_lock(SHORT).await;
}

/// No matter which of them meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_at_once() {
    let servers = quick_masters(5).await;
    let ours = connect_beside(urls(&servers)).await;
    let redisson = multi_lock::Client::connect(urls(&servers)).await;
    let redsync = redsync::Client::connect(urls(&servers)).await;
    let node_redlock = node_redlock::Client::connect(urls(&servers)).await;
    let mut contest = Contest::default();
    contest.enter(Side::Ours, Ours(ours.red_lock("a")));
    contest.enter(Side::Ours, Ours(ours.multi_lock("a")));
    contest.enter(Side::Theirs, redisson.red_lock("a"));
    contest.enter(Side::Theirs, redisson.multi_lock("a"));
    contest.enter(Side::Theirs, redsync.lock("a"));
    contest.enter(Side::Theirs, node_redlock.lock("a"));
    contest.run(SHORT, &[Side::Ours, Side::Theirs], 1).await;
}

/// Exclusion does not depend on the option.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_option_neither_side_gets_in_beside_the_other() {
    let servers = quick_masters(3).await;
    let masters = connect(urls(&servers)).await;
    let (client, lists) = (
        rlock::Client::connect(servers[0].url()).await,
        multi_lock::Client::connect(urls(&servers)).await,
    );
    // Each has the first master, and no majority can be without it or the list.
    let contest = Contest::four_and_four(&masters.multi_lock("a"), || client.lock("a"));
    contest.run(SHORT, &[], 0).await;
    let contest = Contest::four_and_four(&masters.red_lock("b"), || lists.red_lock("b"));
    contest.run(SHORT, &[], 0).await;
    let lock = client.lock("c");
    let held = lock.lock(None).await.expect("free");
    masters.multi_lock("c").try_lock().await.expect_err("theirs");
    until("it is rolled back", async || !servers[1].exists("c").await).await;
    assert!(lock.unlock(held).await, "held");
    let ours = held_everywhere(&masters.multi_lock("c")).await;
    assert!(lock.lock(Some(Duration::ZERO)).await.is_none(), "ours");
    ours.unlock().await.expect("held");
}

/// Listens to all channels of Redisson's.
async fn all_channels(server: &Server) -> redis::aio::PubSub {
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut listener = client.get_async_pubsub().await.expect("a connection");
    listener.psubscribe("redisson_*").await.expect("subscribed");
    listener
}

/// Without the option a client says nothing to Redisson's, and listens to nothing of theirs.
#[tokio::test]
async fn without_the_option_no_release_is_announced() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let mut listener = all_channels(server).await;
    let masters = connect(cluster.urls()).await;
    server.reset_stats().await;
    let lock = masters.red_lock(["a", "b"]);
    lock.lock().await.expect("free").unlock().await.expect("held");
    let written = masters.red_lock("a").write().lock().await.expect("free");
    written.downgrade().await.unlock().await.expect("held");
    // A hold of two names that is forced and dropped, and an attempt that is rolled back.
    let held = lock.lock().await.expect("free");
    lock.force_release().await.expect("forced");
    drop(held);
    let theirs = rlock::Client::connect(server.url()).await.lock("b");
    let held = theirs.lock(None).await.expect("free");
    let waits = masters
        .red_lock("b")
        .wait(Duration::from_millis(200))
        .lock()
        .await;
    waits.expect_err("theirs");
    let channels = server.command(&["PUBSUB", "CHANNELS", "redisson_*"]).await;
    assert_eq!(channels, redis::Value::Array(Vec::new()), "nobody listens");
    masters.close(multilock::Closing::Release).await;
    let stats = server.commandstats().await;
    assert!(
        !stats.contains_key("publish") && !stats.contains_key("pubsub|numsub"),
        "{stats:?}"
    );
    assert!(theirs.unlock(held).await, "held");
    let first = within("a message", listener.on_message().next())
        .await
        .expect("a connection");
    assert_eq!(first.get_channel_name(), "redisson_lock__channel:{b}", "theirs");
}

fn print(what: &str, tally: &Tally) {
    let Tally {
        grants, standstill, ..
    } = tally;
    eprintln!("{what}: {grants} grants, standstill {standstill:.2?}");
}

async fn figures_alone() {
    eprintln!("RLock, a pair: {:.0?}", alone::rlock_pair().await);
    eprintln!("RedissonRedLock, a pair: {:.0?}", alone::red_lock_pair().await);
    print("RLock 2 + 2 alone", &alone::rlocks().await);
    print("RedissonRedLock 2 + 2 alone", &alone::red_locks().await);
    print("RedissonMultiLock 2 + 2 alone", &alone::multi_locks().await);
    print("redsync 2 + 2 alone", &alone::redsyncs().await);
    print("node-redlock 1 alone", &alone::node_redlocks(1).await);
    print("node-redlock 1 + 1 alone", &alone::node_redlocks(2).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "half a minute for figures, printed with --nocapture"]
async fn alone_for_figures() {
    figures_alone().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "three minutes for figures, printed with --nocapture"]
async fn for_long() {
    for pace in [Pace::Java, Pace::AtOnce] {
        eprintln!("their pace: {pace:?}");
        let [ours, theirs] = beside_rlock(LONG, pace).await;
        print("one master, ours", &ours);
        print("one master, theirs", &theirs);
        let [ours, theirs] = beside_fair_lock(LONG).await;
        print("one master, ours beside fair locks", &ours);
        print("one master, fair locks", &theirs);
        let [ours, theirs] = beside_red_lock(LONG, pace).await;
        print("RedLock, ours", &ours);
        print("RedLock, theirs", &theirs);
        let [ours, theirs] = beside_multi_lock(LONG, pace).await;
        print("MultiLock, ours", &ours);
        print("MultiLock, theirs", &theirs);
    }
}

/// How long after `free` has begun a sleeper is inside, which asks this server first that is not free.
async fn woken_after<L: Lock + 'static>(
    lock: L,
    server: &Server,
    free: impl Future<Output = ()>,
) -> Duration {
    let sleeper = tokio::spawn(async move {
        let held = lock.lock(None).await.expect("the lock in the end");
        let inside = Instant::now();
        assert!(lock.unlock(held).await, "held");
        inside
    });
    until_asleep(server).await;
    let begun = Instant::now();
    free.await;
    let inside = within("it is woken", sleeper).await.expect("no panic");
    inside.saturating_duration_since(begun)
}

async fn assert_woken<L: Lock + 'static>(cluster: &Cluster, ours: &MultiLock, theirs: impl Fn() -> L) {
    called_before(WOKEN_BEFORE, async || {
        let guard = held_everywhere(ours).await;
        cluster.server(0).reset_stats().await;
        let free = async {
            guard.unlock().await.expect("held");
        };
        let time = woken_after(theirs(), cluster.server(0), free).await;
        until_free(cluster.servers(), "a").await;
        time
    })
    .await;
}

#[tokio::test]
async fn our_release_wakes_an_rlock() {
    let cluster = Cluster::start(1).await;
    let ours = connect_beside(cluster.urls()).await;
    let client = rlock::Client::connect(cluster.server(0).url()).await;
    assert_woken(&cluster, &ours.red_lock("a"), || client.lock("a")).await;
}

#[tokio::test]
async fn our_release_wakes_a_fair_lock() {
    let cluster = Cluster::start(1).await;
    let ours = connect_beside(cluster.urls()).await;
    let client = fair::Client::connect(cluster.server(0).url()).await;
    assert_woken(&cluster, &ours.red_lock("a"), || client.lock("a")).await;
    // One of a name that has a brace, by force.
    let lock = ours.red_lock("b:{x}*");
    called_before(WOKEN_BEFORE, async || {
        let guard = held_everywhere(&lock).await;
        cluster.server(0).reset_stats().await;
        let free = async {
            lock.force_release().await.expect("forced");
        };
        let theirs = client.lock("b:{x}*");
        let time = woken_after(theirs, cluster.server(0), free).await;
        drop(guard);
        until_free(cluster.servers(), "b:{x}*").await;
        time
    })
    .await;
}

/// A waiter of theirs that has died stands at the front of the list: the next one hears of the release.
#[tokio::test]
async fn a_dead_waiter_of_a_fair_lock_costs_no_wake_up() {
    let cluster = Cluster::start(1).await;
    let (server, ours) = (cluster.server(0), connect_beside(cluster.urls()).await);
    let guard = held_everywhere(&ours.red_lock("a")).await;
    server
        .command(&["RPUSH", "redisson_lock_queue:{a}", "dead:1"])
        .await;
    let soon = ["ZADD", "redisson_lock_timeout:{a}", "1", "dead:1"];
    server.command(&soon).await;
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut listener = client.get_async_pubsub().await.expect("a connection");
    let second = "redisson_lock__channel:{a}:live:1";
    listener.subscribe(second).await.expect("subscribed");
    server
        .command(&["RPUSH", "redisson_lock_queue:{a}", "live:1"])
        .await;
    guard.unlock().await.expect("held");
    let message = within("a message", listener.on_message().next()).await;
    assert_eq!(message.expect("a connection").get_channel_name(), second);
}

/// Our waiter hears of the release of a fair lock that others of theirs wait for: it is announced to the first of these alone.
#[tokio::test]
async fn a_fair_lock_wakes_us() {
    let cluster = Cluster::start(1).await;
    let (server, ours) = (cluster.server(0), connect_beside(cluster.urls()).await);
    let client = fair::Client::connect(server.url()).await;
    // Letters of a pattern in the name.
    for name in ["a", "b[1]*"] {
        called_before(Duration::from_secs(4), async || {
            let lock = client.lock(name);
            let held = lock.lock(None).await.expect("free");
            let queue = format!("redisson_lock_queue:{{{name}}}");
            server.command(&["RPUSH", &queue, "another:1"]).await;
            let times = format!("redisson_lock_timeout:{{{name}}}");
            server
                .command(&["ZADD", &times, "9000000000000", "another:1"])
                .await;
            server.reset_stats().await;
            let waits = tokio::spawn({
                let lock = ours.red_lock(name);
                async move { lock.lock().await.map(|_| Instant::now()) }
            });
            until("it listens", async || {
                let patterns = server.command(&["PUBSUB", "NUMPAT"]).await;
                let asked = server.commandstats().await.get("evalsha").copied();
                patterns == redis::Value::Int(1) && asked >= Some(2)
            })
            .await;
            let begun = Instant::now();
            assert!(lock.unlock(held).await, "held");
            let inside = within("it is woken", waits).await.expect("no panic");
            server.command(&["DEL", &queue, &times]).await;
            until_free([server], name).await;
            inside.expect("granted").saturating_duration_since(begun)
        })
        .await;
    }
    until("nobody listens", async || {
        server.command(&["PUBSUB", "NUMPAT"]).await == redis::Value::Int(0)
    })
    .await;
}

#[tokio::test]
async fn our_release_wakes_a_list() {
    let cluster = Cluster::start(5).await;
    let ours = connect_beside(cluster.urls()).await;
    let client = multi_lock::Client::connect(cluster.urls()).await;
    assert_woken(&cluster, &ours.red_lock("a"), || client.red_lock("a")).await;
    assert_woken(&cluster, &ours.multi_lock("a"), || client.multi_lock("a")).await;
}

/// An attempt of ours that has the last master and waits for the refusals of the first ones meets an
/// `RLock` of theirs, which goes to sleep; then the refusals come, and the attempt is rolled back.
async fn assert_woken_by_rollback(refusing: usize, ours: fn(&Masters) -> MultiLock) {
    let cluster = Cluster::start(5).await;
    let (refusing, granting) = cluster.servers().split_at(refusing);
    let last = cluster.server(4);
    let mut proxies = Vec::new();
    for server in refusing {
        proxies.push(Proxy::start(server.port()).await);
    }
    let urls = proxies
        .iter()
        .map(Proxy::url)
        .chain(granting.iter().map(Server::url));
    let masters = patient(urls).beside_redisson(true);
    let masters = masters.connect().await.expect("masters");
    let _holds = take(refusing).await;
    let theirs = rlock::Client::connect(last.url()).await;
    called_before(WOKEN_BEFORE, async || {
        last.reset_stats().await;
        for proxy in &proxies {
            proxy.pause(Direction::ToClient);
        }
        let attempt = tokio::spawn({
            let ours = ours(&masters);
            async move { ours.try_lock().await.is_err() }
        });
        until("ours has the last", async || last.exists("a").await).await;
        let refuse = async {
            for proxy in &proxies {
                proxy.resume(Direction::ToClient);
            }
        };
        let time = woken_after(theirs.lock("a"), last, refuse).await;
        assert!(within("it is refused", attempt).await.expect("no panic"));
        until_free(granting, "a").await;
        time
    })
    .await;
}

#[tokio::test]
async fn our_rollback_of_a_multi_lock_wakes_an_rlock() {
    assert_woken_by_rollback(1, |ours| ours.multi_lock("a")).await;
}

#[tokio::test]
async fn our_rollback_of_a_red_lock_wakes_an_rlock() {
    assert_woken_by_rollback(3, |ours| ours.red_lock("a")).await;
}
