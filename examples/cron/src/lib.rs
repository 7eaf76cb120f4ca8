//! A schedule that several hosts have, each by a scheduler of its own. Each period is done by one of them, by
//! `MultiLock::once`.

use std::future::Future;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use multilock::{Masters, Once};
use tokio_cron_scheduler::{Job, JobScheduler};

/// Longer than the hosts' clocks are apart, and than a host may be late.
const KEEP: Duration = Duration::from_secs(3600);

/// Starts a scheduler that runs `job` every second, unless another host has done it for that second. The job gets the number
/// of the second.
///
/// # Errors
///
/// Those of the scheduler.
pub async fn every_second<F>(
    masters: &Masters,
    job: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
) -> Result<JobScheduler>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let scheduler = JobScheduler::new().await?;
    let masters = masters.clone();
    let each = Job::new_async("* * * * * *", move |_, _| {
        let (masters, job) = (masters.clone(), job.clone());
        Box::pin(async move {
            let second = now();
            // The name says which job it is, and of which period.
            let once = masters.red_lock(format!("report:{second}")).once(KEEP);
            match once.run(async move |_guard| job(second).await).await {
                Ok(Once::Ran(())) => println!("second {second}: done"),
                Ok(Once::Done { label, .. }) => {
                    println!(
                        "second {second}: done by {}",
                        label.as_deref().unwrap_or("another host")
                    );
                }
                Ok(_) => println!("second {second}: done, and it may be done again"),
                Err(error) => eprintln!("second {second}: {error}"),
            }
        })
    })?;
    scheduler.add(each).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

/// Whole seconds since 1970. The scheduler starts a job a little after the second begins.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
