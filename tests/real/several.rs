//! Several locks at once on real servers, each on masters of its own.

use std::time::Duration;

use crate::support::{Cluster, connect, patient, until_free, within};
use multilock::{Masters, MultiLock, Unlocked};
use tokio::time::{Instant, sleep};

/// As one process sees them: each server is a set of masters.
async fn process(cluster: &Cluster) -> Vec<Masters> {
    let mut masters = Vec::new();
    for url in cluster.urls() {
        masters.push(connect([url]).await);
    }
    masters
}

#[tokio::test]
async fn three_servers_and_three_names() {
    let cluster = Cluster::start(3).await;
    let masters = process(&cluster).await;
    let locks = masters.iter().zip(["lock1", "lock2", "lock3"]);
    let set = MultiLock::all_of(locks.map(|(masters, name)| masters.red_lock(name)));
    let guard = set.lock().await.expect("free");
    for (server, name) in cluster.servers().iter().zip(["lock1", "lock2", "lock3"]) {
        assert!(server.exists(name).await, "{name}");
    }
    let there = process(&cluster).await;
    there[1].red_lock("lock2").try_lock().await.expect_err("held");
    assert_eq!(guard.unlock().await, Ok(vec![Unlocked::Released; 3]));
    until_free(cluster.servers(), "lock2").await;
}

#[tokio::test]
async fn opposite_orders_get_in_by_turns() {
    const ROUNDS: usize = 50;
    let cluster = Cluster::start(2).await;
    let mut tasks = Vec::new();
    for n in 0..4 {
        let masters = process(&cluster).await;
        let (first, second) = (n % 2, (n + 1) % 2);
        tasks.push(tokio::spawn(async move {
            let set = masters[first].red_lock("a").and(masters[second].red_lock("a"));
            for _ in 0..ROUNDS {
                let guard = set.lock().await.expect("in the end");
                sleep(Duration::from_millis(1)).await;
                guard.unlock().await.expect("held");
            }
        }));
    }
    let begun = Instant::now();
    for task in tasks {
        within("they do not lock each other out", task)
            .await
            .expect("no panic");
    }
    println!("{} turns in {:?}", 4 * ROUNDS, begun.elapsed());
    until_free(cluster.servers(), "a").await;
}

#[tokio::test]
async fn the_loss_of_one_server_is_the_loss_of_the_set() {
    let cluster = Cluster::start(2).await;
    let masters = process(&cluster).await;
    let lease = Duration::from_secs(3);
    let hasty = patient([cluster.server(1).url()])
        .node_timeout(lease / 4)
        .lease(lease);
    let hasty = hasty.connect().await.expect("a master that can be used");
    let set = masters[0].red_lock("a").and(hasty.red_lock("a"));
    let guard = set.lock().await.expect("free");
    cluster.server(1).kill().await;
    let loss = within("the end of its validity", guard.lost()).await;
    assert_eq!(loss.index, 1);
    assert!(guard.guards()[0].is_valid());
    let error = guard.unlock().await.expect_err("one was lost");
    assert_eq!(error.outcomes[0], Ok(Unlocked::Released));
    assert!(error.outcomes[1].is_err());
}
