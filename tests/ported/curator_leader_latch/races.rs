//! Candidates that come, go and campaign again at awkward moments.

use multilock::sim::{Cluster, Master};
use tokio::time::sleep;

use crate::latch::{Latch, leaders};
use crate::memory::{connect, ms, queues, settle, slow_down};
use crate::steps::{clients, locks};

const PATH: &str = "/one/two/me";

/// Number of owner fields of the name, on the master that has most.
fn owners(cluster: &Cluster) -> usize {
    // Fields and counts in turn.
    let owners = cluster.iter().map(|master| master.fields(PATH).len() / 2);
    owners.max().unwrap_or_default()
}

/// `testWatchedNodeDeletedOnReconnect`: the leader goes while the connections of the next one are lost, and with them
/// the call.
#[tokio::test(start_paused = true)]
async fn test_watched_node_deleted_on_reconnect() {
    let cluster = Cluster::new(3);
    let (here, there) = (connect(&cluster).await, connect(&cluster).await);
    let first = Latch::start(here.red_lock(PATH));
    first.term(1).await;
    let second = Latch::start(there.red_lock(PATH));
    settle().await;
    cluster.iter().for_each(|master| master.lose_notices(true));
    first.close().await;
    cluster.iter().for_each(Master::reset_connections);
    cluster.iter().for_each(|master| master.lose_notices(false));
    sleep(ms(60_000)).await;
    assert!(second.has_leadership());
    assert_eq!((owners(&cluster), queues(&cluster)), (1, 0), "one entry is left");
    second.close().await;
}

/// `testResettingOfLeadershipAfterConcurrentLeadershipChange`: the leader steps down while the other candidate campaigns
/// again.
#[tokio::test(start_paused = true)]
async fn test_resetting_of_leadership_after_concurrent_leadership_change() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 2);
    let clients = clients(&cluster, 2).await;
    let first = Latch::start(clients[0].red_lock(PATH));
    first.term(1).await;
    let second = Latch::start(clients[1].red_lock(PATH));
    sleep(ms(1000)).await;
    assert!(first.has_leadership() && !second.has_leadership());
    first.step_down();
    second.abort();
    let second = Latch::start(clients[1].red_lock(PATH));
    sleep(ms(1000)).await;
    // The present leader steps down, and the other candidate leads.
    assert_eq!(leaders([&first, &second]), 1);
    assert!(first.lost() >= 1, "its first term is over");
    for _ in 0..4 {
        let (leads, waits) = if first.has_leadership() {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let (lost, gained) = (leads.lost(), waits.gained());
        leads.step_down();
        sleep(ms(1000)).await;
        assert_eq!((leads.lost(), waits.gained()), (lost + 1, gained + 1));
        assert!(!leads.has_leadership() && waits.has_leadership());
    }
}

/// `testLeadershipElectionWhenNodeDisappearsAfterChildrenAreRetrieved`: the leader goes at each moment of the entry of
/// a distant candidate. One of the candidates leads.
#[tokio::test(start_paused = true)]
async fn test_leadership_election_when_node_disappears_after_children_are_retrieved() {
    for moment in 0..=50 {
        let cluster = Cluster::new(3);
        let (here, near) = (connect(&cluster).await, connect(&cluster).await);
        let builder = multilock::Masters::builder().quarantine(multilock::Quarantine::Off);
        let far = cluster
            .connect_from(&[ms(10); 3], builder)
            .await
            .expect("connects");
        let leader = Latch::start(here.red_lock(PATH));
        leader.term(1).await;
        let (candidate, other) = (
            Latch::start(far.red_lock(PATH)),
            Latch::start(near.red_lock(PATH)),
        );
        sleep(ms(moment)).await;
        leader.close().await;
        // Far less than a lease, or than the time after which a waiter looks by itself.
        sleep(ms(100)).await;
        assert_eq!(leaders([&candidate, &other]), 1, "after {moment} ms");
    }
}

/// `testResetRace`: a candidate campaigns again while its first request is on its way. One entry is left.
#[tokio::test(start_paused = true)]
async fn test_reset_race() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 10);
    let masters = connect(&cluster).await;
    for moment in 0..=25 {
        Latch::start(masters.red_lock(PATH)).abort();
        let first = Latch::start(masters.red_lock(PATH));
        sleep(ms(moment)).await;
        first.abort();
        let latch = Latch::start(masters.red_lock(PATH));
        sleep(ms(1000)).await;
        assert!(latch.has_leadership() && latch.gained() == 1, "after {moment} ms");
        assert_eq!((owners(&cluster), queues(&cluster)), (1, 0), "after {moment} ms");
        latch.close().await;
    }
}

/// `testCreateDeleteRace`: a candidate goes while its request is on its way. Nothing is left.
#[tokio::test(start_paused = true)]
async fn test_create_delete_race() {
    let cluster = Cluster::new(3);
    slow_down(&cluster, 10);
    let masters = connect(&cluster).await;
    for moment in 0..=25 {
        let latch = Latch::start(masters.red_lock(PATH));
        sleep(ms(moment)).await;
        latch.close().await;
        sleep(ms(1000)).await;
        assert!(
            locks(&cluster).is_empty(),
            "after {moment} ms: {:?}",
            locks(&cluster)
        );
    }
}
