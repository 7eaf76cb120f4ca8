//! Processes that keep locks busy, for schedules without a stage.

use std::time::Duration;

use multilock::sim::{Client, Cluster};
use multilock::{Masters, Quarantine};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::plan::ms;

/// Three masters at a distance of a millisecond.
pub(super) fn near() -> Cluster {
    let cluster = Cluster::new(3);
    for master in cluster.iter() {
        master.set_delay(ms(1), ms(1));
    }
    cluster
}

/// A client with an id and random choices that follow from `seed`.
pub(super) async fn connect(cluster: &Cluster, seed: u64) -> Masters {
    let builder = Masters::builder().quarantine(Quarantine::Off);
    let client = Client::new().seed(seed);
    cluster.connect_as(&client, builder).await.expect("connects")
}

/// Takes a lock again and again, and holds it for so long.
pub(super) fn busy(masters: &Masters, name: &'static str, held: Duration) -> JoinHandle<()> {
    let lock = masters.red_lock(name);
    tokio::spawn(async move {
        loop {
            let guard = lock.lock().await.expect("granted");
            sleep(held).await;
            drop(guard);
        }
    })
}
