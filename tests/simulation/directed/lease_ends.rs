//! When a caller and a waiter are to ask again, where masters tell different ends of a lease.

use std::time::Duration;

use multilock::sim::{Client, Cluster, Network};
use multilock::{Masters, MultiLockGuard, Quarantine};
use tokio::time::{Instant, sleep};

use crate::plan::ms;
use crate::scene::{in_time, violated};

const LEASE: Duration = ms(3000);

async fn connect(cluster: &Cluster, network: &Network, lease: Duration) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off).lease(lease);
    let client = Client::new().network(network);
    cluster.connect_as(&client, builder).await.expect("connects")
}

/// A holder that reaches the first master alone with its last renewal. The lease ends after 4 s there, and after 3 s on
/// the two others. The holder is cut off after 1.5 s.
async fn dying(cluster: &Cluster) -> MultiLockGuard {
    let network = Network::new(3);
    let holder = connect(cluster, &network, LEASE).await;
    let guard = holder.red_lock("a").lock().await.expect("free");
    sleep(ms(500)).await;
    for place in [1, 2] {
        network.cut(place, multilock::sim::Direction::ToMaster);
    }
    sleep(ms(1000)).await;
    network.cut(0, multilock::sim::Direction::ToMaster);
    let left = |place: usize| {
        let told = cluster.master(place).command(&["PTTL", "a"]).expect("a number");
        told[0].parse::<u64>().expect("held")
    };
    let lefts = [0, 1, 2].map(left);
    assert!(lefts[0] > 2000 && lefts[1] < 1600 && lefts[2] < 1600, "{lefts:?}");
    guard
}

/// A client for which one master is so far that the others have decided before it answers.
async fn beside(cluster: &Cluster, far: usize) -> Masters {
    let network = Network::new(3);
    for place in 0..3 {
        let distance = if place == far { ms(20) } else { ms(1) };
        network.set_distance(place, distance);
    }
    connect(cluster, &network, ms(30_000)).await
}

/// A master that has not answered when the others refuse may be one on which the lease ends early.
#[tokio::test(start_paused = true)]
async fn a_refusal_counts_on_a_master_that_has_not_answered() {
    for far in 0..3 {
        let cluster = Cluster::new(3);
        let (guard, masters) = (dying(&cluster).await, beside(&cluster, far).await);
        let refused = masters.red_lock("a").try_lock().await.expect_err("held");
        let after = refused.retry_after().expect("held by another");
        if after > ms(1500) {
            violated("retry after", &format!("{after:?}, with m{far} far away"));
        }
        sleep(after + ms(5)).await;
        if let Err(error) = masters.red_lock("a").try_lock().await {
            violated("retry after", &error.to_string());
        }
        drop(guard);
    }
}

/// A waiter asks when the lease may have ended on a quorum, and not a second later.
#[tokio::test(start_paused = true)]
async fn a_waiter_counts_on_a_master_that_has_not_answered() {
    for far in 0..3 {
        let cluster = Cluster::new(3);
        let (guard, masters) = (dying(&cluster).await, beside(&cluster, far).await);
        let begun = Instant::now();
        let got = masters.red_lock("a").lock().await;
        drop(got.expect("granted"));
        in_time(begun, ms(1600));
        drop(guard);
    }
}
