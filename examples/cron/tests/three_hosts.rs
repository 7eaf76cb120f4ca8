//! Three hosts with the same schedule, over masters in memory.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use multilock::sim::{Client, Cluster};
use multilock::{Masters, Quarantine};
use multilock_cron_example::{every_second, work_every_second};
use tokio::time::sleep;

const HOSTS: [&str; 3] = ["one", "two", "three"];

/// Some seconds, to the middle of one: a job that is cut off before its mark is stored would be done again elsewhere.
fn length() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let into = now.unwrap_or_default().subsec_millis();
    Duration::from_secs(4) + Duration::from_millis(u64::from(1500 - into))
}

/// Seconds for which the job was done, by any host.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<Vec<u64>>>);

impl Done {
    /// The job of one host.
    fn job(&self) -> impl Fn(u64) -> std::future::Ready<Result<()>> + Clone + Send + Sync + 'static {
        let done = self.clone();
        move |second| {
            done.0.lock().expect("not poisoned").push(second);
            std::future::ready(Ok(()))
        }
    }

    #[track_caller]
    fn is_each_once(&self) {
        let mut done = self.0.lock().expect("not poisoned").clone();
        done.sort_unstable();
        let mut once = done.clone();
        once.dedup();
        assert!(done.len() >= 2, "the schedulers have started nothing: {done:?}");
        assert_eq!(done, once, "a second was done by two hosts");
    }
}

async fn connect(cluster: &Cluster, host: &str) -> Result<Masters> {
    let builder = Masters::builder().quarantine(Quarantine::Off).client_label(host);
    // On a busy machine a mark that comes late would not count, and the second would be done again.
    let builder = builder.node_timeout(Duration::from_secs(10));
    Ok(cluster.connect_as(&Client::new(), builder).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_second_is_done_by_one_host() -> Result<()> {
    let (cluster, done) = (Cluster::new(3), Done::default());
    let mut hosts = Vec::new();
    for host in HOSTS {
        let masters = connect(&cluster, host).await?;
        hosts.push((every_second(&masters, done.job()).await?, masters));
    }
    sleep(length()).await;
    for (scheduler, _) in &mut hosts {
        scheduler.shutdown().await?;
    }
    done.is_each_once();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_second_is_done_by_one_worker_of_apalis() -> Result<()> {
    let (cluster, done) = (Cluster::new(3), Done::default());
    let mut hosts = Vec::new();
    for host in HOSTS {
        let (masters, job) = (connect(&cluster, host).await?, done.job());
        hosts.push(tokio::spawn(async move {
            work_every_second(&masters, job, sleep(length())).await
        }));
    }
    for host in hosts {
        host.await??;
    }
    done.is_each_once();
    Ok(())
}
