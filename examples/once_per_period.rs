//! What if several hosts start the same job by their own schedules, a little apart, and the job is over before the last of
//! them starts? A lock that is free again lets it run twice. One that is kept for longer than the schedules are apart does
//! not.
//!
//! A schedule that goes by the calendar can name the period in the lock as well (`report:2026-11-22`).
//!
//! ```text
//! make cluster-up && cargo run --example once_per_period
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example once_per_period`.

mod common;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use multilock::{LockError, Masters, Unlocked};
use tokio::time::sleep;

/// More than the hosts' schedules are apart, and less than two periods are.
const APART: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<()> {
    let masters = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let mut ran = 0;
    for host in ["the first host", "the second host", "the third host"] {
        ran += usize::from(run_report(&masters, host).await?);
        // Their clocks are a little apart.
        sleep(Duration::from_millis(300)).await;
    }
    ensure!(ran == 1, "it has run {ran} times");
    Ok(())
}

/// Runs the job, unless another host does or has just done so.
async fn run_report(masters: &Masters, host: &str) -> Result<bool> {
    let lock = masters.red_lock("example:report").at_least(APART);
    let guard = match lock.try_lock().await {
        Ok(guard) => guard,
        Err(LockError::Contended { retry_after, .. }) => {
            println!("{host}: another host has it, for {retry_after:.1?} at most");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    println!("{host}: running it, which takes no time at all");
    match guard.unlock().await? {
        Unlocked::KeptFor(rest) => println!("{host}: done, and nobody else runs it for another {rest:.1?}"),
        unlocked => println!("{host}: done, {unlocked:?}"),
    }
    Ok(true)
}
