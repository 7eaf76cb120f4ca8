//! How does a job run once if several hosts start it by their own schedules, and it is over before the last host starts it?
//! A lock that is free again lets it run twice. `once` leaves a mark on the masters that the job is done.
//!
//! The name consists of the job and its period. `examples/cron` does the same with a scheduler.
//!
//! ```text
//! make cluster-up && cargo run --example once_per_period
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example once_per_period`.

mod common;

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use multilock::{Masters, Once};
use tokio::time::sleep;

/// Longer than a host may be late.
const KEEP: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<()> {
    let masters = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    // A calendar would say `report:2026-11-22`.
    let period = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)?
        .as_secs();
    let mut ran = 0;
    for host in ["the first host", "the second host", "the third host"] {
        ran += usize::from(run_report(&masters, host, period).await?);
        // Their clocks are a little apart.
        sleep(Duration::from_millis(300)).await;
    }
    ensure!(ran == 1, "it has run {ran} times");
    Ok(())
}

/// Runs the job, unless another host has done it. Returns whether this one did.
async fn run_report(masters: &Masters, host: &str, period: u64) -> Result<bool> {
    let report = masters.red_lock(format!("example:report:{period}")).once(KEEP);
    let job = report.run(async |guard| {
        println!("{host}: running it, under token {}", guard.fencing_token());
        Ok::<_, anyhow::Error>(())
    });
    match job.await {
        Ok(Once::Ran(())) => {
            println!("{host}: done, and nobody runs it again for {KEEP:?}");
            Ok(true)
        }
        Ok(Once::Done { label, confirmed, .. }) => {
            let by = label.as_deref().unwrap_or("another host");
            println!("{host}: it is done, by {by} (confirmed: {confirmed})");
            Ok(false)
        }
        // The masters went away before they had the mark.
        Ok(_) => bail!("{host}: done, but another host may do it again"),
        Err(error) => Err(error.into()),
    }
}
