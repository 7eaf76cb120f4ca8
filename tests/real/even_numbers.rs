//! Every way in which a foreign holder can be spread over an even number of masters, and contenders
//! in lock-step, which an even number invites to tie.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Cluster, WITHIN, all_executed, connect, until, within};
use multilock::{LockError, Policy, Unlocked};
use tokio::sync::Barrier;

const THEIRS: &str = "somebody else's";

async fn every_mask(policy: Policy, nodes: usize) {
    let cluster = Cluster::start(nodes).await;
    let masters = connect(cluster.urls()).await;
    for mask in 0..1_usize << nodes {
        let name = format!("mask {mask:b}");
        let is_theirs = |place: usize| mask & 1 << place != 0;
        for (place, server) in cluster.servers().iter().enumerate() {
            if is_theirs(place) {
                server.command(&["SET", &name, THEIRS, "PX", "600000"]).await;
            }
        }
        let free = nodes - mask.count_ones() as usize;
        match masters.lock(&name, policy).try_lock().await {
            Ok(guard) => {
                assert!(free >= policy.needed(nodes), "{policy} with {mask:b}");
                assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
            }
            Err(error) => {
                assert!(free < policy.needed(nodes), "{policy} with {mask:b}: {error}");
                let LockError::Contended { retry_after, .. } = error else {
                    panic!("{policy} with {mask:b}: {error}");
                };
                let allowed = Duration::from_secs(500)..=Duration::from_secs(600);
                assert!(
                    allowed.contains(&retry_after),
                    "{policy} with {mask:b}: {retry_after:?}"
                );
            }
        }
        // Either way nothing of ours is left, and nothing of theirs has gone.
        all_executed(&masters).await;
        for (place, server) in cluster.servers().iter().enumerate() {
            let what = format!("{name} on {place} is as it was");
            until(&what, async || server.exists(&name).await == is_theirs(place)).await;
            if is_theirs(place) {
                let value: String =
                    redis::from_redis_value(server.command(&["GET", &name]).await).expect("text");
                assert_eq!(value, THEIRS);
            }
        }
    }
}

#[tokio::test]
async fn a_red_lock_needs_three_of_four() {
    assert_eq!(Policy::RedLock.needed(4), 3);
    every_mask(Policy::RedLock, 4).await;
}

#[tokio::test]
async fn a_multi_lock_needs_all_four() {
    assert_eq!(Policy::MultiLock.needed(4), 4);
    every_mask(Policy::MultiLock, 4).await;
}

#[tokio::test]
async fn two_masters_are_a_pair_under_both() {
    for policy in [Policy::RedLock, Policy::MultiLock] {
        assert_eq!(policy.needed(2), 2);
        every_mask(policy, 2).await;
    }
}

/// Two clients, one asking the masters in this order and one in the other, start at the same moment,
/// round after round: each gets its turn each time.
async fn lock_step(nodes: usize, policy: Policy) {
    const ROUNDS: usize = 25;
    let cluster = Cluster::start(nodes).await;
    let barrier = Arc::new(Barrier::new(2));
    let mut contenders = Vec::new();
    for turned in [false, true] {
        let mut urls = cluster.urls();
        if turned {
            urls.reverse();
        }
        let masters = connect(urls).await;
        let barrier = Arc::clone(&barrier);
        contenders.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                barrier.wait().await;
                let guard = masters.lock("a", policy).wait(WITHIN).lock().await;
                let guard = guard.unwrap_or_else(|error| panic!("round {round}: {error}"));
                guard.unlock().await.expect("held");
            }
        }));
    }
    for contender in contenders {
        let ended = within("no tie lasts", contender).await;
        ended.expect("each gets its turn");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tie_over_two_masters() {
    lock_step(2, Policy::RedLock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tie_over_four_masters() {
    lock_step(4, Policy::RedLock).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tie_for_a_multi_lock() {
    lock_step(4, Policy::MultiLock).await;
}
