//! What the suites on masters in memory say over and over.

use std::time::Duration;

use multilock::sim::Cluster;
use multilock::{Masters, MastersBuilder, Quarantine};

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn without_quarantine() -> MastersBuilder {
    Masters::builder().quarantine(Quarantine::Off)
}

/// Without quarantine: a master that restarts has its vote again at once.
pub(crate) async fn connect(cluster: &Cluster) -> Masters {
    let connecting = cluster.connect(without_quarantine());
    connecting.await.expect("connects")
}

/// As [`connect`], with another lease.
pub(crate) async fn connect_leasing(cluster: &Cluster, lease: Duration) -> Masters {
    let connecting = cluster.connect(without_quarantine().lease(lease));
    connecting.await.expect("connects")
}

/// With nothing but the defaults, quarantine included.
pub(crate) async fn connect_by_default(cluster: &Cluster) -> Masters {
    cluster.connect(Masters::builder()).await.expect("connects")
}

/// Every request and every reply takes so long.
pub(crate) fn slow_down(cluster: &Cluster, milliseconds: u64) {
    for master in cluster.iter() {
        master.set_delay(ms(milliseconds), ms(milliseconds));
    }
}

/// How often the masters have run a script, all together.
pub(crate) fn executed(cluster: &Cluster, script: &str) -> u64 {
    cluster
        .iter()
        .map(|master| master.executed().get(script).copied().unwrap_or(0))
        .sum()
}

/// Lets everything that is due happen.
pub(crate) async fn settle() {
    tokio::time::sleep(ms(5)).await;
}

/// The channels that somebody listens to, but for those on which the clients themselves are called, which they keep.
pub(crate) fn foreign_channels(cluster: &Cluster) -> Vec<String> {
    let channels = cluster.iter().flat_map(multilock::sim::Master::channels);
    channels
        .filter(|channel| !channel.starts_with("multilock:"))
        .collect()
}

/// How many keys of queues the masters have.
pub(crate) fn queues(cluster: &Cluster) -> usize {
    let keys = cluster.iter().flat_map(multilock::sim::Master::keys);
    keys.filter(|key| key.starts_with("multilock_queue") || key.starts_with("multilock_beats"))
        .count()
}
