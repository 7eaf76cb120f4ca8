//! One run, from its first connection to the end.

use std::sync::Arc;
use std::time::Duration;

use multilock::sim::{Client, Cluster, Network};
use multilock::{Closing, Masters};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use crate::load::{self, Tally};
use crate::region;
use crate::row::Row;
use crate::setting::Setting;

/// Time for everybody to come to rest: the longest wait, a quarantine and the pauses of connecting again.
const REST: Duration = Duration::from_secs(120);

pub(crate) fn run(setting: &Setting) -> Row {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime").block_on(schedule(setting))
}

async fn schedule(setting: &Setting) -> Row {
    let cluster = Arc::new(Cluster::new(region::MASTERS));
    let networks: Vec<_> = (0..setting.clients)
        .map(|client| region::network(client as usize, setting.distance))
        .collect();
    let clients = connect(&cluster, &networks).await;
    let tally = Arc::new(Tally::new());
    let end = Instant::now() + Duration::from_secs(60 * setting.minutes);
    let (executed, memory) = (scripts(&cluster), resident_kib());
    let mut tasks: Vec<_> = (0..)
        .zip(&clients)
        .map(|(seed, masters)| {
            let tally = Arc::clone(&tally);
            tokio::spawn(load::work(masters.clone(), setting.names, seed, end, tally))
        })
        .collect();
    let watching = tokio::spawn(most_pending(clients.clone(), Arc::clone(&cluster), end));
    let strikes = match setting.fault {
        Some(fault) => fault.strike(&cluster, &networks, end).await,
        None => 0,
    };
    for task in tasks.drain(..) {
        task.await.expect("no panic");
    }
    let most_pending = watching.await.expect("no panic");
    let executed = scripts(&cluster) - executed;
    sleep(REST).await;
    let left = cluster.iter().map(|master| master.locks().len()).sum::<usize>() + pending(&clients);
    let counts = tally.counts();
    let row = Row {
        grants: counts.grants,
        timed_out: counts.timed_out,
        unreachable: counts.unreachable,
        lost: counts.lost,
        wait_p50_us: counts.waits.value_at_quantile(0.5),
        wait_p99_us: counts.waits.value_at_quantile(0.99),
        wait_max_us: counts.waits.max(),
        scripts: executed,
        most_pending: u64::try_from(most_pending).expect("few"),
        connected_kib: memory,
        ended_kib: resident_kib(),
        meetings: tally.witness.meetings(),
        left: u64::try_from(left).expect("few"),
        strikes: u64::try_from(strikes).expect("few"),
    };
    for masters in &clients {
        masters.close(Closing::Release).await;
    }
    row
}

async fn connect(cluster: &Cluster, networks: &[Network]) -> Vec<Masters> {
    let mut clients = Vec::new();
    for (seed, network) in (0..).zip(networks) {
        let client = Client::new().seed(seed).network(network);
        let builder = Masters::builder().node_timeout(Duration::from_millis(400));
        clients.push(cluster.connect_as(&client, builder).await.expect("connects"));
    }
    clients
}

/// Most releases that were pending at a time, of all clients, by a look every ten seconds.
async fn most_pending(clients: Vec<Masters>, cluster: Arc<Cluster>, end: Instant) -> usize {
    let mut most = 0;
    while Instant::now() < end {
        most = most.max(pending(&clients));
        // A server frees expired keys by itself. A master in memory does so when it lists its keys.
        cluster.iter().for_each(|master| drop(master.keys()));
        sleep(Duration::from_secs(10)).await;
    }
    most
}

fn pending(clients: &[Masters]) -> usize {
    let of = |masters: &Masters| -> usize {
        let nodes = masters.status().nodes;
        nodes.iter().map(|node| node.pending_releases).sum()
    };
    clients.iter().map(of).sum()
}

/// Scripts that the masters have executed.
fn scripts(cluster: &Cluster) -> u64 {
    cluster
        .iter()
        .map(|master| master.executed().values().sum::<u64>())
        .sum()
}

/// Resident memory of this process, clients and masters together.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).expect("a number")
}
