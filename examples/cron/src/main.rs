//! One host. Start it on several:
//!
//! ```text
//! make cluster-up
//! export MULTILOCK_NODES=redis://127.0.0.1:7401,redis://127.0.0.1:7402,redis://127.0.0.1:7403,redis://127.0.0.1:7404,redis://127.0.0.1:7405
//! cargo run -p multilock-cron-example
//! ```

use std::time::Duration;

use anyhow::Result;
use multilock::{Closing, Masters};
use multilock_cron_example::every_second;

#[tokio::main]
async fn main() -> Result<()> {
    let masters = Masters::from_env().await?;
    let mut scheduler = every_second(&masters, async |_second| Ok(())).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    scheduler.shutdown().await?;
    masters.close(Closing::Release).await;
    Ok(())
}
