//! Masters that answer late, or with an error: a release is sent as often as it needs, and no more.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Masters, Unlocked};
use tokio::time::sleep;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

async fn connect(cluster: &Cluster) -> Masters {
    cluster.connect(Masters::builder()).await.expect("connects")
}

fn releases(cluster: &Cluster, place: usize) -> u64 {
    let executed = cluster.master(place).executed();
    executed.get("release").copied().unwrap_or(0)
}

/// Asking again would bring the same answer.
#[tokio::test(start_paused = true)]
async fn a_release_that_meets_a_key_of_another_type_is_done_with() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
    cluster.master(0).answer_with(Some(error));
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    sleep(ms(1000)).await;
    cluster.master(0).answer_with(None);
    sleep(ms(1000)).await;
    assert_eq!(releases(&cluster, 0), 0);
}

/// What is spoilt belongs to one of the names.
#[tokio::test(start_paused = true)]
async fn a_spoilt_fence_keeps_no_name_from_its_release() {
    let cluster = Cluster::new(3);
    let masters = connect(&cluster).await;
    let guard = masters.red_lock(["a", "b", "c"]).lock().await.expect("free");
    for fence in ["redisson_lock_token:{a}", "redisson_lock_token:{b}"] {
        cluster.master(0).command(&["DEL", fence]).expect("deleted");
        cluster
            .master(0)
            .command(&["HSET", fence, "x", "y"])
            .expect("stored");
    }
    assert_eq!(guard.unlock().await, Ok(Unlocked::Released));
    assert_eq!(cluster.master(0).fields("c"), [] as [&str; 0]);
    assert_eq!(releases(&cluster, 0), 1);
}
