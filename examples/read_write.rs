//! How do many tasks read a catalogue at once, while a writer rewrites it now and then, and no task sees half of it?
//!
//! A read lock lets other readers in, a write lock nobody. Waiters are served in order of arrival, so readers that keep
//! coming do not keep the writer out. When the writer has written, it downgrades its hold. It goes on to read its own
//! text, and no other writer comes in between.
//!
//! ```text
//! make cluster-up && cargo run --example read_write
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example read_write`.

mod common;

use std::sync::RwLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use multilock::MultiLock;
use tokio::time::sleep;

/// Prices of two articles, which are always equal.
type Catalogue = RwLock<[u32; 2]>;

#[tokio::main]
async fn main() -> Result<()> {
    let masters = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let lock = masters
        .red_lock("example:catalogue")
        .wait(Duration::from_secs(10));
    let catalogue = Catalogue::new([10, 10]);
    let readers = (1..=4).map(|reader| read(&catalogue, &lock, reader));
    tokio::try_join!(try_join_all(readers), rewrite(&catalogue, &lock))?;
    Ok(())
}

async fn read(catalogue: &Catalogue, lock: &MultiLock, reader: u32) -> Result<()> {
    for _ in 0..3 {
        let reading = lock.clone().read().lock().await?;
        look(catalogue, &format!("reader {reader}"))?;
        sleep(Duration::from_millis(20)).await;
        reading.unlock().await?;
    }
    Ok(())
}

async fn rewrite(catalogue: &Catalogue, lock: &MultiLock) -> Result<()> {
    let writing = lock.clone().write().lock().await?;
    for article in 0..2 {
        // A database would get the token of the hold with each of these writes.
        writing.ensure_valid()?;
        catalogue.write().expect("nobody has panicked")[article] = 12;
        sleep(Duration::from_millis(20)).await;
    }
    println!(
        "the writer has raised all prices, under token {}",
        writing.fencing_token()
    );
    let reading = writing.downgrade().await;
    let [price, _] = look(catalogue, "the writer")?;
    ensure!(price == 12, "another writer came in between");
    reading.unlock().await?;
    Ok(())
}

fn look(catalogue: &Catalogue, who: &str) -> Result<[u32; 2]> {
    let prices = *catalogue.read().expect("nobody has panicked");
    println!("{who} reads {prices:?}");
    ensure!(prices[0] == prices[1], "half of the prices are old");
    Ok(prices)
}
