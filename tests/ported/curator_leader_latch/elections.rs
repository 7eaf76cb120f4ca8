//! Elections, and the order of leaders.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use multilock::sim::Cluster;
use multilock::{LockError, RunError};
use tokio::time::{sleep, timeout};

use crate::latch::{Latch, leaders};
use crate::memory::{connect, ms, settle};
use crate::steps::{clients, locks};

/// `testUncreatedPathGetLeader`: of a name without any candidate.
#[tokio::test(start_paused = true)]
async fn test_uncreated_path_get_leader() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let mut leader = masters.watch_leader("/foo/bar").expect("a name");
    sleep(ms(60_000)).await;
    assert!(leader.borrow_and_update().is_none());
    let seen = masters.red_lock("/foo/bar").inspect().await.expect("all answer");
    assert!(seen[0].agreed.is_none() && seen[0].waiting == 0);
    assert!(locks(&cluster).is_empty(), "looking creates nothing");
}

/// `testWaiting`: ten candidates, ten times over. Each leads once, and never two at once.
#[tokio::test(start_paused = true)]
async fn test_waiting() {
    let cluster = Cluster::new(3);
    let clients = clients(&cluster, 10).await;
    for _ in 0..10 {
        let there_is_a_leader = AtomicBool::new(false);
        let candidates = clients.iter().zip(0..).map(|(masters, number)| {
            let (lock, there_is_a_leader) = (masters.red_lock("/one/two/me"), &there_is_a_leader);
            async move {
                let body = async |_| {
                    assert!(!there_is_a_leader.swap(true, Ordering::Relaxed), "two lead");
                    sleep(ms(number)).await;
                    there_is_a_leader.store(false, Ordering::Relaxed);
                };
                lock.lead(body).await
            }
        });
        let led = timeout(ms(60_000), join_all(candidates)).await.expect("in time");
        assert!(led.iter().all(Result::is_ok), "{led:?}");
        settle().await;
    }
    assert!(locks(&cluster).is_empty());
}

/// Closes the leader until nobody is left. Returns the places of the leaders, as of the list at the beginning.
async fn one_after_the_other(latches: Vec<Latch>) -> Vec<usize> {
    let mut latches: Vec<_> = latches.into_iter().enumerate().collect();
    let mut order = Vec::new();
    while !latches.is_empty() {
        settle().await;
        assert_eq!(
            leaders(latches.iter().map(|(_, latch)| latch)),
            1,
            "there is one leader"
        );
        let leads = latches.iter().position(|(_, latch)| latch.has_leadership());
        let (place, latch) = latches.remove(leads.expect("one leads"));
        order.push(place);
        latch.close().await;
    }
    order
}

/// `testBasic`: they lead in the order in which they have started. Ten candidates, where the original has one.
#[tokio::test(start_paused = true)]
async fn test_basic() {
    let cluster = Cluster::new(3);
    let mut latches = Vec::new();
    for masters in clients(&cluster, 10).await {
        latches.push(Latch::start(masters.red_lock("/one/two/me")));
        settle().await;
    }
    let order = one_after_the_other(latches).await;
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    settle().await;
    assert!(locks(&cluster).is_empty());
}

/// `testBasicAlt`: they start at the same moment, in tasks of their own. Each leads, in any order.
#[tokio::test(start_paused = true)]
async fn test_basic_alt() {
    let cluster = Cluster::new(3);
    let clients = clients(&cluster, 10).await;
    let latches = clients
        .iter()
        .map(|masters| Latch::start(masters.red_lock("/one/two/me")));
    let mut order = one_after_the_other(latches.collect()).await;
    order.sort_unstable();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

/// `testCorrectWatching`: a candidate in the middle goes. The one before it does not lead by that, nor the one behind.
#[tokio::test(start_paused = true)]
async fn test_correct_watching() {
    let cluster = Cluster::new(3);
    let mut latches = Vec::new();
    for masters in clients(&cluster, 10).await {
        latches.push(Latch::start(masters.red_lock("/one/two/me")));
        settle().await;
    }
    latches.remove(2).close().await;
    sleep(ms(60_000)).await;
    assert_eq!(leaders(&latches), 1);
    assert!(latches[0].has_leadership() && latches[0].gained() == 1);
    let order = one_after_the_other(latches).await;
    assert_eq!(order, (0..9).collect::<Vec<_>>(), "the others keep their order");
}

/// `testRelativePath`: a name that is not allowed is refused at once.
#[tokio::test(start_paused = true)]
async fn test_relative_path() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    for name in [String::new(), "parent".repeat(1000), "multilock_queue:a".into()] {
        let led: Result<(), _> = masters.red_lock(&name).lead(async |_| ()).await;
        assert!(
            matches!(led, Err(RunError::Lock(LockError::Invalid(_)))),
            "{led:?}"
        );
        assert!(matches!(masters.watch_leader(name), Err(LockError::Invalid(_))));
    }
    masters
        .red_lock("parent")
        .lead(async |_| ())
        .await
        .expect("a path is no matter here");
}
