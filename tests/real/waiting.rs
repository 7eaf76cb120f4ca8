//! Waiting on real servers: a waiter is woken by events there, follows a dead holder at the end of its lease, and
//! leaves nothing behind.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{
    Cluster, Server, WITHIN, child, connect, connect_beside, heard_from_all, held_everywhere, patient, three,
    undisturbed, until, until_free, waiters,
};
use futures::future::join_all;
use multilock::{LockError, Masters, MultiLock, MultiLockGuard, Policy, Unlocked};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Time without a message after which a waiter asks again.
const FALLBACK: Duration = Duration::from_secs(5);
/// Time that the machine may add to a bound. The bound stays below the lease of a holder that is not followed.
const SLACK: Duration = Duration::from_secs(20);
/// The URLs, for a child process that holds.
const NODES: &str = "MULTILOCK_TEST_NODES";

/// The channels that somebody listens to, but for those on which clients are called, which these keep.
async fn channels(server: &Server) -> Vec<String> {
    let channels = server.command(&["PUBSUB", "CHANNELS"]).await;
    let mut channels: Vec<String> = redis::from_redis_value(channels).expect("names");
    channels.retain(|channel| !channel.starts_with("multilock:"));
    channels
}

async fn until_waited_for(servers: &[Server], name: &str, clients: usize) {
    for server in servers {
        let what = format!("{clients} wait for {name} on {}", server.port());
        until(&what, async || waiters(server, name).await == clients).await;
    }
}

async fn scripts_run(servers: &[Server]) -> u64 {
    let mut calls = 0;
    for server in servers {
        calls += server.commandstats().await.get("evalsha").copied().unwrap_or(0);
    }
    calls
}

/// Waits until this number of clients is in the queue for the name and nobody asks any more.
async fn until_asleep(servers: &[Server], name: &str, clients: usize) {
    until_waited_for(servers, name, clients).await;
    let mut before = scripts_run(servers).await;
    until("the waiters sleep", async || {
        sleep(Duration::from_millis(100)).await;
        let now = scripts_run(servers).await;
        std::mem::replace(&mut before, now) == now
    })
    .await;
}

/// Nobody listens and nothing is kept.
async fn until_nothing_is_left(servers: &[Server]) {
    for server in servers {
        until("nobody listens", async || channels(server).await.is_empty()).await;
        until("no key is left", async || server.keys().await.is_empty()).await;
    }
}

type Waiter = JoinHandle<Result<MultiLockGuard, LockError>>;

fn wait_for(lock: MultiLock) -> Waiter {
    tokio::spawn(async move { lock.lock().await })
}

async fn granted(bound: Duration, waiter: Waiter) -> MultiLockGuard {
    let got = timeout(bound, waiter).await;
    got.unwrap_or_else(|_| panic!("no turn within {bound:?}"))
        .expect("no panic")
        .expect("granted")
}

/// The names are free, or the next waiter of the same client has them.
async fn unlock(guard: MultiLockGuard) {
    let left = guard.unlock().await;
    assert!(
        matches!(left, Ok(Unlocked::Released | Unlocked::HandedOn)),
        "{left:?}"
    );
}

/// Woken, and not by the fallback: as a rule, because a busy machine may be late once.
#[track_caller]
fn assert_woken(mut took: Vec<Duration>) {
    took.sort_unstable();
    assert!(took[took.len() / 2] < FALLBACK * 3 / 4, "{took:?}");
    assert!(took[took.len() - 1] < FALLBACK + SLACK, "{took:?}");
}

#[tokio::test]
async fn a_release_wakes_a_waiter_of_another_client() {
    let cluster = Cluster::start(5).await;
    let (holder, waiter) = (connect(cluster.urls()).await, connect(cluster.urls()).await);
    let mut took = Vec::new();
    for policy in [Policy::RedLock, Policy::MultiLock, Policy::RedLock] {
        let guard = held_everywhere(&holder.lock("a", policy)).await;
        let waiting = wait_for(waiter.lock("a", policy));
        until_asleep(cluster.servers(), "a", 1).await;
        let released = Instant::now();
        unlock(guard).await;
        let guard = granted(WITHIN, waiting).await;
        took.push(released.elapsed());
        unlock(guard).await;
        until_nothing_is_left(cluster.servers()).await;
    }
    assert_woken(took);
}

/// Names that a holder takes together are waited for together.
#[tokio::test]
async fn a_release_of_several_names_wakes_who_waits_for_one() {
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (connect(cluster.urls()).await, connect(cluster.urls()).await);
    let mut took = Vec::new();
    for wanted in [&["b"][..], &["b", "c"], &["a", "b", "c"]] {
        let guard = held_everywhere(&holder.red_lock(["a", "b"])).await;
        let waiting = wait_for(waiter.red_lock(wanted));
        until_asleep(cluster.servers(), "b", 1).await;
        let released = Instant::now();
        unlock(guard).await;
        unlock(granted(WITHIN, waiting).await).await;
        took.push(released.elapsed());
        until_nothing_is_left(cluster.servers()).await;
    }
    assert_woken(took);
}

/// Ends the connections of the waiter, and of nobody else.
const KILL_WAITER: [&str; 4] = ["CLIENT", "KILL", "USER", "waiter"];

/// A client that logs in as a user of its own.
async fn connect_waiter(servers: &[Server]) -> Masters {
    for server in servers {
        let user = ["ACL", "SETUSER", "waiter", "on", ">secret", "~*", "+@all"];
        server.command(&user).await;
        // Before Redis 6.2 every user has all channels, and no rule for them.
        let _ = server.try_command(&["ACL", "SETUSER", "waiter", "&*"]).await;
    }
    let url = |server: &Server| format!("redis://waiter:secret@127.0.0.1:{}", server.port());
    connect(servers.iter().map(url)).await
}

/// A part of the test below: holds and renews until it is killed.
async fn hold_for_ever(urls: &str) {
    let builder = patient(urls.split(',')).node_timeout(CHILD_LEASE / 6);
    let masters = builder
        .lease(CHILD_LEASE)
        .connect()
        .await
        .expect("masters that can be used");
    let guard = masters.red_lock("a").lock().await.expect("free");
    sleep(Duration::from_secs(60)).await;
    drop(guard);
}

const CHILD_LEASE: Duration = Duration::from_secs(3);
/// A standstill that it outlasts.
const STANDS: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_holder_killed_is_followed_at_the_end_of_its_lease() {
    if let Ok(urls) = std::env::var(NODES) {
        return hold_for_ever(&urls).await;
    }
    undisturbed(STANDS, async || {
        let cluster = Cluster::start(5).await;
        let holder = child("waiting::a_holder_killed_is_followed_at_the_end_of_its_lease");
        let mut holder = tokio::process::Command::from(holder)
            .env(NODES, cluster.urls().join(","))
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("a child process");
        for server in cluster.servers() {
            until("the child holds", async || server.exists("a").await).await;
        }
        let waiter = connect(cluster.urls()).await;
        let waiting = wait_for(waiter.red_lock("a"));
        until_waited_for(cluster.servers(), "a", 1).await;
        // It is alive, so it keeps its lock beyond the lease.
        sleep(CHILD_LEASE + CHILD_LEASE / 3).await;
        assert!(!waiting.is_finished());
        holder.kill().await.expect("SIGKILL");
        let looked = Instant::now();
        let mut left = Vec::new();
        for server in cluster.servers() {
            left.push(server.pttl("a").await);
        }
        left.sort_unstable();
        let end = Duration::from_millis(u64::try_from(left[2]).expect("held by a majority"));
        let guard = granted(WITHIN, waiting).await;
        let took = looked.elapsed();
        assert!(took + Duration::from_millis(5) >= end, "{took:?} of {left:?}");
        assert!(took < end + SLACK, "{took:?} of {left:?}");
        unlock(guard).await;
        until_nothing_is_left(cluster.servers()).await;
    })
    .await;
}

/// Redisson's lock, written and released as Redisson does.
#[tokio::test]
async fn a_java_holder_wakes_us() {
    let cluster = Cluster::start(3).await;
    let waiter = connect_beside(cluster.urls()).await;
    let mut took = Vec::new();
    for _ in 0..3 {
        for server in cluster.servers() {
            let owner = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";
            server.command(&["HSET", "a", owner, "1"]).await;
            server.command(&["PEXPIRE", "a", "30000"]).await;
        }
        let waiting = wait_for(waiter.red_lock("a"));
        until_asleep(cluster.servers(), "a", 1).await;
        let released = Instant::now();
        for server in cluster.servers() {
            server.command(&["DEL", "a"]).await;
            // Three masters are one more than is needed: it may ask, and be done, before the last.
            server
                .command(&["PUBLISH", "redisson_lock__channel:{a}", "0"])
                .await;
        }
        unlock(granted(WITHIN, waiting).await).await;
        took.push(released.elapsed());
        until_nothing_is_left(cluster.servers()).await;
    }
    assert_woken(took);
}

/// Waiters leave at any moment: the turn goes on, and the last one to leave stops listening.
#[tokio::test]
async fn waiters_dropped_anywhere_leave_nothing() {
    const TRIES: u64 = 100;
    let cluster = Cluster::start(3).await;
    let (holder, waiter) = (connect(cluster.urls()).await, connect(cluster.urls()).await);
    for number in 0..TRIES {
        // Far apart from each other, over the time that all of it takes.
        let moment = |step: u64| Duration::from_micros((number * 7919 + step * 3571) % 8000);
        let guard = held_everywhere(&holder.red_lock("a")).await;
        let tasks: Vec<_> = (0..=number % 3).map(|_| wait_for(waiter.red_lock("a"))).collect();
        let leaving = join_all(tasks.iter().zip(1..).map(|(waiter, step)| async move {
            sleep(moment(step)).await;
            waiter.abort();
        }));
        let released = async {
            if number % 2 == 0 {
                sleep(moment(0)).await;
                drop(guard);
                None
            } else {
                Some(guard)
            }
        };
        let (_, guard) = tokio::join!(leaving, released);
        for waiter in tasks {
            // A waiter that was faster than its end holds now, until here.
            drop(waiter.await);
        }
        for server in cluster.servers() {
            let what = format!("nobody waits after try {number}");
            until(&what, async || waiters(server, "a").await == 0).await;
        }
        drop(guard);
        until_free(cluster.servers(), "a").await;
    }
    until_nothing_is_left(cluster.servers()).await;
    // Nor has anything been forgotten that should wake the next one.
    let guard = held_everywhere(&holder.red_lock("a")).await;
    let waiting = wait_for(waiter.red_lock("a"));
    until_asleep(cluster.servers(), "a", 1).await;
    unlock(guard).await;
    unlock(granted(FALLBACK + SLACK, waiting).await).await;
    until_nothing_is_left(cluster.servers()).await;
}

/// Far less than the 15 s after which a place ends by itself.
const SOON: Duration = Duration::from_secs(8);

/// Does something to the servers again and again.
fn again_and_again(
    cluster: &Arc<Cluster>,
    command: &'static [&'static str],
    pause: Duration,
) -> AbortOnDropHandle<()> {
    let cluster = Arc::clone(cluster);
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            for server in cluster.servers() {
                // Nobody may be there to be killed.
                let _ = server.try_command(command).await;
            }
            sleep(pause).await;
        }
    }))
}

/// Nobody stands in a queue, by the end of a time in which no place ends by itself.
async fn nobody_waits(cluster: &Cluster, what: &str) {
    let leaving = async {
        for server in cluster.servers() {
            until("the queues are empty", async || {
                let keys = server.keys().await;
                !keys.iter().any(|key| key.starts_with("multilock_queue"))
            })
            .await;
        }
    };
    assert!(
        timeout(SOON, leaving).await.is_ok(),
        "somebody stands in a queue: {what}"
    );
}

/// Each master forgets its scripts all the time, so nearly every call is sent again.
#[tokio::test]
async fn waits_that_are_dropped_while_scripts_are_forgotten_leave_no_place() {
    let cluster = Arc::new(Cluster::start(3).await);
    let masters = connect(cluster.urls()).await;
    let forgetting = again_and_again(&cluster, &["SCRIPT", "FLUSH"], Duration::from_millis(1));
    for number in 0..200_u64 {
        let lock = masters.red_lock(format!("free-{number}"));
        let _ = timeout(Duration::from_micros(number * 7919 % 3000), lock.lock()).await;
    }
    drop(forgetting);
    nobody_waits(&cluster, "after waits for free names").await;
}

/// All connections of the waiter are killed again and again, until it has got the lock, or has been dropped.
#[tokio::test]
async fn waits_whose_connections_are_killed_leave_no_place() {
    let cluster = Arc::new(Cluster::start(3).await);
    for number in 0..10_u64 {
        let holder = connect(cluster.urls()).await;
        let waiter = connect_waiter(cluster.servers()).await;
        let guard = holder.red_lock("a").try_lock().await.expect("free");
        heard_from_all(&guard).await;
        let waiting = wait_for(waiter.red_lock("a"));
        until_waited_for(cluster.servers(), "a", 1).await;
        // A new connection lives long enough to be set up, now and then.
        let killing = again_and_again(&cluster, &KILL_WAITER, Duration::from_millis(25));
        sleep(Duration::from_millis(number * 3)).await;
        if number % 2 == 0 {
            drop(guard);
            // A call gets through between two ends of its connection by chance alone, so they end for a while only.
            sleep(Duration::from_millis(100)).await;
            drop(killing);
            drop(granted(FALLBACK + SLACK, waiting).await);
        } else {
            waiting.abort();
            drop(waiting.await);
            drop(killing);
            drop(guard);
        }
        nobody_waits(&cluster, &format!("after wait {number}")).await;
        until_free(cluster.servers(), "a").await;
    }
}

/// Without notices: the turn comes by the timers.
async fn turns_come_by_timers(servers: &[Server], urls: &[String]) {
    let (holder, waiter) = (connect(urls).await, connect(urls).await);
    let guard = held_everywhere(&holder.red_lock("a")).await;
    let waiting = wait_for(waiter.red_lock("a"));
    sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished());
    for server in servers {
        assert_eq!(channels(server).await, Vec::<String>::new());
    }
    unlock(guard).await;
    unlock(granted(FALLBACK + SLACK, waiting).await).await;
    // A dead holder is followed at the end of its lease, as with notices.
    let lease = Duration::from_secs(1);
    let builder = patient(urls).node_timeout(Duration::from_millis(300));
    let dead = builder.lease(lease).connect().await;
    let dead = dead.expect("masters that can be used");
    let begun = Instant::now();
    dead.red_lock("a").lock().await.expect("free").leak();
    unlock(granted(lease + SLACK, wait_for(waiter.red_lock("a"))).await).await;
    // The lease began after that clock was read.
    assert!(begun.elapsed() > lease * 9 / 10);
    until_nothing_is_left(servers).await;
}

fn as_user(servers: &[Server]) -> Vec<String> {
    let url = |server: &Server| format!("redis://app:secret@127.0.0.1:{}", server.port());
    servers.iter().map(url).collect()
}

#[tokio::test]
async fn a_user_who_may_not_listen_waits_by_timers() {
    // Neither the channels nor the commands.
    let rules = [
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">secret",
        "~*",
        "+@all",
        "-@pubsub",
        "resetchannels",
    ];
    let servers = three(&[]).await;
    for server in &servers {
        server.command(&rules).await;
    }
    turns_come_by_timers(&servers, &as_user(&servers)).await;
}

/// `testAcquireFailedNotCalledOnRedisTimeout` of Redisson's suite of its fair lock: servers pause all writes for
/// longer than the lease, so that every attempt ends by its deadline. No waiter fails, and none is left in a queue.
#[tokio::test]
async fn acquire_failed_not_called_on_redis_timeout() {
    let cluster = Cluster::start(3).await;
    let servers = cluster.servers();
    let builder = patient(cluster.urls()).node_timeout(Duration::from_millis(300));
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(builder.clone().connect().await.expect("all are well"));
    }
    let lock = |client: usize, lease| clients[client].red_lock("a").fair().lease(lease);
    let leases = [3, 2, 1].map(Duration::from_secs);
    let holding = lock(0, leases[0]).lock().await.expect("free");
    let waiting = [
        wait_for(lock(1, leases[1])),
        wait_for(lock(2, leases[2]).wait(Duration::from_secs(60))),
    ];
    until_waited_for(servers, "a", 2).await;
    let paused = leases[0] * 3;
    let milliseconds = paused.as_millis().to_string();
    for server in servers {
        let pause = ["CLIENT", "PAUSE", &milliseconds, "WRITE"];
        if server.try_command(&pause).await.is_err() {
            // Before Redis 6.2 it pauses readers, too.
            server.try_command(&pause[..3]).await.expect("paused");
        }
    }
    // Its lease ends while all are paused, and they stay paused for a lease after the look at the waiters.
    holding.leak();
    sleep(leases[0] * 2).await;
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    // Both have lost their places meanwhile, so either may be the first. A release may take longer than their
    // short deadline.
    let served = waiting.map(async |waiter| drop(granted(WITHIN, waiter).await));
    join_all(served).await;
    until_nothing_is_left(servers).await;
}
