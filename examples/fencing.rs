//! The holder of a lock is paused, its lease ends, and another client does the job. How is a late write of
//! the first holder kept out? No lock can prevent it. The fencing token can: the resource rejects it.
//!
//! The resource is a table in SQLite. It keeps the largest token it has seen with each row, and a
//! write is a conditional update, as it would be in PostgreSQL:
//! `UPDATE … SET …, token = $1 WHERE id = $2 AND token <= $1`.
//!
//! ```text
//! make cluster-up && cargo run --example fencing
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example fencing`.

mod common;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use multilock::FencingToken;
use rusqlite::Connection;

const INVOICE: &str = "example:invoice:7";

#[tokio::main]
async fn main() -> Result<()> {
    let masters = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE invoice (id TEXT PRIMARY KEY, charged_by TEXT, token INTEGER NOT NULL DEFAULT 0);
         INSERT INTO invoice (id) VALUES ('example:invoice:7');",
    )?;
    let lock = masters
        .red_lock(INVOICE)
        .lease(Duration::from_secs(2))
        .wait(Duration::from_secs(10));

    let paused = lock.lock().await?;
    println!(
        "the first holder has token {} and is paused beyond its lease …",
        paused.fencing_token()
    );
    paused.lost().await;

    let second = lock.lock().await?;
    println!("the second holder has token {}", second.fencing_token());
    let written = charge(&database, "the second", second.fencing_token())?;
    println!("  its write is {}", if written { "accepted" } else { "rejected" });
    ensure!(written, "a newer token must be accepted");
    second.unlock().await?;

    println!("the first goes on, unaware");
    let written = charge(&database, "the first", paused.fencing_token())?;
    println!("  its write is {}", if written { "accepted" } else { "rejected" });
    ensure!(!written, "a stale token must be rejected");
    Ok(())
}

/// Charges the invoice, unless somebody with a larger token was here before.
fn charge(database: &Connection, who: &str, token: FencingToken) -> Result<bool> {
    let rows = database.execute(
        "UPDATE invoice SET charged_by = ?1, token = ?2 WHERE id = ?3 AND token <= ?2",
        (who, i64::try_from(token.get())?, INVOICE),
    )?;
    Ok(rows == 1)
}
