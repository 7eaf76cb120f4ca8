//! Parts of the bench that run in processes of their own: contenders, and measurements of memory.

mod contend;
mod growth;
mod holds;

use std::io::{Write, stdout};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};

pub use contend::{Between, ContendOrder, ContendReport};
pub use growth::{GrowthOrder, GrowthReport};
pub use holds::{HoldsOrder, HoldsReport, MemoryOrder};

#[derive(Serialize, Deserialize)]
pub enum Order {
    Contend(ContendOrder),
    Holds(HoldsOrder),
    Memory(MemoryOrder),
    Growth(GrowthOrder),
}

pub async fn run(order: &str) -> Result<()> {
    let report = match serde_json::from_str(order).context("an order")? {
        Order::Contend(order) => serde_json::to_string(&contend::run(order).await?)?,
        Order::Holds(order) => serde_json::to_string(&holds::run(order).await?)?,
        Order::Memory(order) => serde_json::to_string(&holds::memory(order).await?)?,
        Order::Growth(order) => serde_json::to_string(&growth::run(order).await?)?,
    };
    say(&report)
}

fn say(line: &str) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Prints that it is ready, and waits for the line to begin.
async fn ready() -> Result<()> {
    say("ready")?;
    let word = BufReader::new(tokio::io::stdin()).lines().next_line().await?;
    word.map(drop).context("the bench is gone")
}
