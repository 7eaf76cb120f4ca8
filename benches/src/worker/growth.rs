//! Very many pairs in one process: does its memory grow with the names it has ever used?

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::client::{Client, Settings, Who};
use crate::pairs::many_tasks;
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
    let begun = Instant::now();
    let first = many_tasks(&client, TASKS, order.time / 10).await?.latency.count();
    let (before, mut between) = (usage::resident()?, 0);
    while begun.elapsed() < order.time {
        between += many_tasks(&client, TASKS, order.time / 10).await?.latency.count();
    }
    let resident = [before, usage::resident()?];
    // The last releases are still on their way to the masters that were not waited for.
    sleep(Duration::from_millis(300)).await;
    Ok(GrowthReport {
        pairs: first + between,
        resident,
        between,
    })
}
