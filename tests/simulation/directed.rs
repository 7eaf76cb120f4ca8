//! Schedules aimed at rules whose loss random ones show only as time that is wasted.

use std::time::Duration;

use futures::future::join_all;
use multilock::Masters;
use multilock::sim::{Client, Cluster, Direction, Network};
use tokio::time::{Instant, sleep};

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A waiter has the lock right after its release, although the notice of it overtakes the refusal of
/// what the waiter asked before.
#[tokio::test(start_paused = true)]
async fn a_release_wakes() {
    let cluster = Cluster::new(3);
    let connect = async |seed| {
        let builder = Masters::builder().node_timeout(ms(500));
        let client = Client::new().seed(seed);
        cluster.connect_as(&client, builder).await.expect("connects")
    };
    let (holder, waiter) = (connect(1).await, connect(2).await);
    let lock = holder.red_lock("a").lease(ms(20_000));
    let guard = lock.try_lock().await.expect("free");
    for master in cluster.iter() {
        master.set_delay(Duration::ZERO, ms(200));
        master.set_notice_delay(Some(Duration::ZERO));
    }
    let waiting = tokio::spawn(async move {
        let guard = waiter.red_lock("a").lock().await.expect("its turn comes");
        (Instant::now(), guard)
    });
    // Refused at 200 ms, subscribed at 400 ms; the next refusal is on its way when the notice comes.
    sleep(ms(500)).await;
    let released = Instant::now();
    guard.unlock().await.expect("held");
    let (won, second) = waiting.await.expect("no panic");
    assert!(won - released < ms(800), "woken after {:?}", won - released);
    second.unlock().await.expect("held");
}

/// Contenders that each reach another master first split the votes, and somebody wins all the same.
#[tokio::test(start_paused = true)]
async fn split_votes_end() {
    for seed in 0..8 {
        let cluster = Cluster::new(3);
        cluster.master(2).crash();
        let mut clients = Vec::new();
        for place in 0..2_u64 {
            let distances = if place == 0 {
                [ms(1), ms(2)]
            } else {
                [ms(2), ms(1)]
            };
            let client = Client::new().seed(seed * 2 + place).distances(&distances);
            let masters = cluster.connect_as(&client, Masters::builder()).await;
            clients.push(masters.expect("a majority"));
        }
        let begun = Instant::now();
        join_all(clients.iter().map(async |client| {
            let lock = client.red_lock("a").wait(ms(10_000));
            let guard = lock.lock().await.expect("its turn comes");
            guard.unlock().await.expect("held");
        }))
        .await;
        let took = begun.elapsed();
        assert!(took < ms(1500), "seed {seed}: both had it after {took:?}");
    }
}

/// A master's clock is set forward while it holds for somebody: who has heard it before does not count
/// it, so there are never two holders.
#[tokio::test(start_paused = true)]
async fn a_clock_step_is_noticed() {
    let lease = ms(10_000);
    let cluster = Cluster::new(3);
    let (near, far) = (Network::new(3), Network::new(3));
    let connect = async |network: &Network| {
        let client = Client::new().seed(1).network(network);
        let masters = cluster.connect_as(&client, Masters::builder().lease(lease));
        masters.await.expect("connects")
    };
    let (holder, rival) = (connect(&near).await, connect(&far).await);
    near.cut(0, Direction::ToMaster);
    let lock = holder.red_lock("a").lease(lease);
    let guard = lock.try_lock().await.expect("1 and 2 grant");
    far.cut(2, Direction::Both);
    sleep(ms(5)).await;
    cluster.master(1).set_clock_forward(lease + ms(500));
    assert!(rival.red_lock("a").try_lock().await.is_err());
    assert!(guard.is_valid());
}

/// Every answer is late until the validity has ended; then a renewal that was sent before is confirmed by
/// all.
#[tokio::test(start_paused = true)]
async fn a_lapse_is_final() {
    let cluster = Cluster::new(3);
    let builder = Masters::builder().lease(ms(300)).node_timeout(ms(100));
    let masters = cluster.connect(builder).await.expect("connects");
    let guard = masters.red_lock("a").try_lock().await.expect("free");
    sleep(ms(110)).await;
    for master in cluster.iter() {
        master.hold_replies(true);
    }
    while guard.is_valid() {
        sleep(ms(1)).await;
    }
    for master in cluster.iter() {
        master.hold_replies(false);
    }
    for _ in 0..100 {
        sleep(ms(1)).await;
        assert!(!guard.is_valid(), "it lives again");
    }
}
