//! Very many pairs in one process: does its memory grow with the names it has ever used?

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{Client, Settings, Who};
use crate::pairs::fresh_name;
use crate::usage;

const TASKS: usize = 64;

#[derive(Serialize, Deserialize)]
pub struct GrowthOrder {
    pub urls: Vec<String>,
    pub time: Duration,
}

#[derive(Serialize, Deserialize)]
pub struct GrowthReport {
    pub pairs: u64,
    /// Resident bytes after the first tenth of the time, and at the end.
    pub resident: [f64; 2],
    /// Pairs between the two.
    pub between: u64,
}

pub async fn run(order: GrowthOrder) -> Result<GrowthReport> {
    let client = Client::connect(Who::Ours, &order.urls, Settings::default()).await?;
    let first = pairs(&client, order.time / 10).await?;
    let before = usage::resident()?;
    let between = pairs(&client, order.time * 9 / 10).await?;
    let resident = [before, usage::resident()?];
    // The last releases are still on their way to the masters that were not waited for.
    sleep(Duration::from_millis(300)).await;
    Ok(GrowthReport {
        pairs: first + between,
        resident,
        between,
    })
}

/// Nothing is recorded but their number: what is recorded takes memory.
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
