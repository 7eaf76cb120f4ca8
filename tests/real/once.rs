//! Jobs that are done once, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use multilock::{Once, OnceError, OnceJob};

use crate::support::{Cluster, Keep, connect, until_free};

const KEEP: Duration = Duration::from_secs(600);
const MARK: &str = "multilock_done:{report}";

async fn run(job: &OnceJob) -> Result<Once<u32>, OnceError<()>> {
    job.run(async |_guard| Ok(7)).await
}

#[tokio::test]
async fn of_many_processes_one_does_it() {
    let cluster = Cluster::start(3).await;
    let ran = Arc::<AtomicU32>::default();
    let mut all = Vec::new();
    for _ in 0..4 {
        let masters = connect(cluster.urls()).await;
        for _ in 0..4 {
            let (masters, ran) = (masters.clone(), Arc::clone(&ran));
            all.push(tokio::spawn(async move {
                let job = masters.red_lock("report").once(KEEP);
                job.run(async |_guard| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok::<_, ()>(())
                })
                .await
            }));
        }
    }
    for one in all {
        let outcome = one.await.expect("no panic").expect("granted");
        assert!(
            matches!(outcome, Once::Ran(()) | Once::Done { .. }),
            "{outcome:?}"
        );
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    until_free(cluster.servers(), "report").await;
    let mut marked = 0;
    for server in cluster.servers() {
        let left = server.pttl(MARK).await;
        marked += usize::from(left > 0);
        assert!(left <= 600_000, "{left}");
    }
    assert!(marked >= 2, "{marked}");
}

/// The servers write every change to the disk before they answer.
#[tokio::test]
async fn a_mark_outlives_a_restart() {
    let cluster = Cluster::start(3).await;
    let job = connect(cluster.urls()).await.red_lock("report").once(KEEP);
    assert_eq!(run(&job).await, Ok(Once::Ran(7)));
    for server in cluster.servers() {
        server.kill().await;
        server.restart(Keep::Data).await;
    }
    let job = connect(cluster.urls()).await.red_lock("report").once(KEEP);
    let outcome = run(&job).await;
    assert!(
        matches!(outcome, Ok(Once::Done { confirmed: true, .. })),
        "{outcome:?}"
    );
}
