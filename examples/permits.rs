//! May a job run several times at once, but not too often: four workers for two GPUs, or a licence for five users?
//! A semaphore on one Redis goes with that Redis. Permits are granted by a quorum of masters. Each is a seat with a number,
//! which tells the GPU, the port or the shard that nobody else has.
//!
//! ```text
//! make cluster-up && cargo run --example permits
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example permits`.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use multilock::Masters;
use tokio::time::sleep;

const GPUS: u32 = 2;
const WORKERS: usize = 4;

#[tokio::main]
async fn main() -> Result<()> {
    let masters = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let busy: Vec<AtomicU32> = (0..=GPUS).map(|_| AtomicU32::new(0)).collect();
    let trained = try_join_all((1..=WORKERS).map(|worker| train(&masters, worker, &busy))).await?;
    ensure!(trained.len() == WORKERS, "{} have trained", trained.len());
    Ok(())
}

/// Trains a model on a GPU that nobody else uses meanwhile. Returns the GPU.
async fn train(masters: &Masters, worker: usize, busy: &[AtomicU32]) -> Result<u32> {
    let permit = masters.permits("example:gpu", GPUS);
    let gpu = permit
        .run(async |permit| {
            let gpu = permit.seat();
            println!(
                "worker {worker}: on GPU {gpu}, under token {}",
                permit.fencing_token()
            );
            let others = busy[gpu as usize].fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(300)).await;
            busy[gpu as usize].fetch_sub(1, Ordering::SeqCst);
            ensure!(others == 0, "GPU {gpu} is used by another worker");
            Ok(gpu)
        })
        .await??;
    println!("worker {worker}: done");
    Ok(gpu)
}
