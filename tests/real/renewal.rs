//! Holding on real servers: a hold lasts for as long as its guard; its loss is known by the end of its validity and not
//! before; nothing of it is left behind.

use std::time::{Duration, Instant};

use crate::support::{
    Cluster, PATIENT, Server, WITHIN, connect, field, held_everywhere, undisturbed, until, until_free, vote,
    waiters, within,
};
use futures::future::join_all;
use multilock::{
    Closing, LockError, LossCause, Masters, MultiLockGuard, Quarantine, UnlockError, Unlocked, Vote,
};
use tokio::time::{sleep, timeout};

/// Short, and still long enough for a busy machine to renew it every third.
const LEASE: Duration = Duration::from_secs(3);
/// A third of the lease: a busy master answers within it.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that the machine may add to a bound.
const SLACK: Duration = Duration::from_secs(20);
/// A standstill of the machine that a hold outlasts at any moment.
const STANDS: Duration = Duration::from_millis(500);
/// Timers fire up to a millisecond late, so a task that waits for the end of a hold ends it a little early.
const EARLY: Duration = Duration::from_millis(5);

async fn masters_with<S: Into<String>>(urls: impl IntoIterator<Item = S>, lease: Duration) -> Masters {
    let builder = Masters::builder()
        .quarantine(Quarantine::Off)
        .nodes(urls)
        .lease(lease)
        .node_timeout(NODE_TIMEOUT)
        .connect_timeout(PATIENT);
    builder.connect().await.expect("masters that can be used")
}

/// Waits until every master has the name in the same hands as `guard`.
async fn until_held_by_all(servers: &[Server], name: &str, owner: &str) {
    for server in servers {
        let what = format!("{name} is held on {}", server.port());
        until(&what, async || {
            field(server, name).await.as_deref() == Some(owner)
        })
        .await;
    }
}

async fn owner_of(server: &Server, name: &str) -> String {
    field(server, name).await.expect("held")
}

/// Looks at the guard until the time is over.
async fn assert_valid_for(guard: &MultiLockGuard, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        assert!(
            guard.is_valid(),
            "lost after {:?}: {}",
            begun.elapsed(),
            guard.votes()
        );
        sleep(Duration::from_millis(20)).await;
    }
    let lost = timeout(Duration::ZERO, guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
}

/// Number of connections, without the connection of this question.
async fn connections(server: &Server) -> usize {
    let list = server.command(&["CLIENT", "LIST"]).await;
    let list: String = redis::from_redis_value(list).expect("text");
    list.lines()
        .filter(|client| !client.contains(" cmd=client"))
        .count()
}

async fn channels(server: &Server) -> Vec<String> {
    redis::from_redis_value(server.command(&["PUBSUB", "CHANNELS"]).await).expect("names")
}

async fn until_no_connections(servers: &[Server]) {
    for server in servers {
        until("no connection is left", async || connections(server).await == 0).await;
        until("nobody listens", async || channels(server).await.is_empty()).await;
    }
}

#[tokio::test]
async fn a_short_lease_lasts_for_as_long_as_its_guard() {
    undisturbed(STANDS, async || {
        let cluster = Cluster::start(5).await;
        let masters = masters_with(cluster.urls(), LEASE).await;
        let guard = held_everywhere(&masters.red_lock("a")).await;
        let owner = owner_of(cluster.server(0), "a").await;
        assert_valid_for(&guard, LEASE * 5 / 2).await;
        until_held_by_all(cluster.servers(), "a", &owner).await;
        for server in cluster.servers() {
            let left = server.pttl("a").await;
            assert!(left <= 3000, "no more than the lease: {left}");
        }
        assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
        until_free(cluster.servers(), "a").await;
        // Nothing is renewed any more.
        let calls = cluster.server(0).commandstats().await["evalsha"];
        sleep(LEASE).await;
        assert_eq!(cluster.server(0).commandstats().await["evalsha"], calls);
    })
    .await;
}

/// Twenty holds at as many points of their periods.
#[tokio::test]
async fn a_frozen_majority_ends_every_hold_at_the_end_of_its_validity() {
    undisturbed(STANDS, async || {
        const HOLDS: u32 = 20;
        let cluster = Cluster::start(3).await;
        let masters = masters_with(cluster.urls(), LEASE).await;
        let mut guards = Vec::new();
        for number in 0..HOLDS {
            let lock = masters.red_lock(format!("a{number}"));
            guards.push(lock.wait(WITHIN).lock().await.expect("free"));
            sleep(LEASE / 3 / HOLDS).await;
        }
        cluster.server(0).freeze().await;
        cluster.server(1).freeze().await;
        // All answers have been read by now. From here on no validity can grow.
        sleep(Duration::from_millis(20)).await;
        let (frozen, left): (_, Vec<_>) = (
            Instant::now(),
            guards.iter().map(MultiLockGuard::validity).collect(),
        );
        assert!(left.iter().all(|left| !left.is_zero()), "{left:?}");
        let losses = join_all(guards.iter().zip(left).map(|(guard, left)| async move {
            let token = guard.cancellation_token();
            // The validity is there until the word comes, and gone when it has come.
            let seen = async {
                loop {
                    let left = guard.validity();
                    if left.is_zero() {
                        return;
                    }
                    assert!(!token.is_cancelled() || left < EARLY, "told with {left:?} left");
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let (loss, ()) = tokio::join!(guard.lost(), seen);
            let took = frozen.elapsed();
            assert!(!guard.is_valid() && guard.ensure_valid().is_err());
            assert!(took + EARLY >= left, "{:?} too early", left.checked_sub(took));
            assert!(took < left + SLACK, "late by {:?}", took.checked_sub(left));
            assert_eq!(loss.cause, LossCause::Expired);
            until("the token follows", async || token.is_cancelled()).await;
            loss.votes
        }))
        .await;
        for votes in losses {
            for place in 0..2 {
                let vote = vote(&votes, place);
                assert!(
                    matches!(
                        vote,
                        Vote::Late { .. } | Vote::Unknown { .. } | Vote::NotSent { .. } | Vote::Granted
                    ),
                    "{votes}"
                );
            }
        }
        // Nothing brings them back.
        cluster.server(0).thaw().await;
        cluster.server(1).thaw().await;
        for number in 0..HOLDS {
            until_free(cluster.servers(), &format!("a{number}")).await;
        }
        assert!(guards.iter().all(|guard| !guard.is_valid()));
        for guard in guards {
            let error = guard.unlock().await.expect_err("lost");
            assert!(matches!(error, UnlockError::WasLost { .. }), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn closing_releases_or_leaves() {
    let lease = LEASE * 4;
    let cluster = Cluster::start(3).await;
    for closing in [Closing::Release, Closing::Leave] {
        let masters = masters_with(cluster.urls(), lease).await;
        let rival = connect(cluster.urls()).await;
        let theirs = held_everywhere(&rival.red_lock("theirs")).await;
        let mut guards = Vec::new();
        for number in 0..5 {
            guards.push(held_everywhere(&masters.red_lock(format!("a{number}"))).await);
        }
        let waiting = tokio::spawn({
            let lock = masters.red_lock("theirs");
            async move { lock.lock().await.map(drop) }
        });
        sleep(LEASE / 3).await;
        masters.close(closing).await;
        // Before any lease can have ended.
        for guard in &guards {
            assert_eq!(guard.is_valid(), closing == Closing::Leave, "{closing:?}");
        }
        for server in cluster.servers() {
            let kept = server
                .keys()
                .await
                .iter()
                .filter(|key| key.starts_with('a'))
                .count();
            assert_eq!(kept, if closing == Closing::Leave { 5 } else { 0 }, "{closing:?}");
        }
        let told = within("it is told", waiting).await.expect("no panic");
        assert_eq!(told, Err(LockError::Closed));
        let refused = masters.red_lock("b").try_lock().await;
        assert!(matches!(refused, Err(LockError::Closed)), "{refused:?}");
        drop(rival);
        for guard in &guards {
            let lost = within("it is lost by its end", guard.lost()).await;
            let cause = if closing == Closing::Leave {
                LossCause::Expired
            } else {
                LossCause::Closed
            };
            assert_eq!(lost.cause, cause);
        }
        assert_eq!(theirs.unlock().await, Ok(Unlocked::Released));
        // Left or released, nobody is connected any more, though guards and clones are still there.
        until_no_connections(cluster.servers()).await;
        drop(guards);
        for number in 0..5 {
            // The remaining holds end by themselves.
            until_free(cluster.servers(), &format!("a{number}")).await;
        }
    }
}

/// A hold that `Leave` leaves is there for its whole lease.
#[tokio::test]
async fn a_hold_that_is_left_stays_on_the_masters() {
    let cluster = Cluster::start(3).await;
    let masters = connect(cluster.urls()).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let owner = owner_of(cluster.server(0), "a").await;
    masters.close(Closing::Leave).await;
    drop(masters);
    drop(guard);
    until_no_connections(cluster.servers()).await;
    until_held_by_all(cluster.servers(), "a", &owner).await;
    for server in cluster.servers() {
        assert!(
            server.pttl("a").await > 1000,
            "renewal has ended, the lease has not"
        );
    }
}

#[tokio::test]
async fn dropping_everything_leaves_no_connection() {
    undisturbed(STANDS, async || {
        let cluster = Cluster::start(3).await;
        for round in 0..6 {
            let masters = masters_with(cluster.urls(), LEASE).await;
            let rival = masters_with(cluster.urls(), LEASE).await;
            let guard = masters.red_lock("a").wait(WITHIN).lock().await.expect("free");
            let waiting = tokio::spawn({
                let lock = rival.red_lock("a");
                async move { lock.lock().await.map(drop) }
            });
            let token = guard.cancellation_token();
            until("the waiter stands in the queue", async || {
                waiters(cluster.server(0), "a").await == 1
            })
            .await;
            sleep(LEASE / 3 * (round % 3)).await;
            waiting.abort();
            drop(waiting.await);
            // In any order.
            if round % 2 == 0 {
                drop(guard);
                drop(masters);
            } else {
                drop(masters);
                drop(guard);
            }
            drop(rival);
            until_no_connections(cluster.servers()).await;
            until_free(cluster.servers(), "a").await;
            assert!(!token.is_cancelled(), "giving it up is no loss");
        }
    })
    .await;
}
