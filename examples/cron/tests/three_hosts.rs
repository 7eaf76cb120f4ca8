//! Three hosts with the same schedule, over masters in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use multilock::sim::{Client, Cluster};
use multilock::{Masters, Quarantine};
use multilock_cron_example::every_second;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_second_is_done_by_one_host() -> Result<()> {
    let cluster = Cluster::new(3);
    let done = Arc::<Mutex<Vec<u64>>>::default();
    let mut hosts = Vec::new();
    for host in ["one", "two", "three"] {
        let builder = Masters::builder().quarantine(Quarantine::Off).client_label(host);
        let masters = cluster.connect_as(&Client::new(), builder).await?;
        let seen = Arc::clone(&done);
        let job = move |second| {
            let seen = Arc::clone(&seen);
            async move {
                seen.lock().expect("not poisoned").push(second);
                Ok(())
            }
        };
        hosts.push((every_second(&masters, job).await?, masters));
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    for (scheduler, _) in &mut hosts {
        scheduler.shutdown().await?;
    }
    let mut done = done.lock().expect("not poisoned").clone();
    done.sort_unstable();
    let mut once = done.clone();
    once.dedup();
    assert!(done.len() >= 2, "the schedulers have started nothing: {done:?}");
    assert_eq!(done, once, "a second was done by two hosts");
    Ok(())
}
