//! Very many pairs in one process: does its memory grow with the names it has ever used?

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, Settings, Who};
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::usage;

const TASKS: usize = 64;
const SAMPLES: usize = 5;

#[derive(Serialize, Deserialize)]
pub struct GrowthOrder {
    pub urls: Vec<String>,
    pub time: Duration,
}

#[derive(Serialize, Deserialize)]
pub struct GrowthReport {
    pub pairs: u64,
    /// Resident bytes in the second tenth of the time, and in the last one.
    pub resident: [f64; 2],
    /// Pairs between the two.
    pub between: u64,
}

pub async fn run(order: GrowthOrder) -> Result<GrowthReport> {
    let client = Client::connect(Who::Ours, &order.urls, Settings::default()).await?;
    let tenth = order.time / 10;
    let mut done = pairs(&client, tenth).await?;
    let before = resident(&client, tenth, &mut done).await?;
    done += pairs(&client, tenth * 7).await?;
    let after = resident(&client, tenth, &mut done).await?;
    // The last releases are still on their way to the masters that were not waited for.
    sleep(Duration::from_millis(300)).await;
    Ok(GrowthReport {
        pairs: done,
        resident: [before.0, after.0],
        between: after.1 - before.1,
    })
}

/// Median of several samples of the memory, with pairs between them, and the number of pairs made at the middle sample. A
/// single sample would depend on the pairs under way at its moment.
async fn resident(client: &Client, time: Duration, done: &mut u64) -> Result<(f64, u64)> {
    let (mut samples, mut at) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        *done += pairs(client, time / SAMPLES as u32).await?;
        samples.push(usage::resident()?);
        at.push(*done);
    }
    Ok((median(samples), at[SAMPLES / 2]))
}

/// Only the number of pairs is recorded, because records take memory.
async fn pairs(client: &Client, time: Duration) -> Result<u64> {
    let (mut tasks, begun) = (JoinSet::new(), Instant::now());
    for _ in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut pairs = 0;
            while begun.elapsed() < time {
                client.pair(&fresh_name()).await?;
                pairs += 1;
            }
            anyhow::Ok(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(one) = tasks.join_next().await {
        pairs += one??;
    }
    Ok(pairs)
}
