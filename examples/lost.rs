//! How does a job end if its lock is lost while it runs?
//!
//! Inside `run`, the job is dropped at its next await, before any other client can get the lock. Here an operator takes the
//! name away in the middle of an import. A hold ends in the same way if masters forget it, or if a majority is gone for
//! longer than the lease. The rows before the loss stay imported: the next run goes on where this one stopped.
//!
//! ```text
//! make cluster-up && cargo run --example lost
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example lost`.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use multilock::{MultiLock, RunError};
use tokio::time::sleep;

const ROWS: u32 = 200;

#[tokio::main]
async fn main() -> Result<()> {
    // With this lease, a hold is renewed every second: a client learns of a force only then. By default it is every 10 s.
    let connecting = common::builder()?.lease(Duration::from_secs(3)).connect();
    let masters = connecting
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let lock = masters.red_lock("example:import").wait(Duration::from_secs(10));
    let imported = AtomicU32::new(0);

    let operator = async {
        while imported.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        let forced = lock.force_release().await?;
        println!("an operator takes the lock from {} holder", forced.former.len());
        Ok::<_, multilock::LockError>(())
    };
    let (first, forced) = tokio::join!(import(&lock, &imported), operator);
    forced?;
    match first {
        Err(RunError::Lost(loss)) => println!("the import was stopped ({:?})", loss.cause),
        ended => bail!("its lock was lost, and it ended with {ended:?}"),
    }
    let before = imported.load(Ordering::Relaxed);
    println!("{before} of {ROWS} rows are there, and it is not at work any more");
    sleep(Duration::from_millis(100)).await;
    ensure!(before < ROWS && imported.load(Ordering::Relaxed) == before);

    import(&lock, &imported).await?;
    println!("the next one has done the rest");
    ensure!(imported.load(Ordering::Relaxed) == ROWS);
    Ok(())
}

/// Imports the rows that are missing. Every row would go to the database together with the token.
async fn import(lock: &MultiLock, imported: &AtomicU32) -> Result<(), RunError<()>> {
    lock.run(async |guard| {
        println!("importing under token {}", guard.fencing_token());
        while imported.load(Ordering::Relaxed) < ROWS {
            sleep(Duration::from_millis(20)).await;
            imported.fetch_add(1, Ordering::Relaxed);
        }
    })
    .await
}
