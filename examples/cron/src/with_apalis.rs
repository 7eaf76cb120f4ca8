//! The schedule by `apalis`, which tells each job when it was started.

use std::future::Future;
use std::str::FromStr;

use anyhow::Result;
use apalis::prelude::{Data, WorkerBuilder, WorkerFactoryFn};
use apalis_cron::{CronContext, CronStream, Schedule};
use chrono::Utc;
use multilock::Masters;

use crate::report;

/// Message with which `apalis` starts a job. It is empty: the second of a job is its name.
#[derive(Default)]
struct Tick;

/// Runs `job` every second until `stop`, unless another host has done it for that second. The job gets the number of the
/// second.
///
/// # Errors
///
/// Those of the schedule's expression.
pub async fn work_every_second<F>(
    masters: &Masters,
    job: impl Fn(u64) -> F + Clone + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let each = move |_: Tick, started: CronContext<Utc>, masters: Data<Masters>| {
        let (job, second) = (job.clone(), started.get_timestamp().timestamp());
        async move { report(&masters, second.unsigned_abs(), job).await }
    };
    let worker = WorkerBuilder::new("reports")
        .data(masters.clone())
        .backend(CronStream::new(Schedule::from_str("* * * * * *")?))
        .build_fn(each);
    tokio::select! {
        () = worker.run() => {}
        () = stop => {}
    }
    Ok(())
}
