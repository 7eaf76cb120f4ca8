//! How do I lock several things together, on every master?
//!
//! A `multi_lock` needs all masters: safe even if every one but one forgets it, and not to be had
//! while one is down. Several names are taken together or not at all, in one round. Here two
//! transfers want the same two accounts in opposite order, which would be a deadlock with one lock
//! after the other.
//!
//! ```text
//! make cluster-up                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example multilock         # or on your own: MULTILOCK_NODES=url,url,url
//! ```

mod common;

use std::time::Duration;

use anyhow::Context;
use multilock::{LockError, Masters};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let masters = common::connect().await.context("connecting to the masters")?;
    tokio::try_join!(
        transfer(&masters, "account:ann", "account:bob", 30),
        transfer(&masters, "account:bob", "account:ann", 12),
    )?;
    Ok(())
}

async fn transfer(masters: &Masters, from: &str, to: &str, amount: u32) -> anyhow::Result<()> {
    let both = masters.multi_lock([from, to]);
    let guard = match both
        .lease(Duration::from_secs(10))
        .wait(Duration::from_secs(10))
        .lock()
        .await
    {
        Ok(guard) => guard,
        // `last` is the reason of the last refusal: another transfer, or a master that does not answer.
        Err(LockError::TimedOut { waited, last }) => match last.map(|last| *last) {
            Some(LockError::Unreachable { votes }) => {
                anyhow::bail!("a multi lock needs every master, but: {votes}")
            }
            _ => anyhow::bail!("the accounts were busy for {waited:?}"),
        },
        Err(error) => return Err(error).context("locking both accounts"),
    };
    guard.ensure_valid()?;
    println!(
        "{from} -> {to}: {amount}, under {} of {} masters",
        guard.votes().granted(),
        masters.len()
    );
    guard.unlock().await.context("releasing both accounts")?;
    Ok(())
}
