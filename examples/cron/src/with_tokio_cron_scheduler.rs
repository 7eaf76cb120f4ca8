//! The schedule by `tokio-cron-scheduler`. It does not tell a job its period.

use std::future::Future;
use std::time::SystemTime;

use anyhow::Result;
use multilock::Masters;
use tokio_cron_scheduler::{Job, JobScheduler};

use crate::report;

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
        Box::pin(async move { report(&masters, now(), job).await })
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
