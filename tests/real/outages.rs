//! Masters that are down, frozen, slow, restarted or cut off. A minority of them costs a red lock nothing, not even
//! time. A multi lock names the missing masters, no later than the node deadline. Masters that come back are used
//! again without any action.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::{
    Cluster, Direction, Keep, PATIENT, Proxy, Server, WITHIN, all_executed, connect, heard_from_all, label,
    patient, until, until_free, vote,
};
use multilock::{LockError, Masters, MultiLockGuard, Policy, Unlocked, Vote};
use redis::Value;
use tokio::time::sleep;

/// A node deadline that is often missed on purpose here, and never by a healthy master.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);
/// Time that the machine may add to a bound.
const SLACK: Duration = Duration::from_secs(20);

/// Masters with a deadline that is missed on purpose.
async fn hasty<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> Masters {
    let builder = patient(urls).node_timeout(NODE_TIMEOUT);
    builder.connect().await.expect("masters that can be used")
}

async fn unlock(guard: MultiLockGuard) {
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
}

/// An answer of any kind, as opposed to silence.
fn answered(vote: &Vote) -> bool {
    !matches!(
        vote,
        Vote::NotSent { .. } | Vote::Late { .. } | Vote::Unknown { .. } | Vote::Pending
    )
}

async fn scripts_run(server: &Server) -> u64 {
    server.commandstats().await.get("evalsha").copied().unwrap_or(0)
}

#[tokio::test]
async fn a_red_lock_does_not_wait_for_a_frozen_master() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let frozen = cluster.server(2);
    frozen.freeze().await;
    let begun = Instant::now();
    let guard = masters.red_lock("a").try_lock().await.expect("four are well");
    assert_eq!(
        vote(&guard.votes(), 2),
        Vote::Pending,
        "granted before its deadline"
    );
    assert!(guard.is_valid());
    unlock(guard).await;
    // Had anything waited for the frozen master, it would have been until the deadline.
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    // The frozen one gets the acquire and the release in their order.
    frozen.thaw().await;
    until("both have been executed", async || scripts_run(frozen).await >= 2).await;
    assert_eq!(frozen.keys().await, Vec::<String>::new());
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn a_red_lock_does_not_wait_for_a_slow_master() {
    const ROUNDS: usize = 50;
    let cluster = Cluster::start(5).await;
    let proxy = Proxy::start(cluster.server(4).port()).await;
    let mut urls = cluster.urls();
    urls[4] = proxy.url();
    let masters = connect(urls).await;
    proxy.set_delay(Direction::ToClient, Duration::from_millis(20));
    for _ in 0..ROUNDS {
        // On a busy machine the other four may be slower than any delay: its answer is held until theirs are in.
        proxy.pause(Direction::ToClient);
        let guard = masters.red_lock("a").try_lock().await.expect("all are well");
        assert_eq!(vote(&guard.votes(), 4), Vote::Pending, "granted without it");
        proxy.resume(Direction::ToClient);
        heard_from_all(&guard).await;
        assert_eq!(vote(&guard.votes(), 4), Vote::Granted, "slow is not down");
        unlock(guard).await;
    }

    // A multi lock needs that vote, and waits for it.
    for _ in 0..5 {
        let begun = Instant::now();
        let guard = masters.multi_lock("a").try_lock().await.expect("all are well");
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert_eq!(guard.votes().granted(), 5);
        unlock(guard).await;
    }
}

#[tokio::test]
async fn a_multi_lock_names_the_frozen_master_at_the_deadline() {
    let cluster = Cluster::start(5).await;
    let masters = hasty(cluster.urls()).await;
    let frozen = cluster.server(3);
    frozen.freeze().await;
    let begun = Instant::now();
    let error = masters
        .multi_lock("a")
        .try_lock()
        .await
        .expect_err("one is frozen");
    let took = begun.elapsed();
    assert!((NODE_TIMEOUT..NODE_TIMEOUT + SLACK).contains(&took), "{took:?}");
    let LockError::Unreachable { votes } = &error else {
        panic!("{error}");
    };
    assert_eq!(votes.granted(), 4, "{votes}");
    assert!(matches!(vote(votes, 3), Vote::Late { .. }), "{votes}");
    assert_eq!(*votes.iter().nth(3).expect("five votes").node, label(frozen));
    assert!(error.to_string().contains(&label(frozen)), "{error}");
    frozen.thaw().await;
    until_free(cluster.servers(), "a").await;
    all_executed(&masters).await;
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn one_killed_master() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let killed = cluster.server(0);
    killed.kill().await;
    let begun = Instant::now();
    let guard = masters.red_lock("a").try_lock().await.expect("four are well");
    assert_ne!(vote(&guard.votes(), 0), Vote::Granted);
    unlock(guard).await;
    let error = masters.multi_lock("a").try_lock().await.expect_err("one is dead");
    let LockError::Unreachable { votes } = &error else {
        panic!("{error}");
    };
    assert!(
        matches!(
            vote(votes, 0),
            Vote::NotSent { .. } | Vote::Late { .. } | Vote::Unknown { .. }
        ),
        "{votes}"
    );
    assert_eq!(*votes.iter().next().expect("five votes").node, label(killed));
    // A closed connection speaks for itself: nobody waits for the deadline.
    assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
    until_free(&cluster.servers()[1..], "a").await;
}

#[tokio::test]
async fn two_of_five_down_is_well() {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    cluster.server(1).kill().await;
    cluster.server(4).freeze().await;
    let begun = Instant::now();
    for _ in 0..3 {
        let guard = masters.red_lock("a").try_lock().await.expect("three are well");
        assert_eq!(guard.votes().granted(), 3);
        let error = masters.red_lock("a").try_lock().await.expect_err("held");
        assert!(matches!(error, LockError::Contended { .. }), "{error}");
        unlock(guard).await;
    }
    assert!(begun.elapsed() < PATIENT, "nobody waited: {:?}", begun.elapsed());
}

#[tokio::test]
async fn three_of_five_down_is_unreachable_and_never_contended() {
    let cluster = Cluster::start(5).await;
    let masters = hasty(cluster.urls()).await;
    cluster.server(0).kill().await;
    cluster.server(1).freeze().await;
    cluster.server(2).freeze().await;
    // A free name, and a name that is held on the remaining masters: nobody can tell its holder.
    for server in &cluster.servers()[3..] {
        server.command(&["SET", "theirs", "x", "PX", "600000"]).await;
    }
    for name in ["a", "theirs"] {
        for policy in [Policy::RedLock, Policy::MultiLock] {
            let begun = Instant::now();
            let error = masters
                .lock(name, policy)
                .try_lock()
                .await
                .expect_err("three are down");
            assert!(begun.elapsed() < NODE_TIMEOUT + SLACK, "{:?}", begun.elapsed());
            // A multi lock needs all five, so a holder of one of them is in its way for certain.
            let held = name == "theirs" && policy == Policy::MultiLock;
            match &error {
                LockError::Unreachable { votes } if !held => assert_eq!(votes.iter().count(), 5),
                LockError::Contended { .. } if held => {}
                other => panic!("{name} {policy}: {other}"),
            }
        }
    }
    // Waiting does not change the kind of the error.
    let error = masters
        .red_lock("a")
        .wait(NODE_TIMEOUT * 3)
        .lock()
        .await
        .expect_err("three are down");
    let LockError::TimedOut { last: Some(last), .. } = &error else {
        panic!("{error}");
    };
    assert!(matches!(**last, LockError::Unreachable { .. }), "{error}");

    // And it heals without a new start.
    cluster.server(1).thaw().await;
    let guard = masters.red_lock("a").wait(WITHIN).lock().await;
    unlock(guard.expect("three are well")).await;
    cluster.server(2).thaw().await;
    until_free(&cluster.servers()[1..], "a").await;
}

/// Locks and unlocks until told to stop; every call must succeed.
async fn keep_locking(masters: Masters, stop: Arc<AtomicBool>, rounds: Arc<AtomicUsize>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = masters.red_lock("busy").try_lock().await;
        unlock(guard.unwrap_or_else(|error| panic!("no call may fail: {error}"))).await;
        rounds.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(2)).await;
    }
}

async fn a_restarted_master_is_used_again(keep: Keep) {
    let cluster = Cluster::start(5).await;
    let masters = connect(cluster.urls()).await;
    let (stop, rounds) = (Arc::default(), Arc::default());
    let locking = tokio::spawn(keep_locking(
        masters.clone(),
        Arc::clone(&stop),
        Arc::clone(&rounds),
    ));
    let some_rounds = async || {
        let before = rounds.load(Ordering::SeqCst);
        until("locking goes on", async || {
            assert!(!locking.is_finished(), "a call failed");
            rounds.load(Ordering::SeqCst) > before + 5
        })
        .await;
    };
    some_rounds().await;
    cluster.server(2).kill().await;
    some_rounds().await;
    cluster.server(2).restart(keep).await;
    until("it votes again", async || {
        let guard = masters.red_lock("a").try_lock().await.expect("four are well");
        heard_from_all(&guard).await;
        let vote = vote(&guard.votes(), 2);
        unlock(guard).await;
        answered(&vote)
    })
    .await;
    some_rounds().await;
    stop.store(true, Ordering::SeqCst);
    locking.await.expect("no call has failed");
    until_free(cluster.servers(), "busy").await;
}

#[tokio::test]
async fn a_master_restarted_with_its_data_is_used_again() {
    a_restarted_master_is_used_again(Keep::Data).await;
}

#[tokio::test]
async fn a_master_restarted_empty_is_used_again() {
    a_restarted_master_is_used_again(Keep::Nothing).await;
}

#[tokio::test]
async fn the_connection_of_a_silent_master_is_replaced() {
    let cluster = Cluster::start(3).await;
    let proxy = Proxy::start(cluster.server(1).port()).await;
    let mut urls = cluster.urls();
    urls[1] = proxy.url();
    let masters = hasty(urls).await;
    assert_eq!(proxy.connections(), 1);
    cluster.server(1).freeze().await;
    // One missed deadline is a hiccup. Several, one after the other, are a dead connection.
    until("the connection is given up", async || {
        let guard = masters.red_lock("a").try_lock().await.expect("two are well");
        heard_from_all(&guard).await;
        assert_ne!(vote(&guard.votes(), 1), Vote::Granted);
        unlock(guard).await;
        proxy.connections() > 1
    })
    .await;
    cluster.server(1).thaw().await;
    until("it votes again", async || {
        let guard = masters.red_lock("a").try_lock().await.expect("all are well");
        heard_from_all(&guard).await;
        let vote = vote(&guard.votes(), 1);
        unlock(guard).await;
        answered(&vote)
    })
    .await;
    until("all three grant again", async || {
        let guard = masters.multi_lock("a").try_lock().await;
        guard.is_ok()
    })
    .await;
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn one_missed_deadline_does_not_cost_the_connection() {
    let cluster = Cluster::start(3).await;
    let proxy = Proxy::start(cluster.server(1).port()).await;
    let mut urls = cluster.urls();
    urls[1] = proxy.url();
    let masters = hasty(urls).await;
    proxy.pause(Direction::ToClient);
    // Many rounds at once are one hiccup.
    let guards = futures::future::join_all((0..20).map(|i| {
        let lock = masters.red_lock(format!("a{i}"));
        async move { lock.try_lock().await.expect("two are well") }
    }))
    .await;
    for guard in &guards {
        heard_from_all(guard).await;
        assert!(
            matches!(vote(&guard.votes(), 1), Vote::Late { .. }),
            "{}",
            guard.votes()
        );
    }
    proxy.resume(Direction::ToClient);
    for guard in guards {
        unlock(guard).await;
    }
    all_executed(&masters).await;
    assert_eq!(proxy.connections(), 1);
    until("nothing is left", async || {
        cluster.server(1).keys().await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn cut_off_and_healed() {
    let cluster = Cluster::start(3).await;
    let proxy = Proxy::start(cluster.server(0).port()).await;
    let mut urls = cluster.urls();
    urls[0] = proxy.url();
    let masters = connect(urls).await;
    for _ in 0..2 {
        let before = proxy.connections();
        proxy.cut().await;
        until("the loss is noticed", async || {
            let guard = masters.red_lock("a").try_lock().await.expect("two are well");
            heard_from_all(&guard).await;
            let vote = vote(&guard.votes(), 0);
            unlock(guard).await;
            matches!(vote, Vote::NotSent { .. })
        })
        .await;
        let begun = Instant::now();
        let error = masters
            .multi_lock("a")
            .try_lock()
            .await
            .expect_err("one is cut off");
        assert!(matches!(error, LockError::Unreachable { .. }), "{error}");
        assert!(begun.elapsed() < PATIENT, "nobody waits for a connection");
        proxy.heal();
        until("it is connected again", async || proxy.connections() > before).await;
        let guard = masters.multi_lock("a").wait(WITHIN).lock().await;
        unlock(guard.expect("all are well")).await;
    }
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn a_closed_idle_connection_is_replaced_unasked() {
    let cluster = Cluster::start(3).await;
    let mut proxies = Vec::new();
    for server in cluster.servers() {
        proxies.push(Proxy::start(server.port()).await);
    }
    let masters = connect(proxies.iter().map(Proxy::url)).await;
    for (server, proxy) in cluster.servers().iter().zip(&proxies) {
        assert_eq!(proxy.connections(), 1);
        let killed = server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        assert!(matches!(killed, Value::Int(1..)), "{killed:?}");
    }
    for (server, proxy) in cluster.servers().iter().zip(&proxies) {
        until("there is another connection", async || proxy.connections() == 2).await;
        until("the scripts are loaded over it", async || {
            let stats = server.commandstats().await;
            let loads = stats.iter().filter(|(name, _)| name.starts_with("script"));
            loads.map(|(_, calls)| calls).sum::<u64>() >= 10
        })
        .await;
    }
    // All that happened without a call. The first one finds everything in place.
    let guard = masters.multi_lock("a").wait(WITHIN).lock().await;
    unlock(guard.expect("all are well")).await;
    for proxy in &proxies {
        assert_eq!(proxy.connections(), 2);
    }
}
