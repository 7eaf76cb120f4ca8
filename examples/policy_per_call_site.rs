//! Which policy: a majority (`red_lock`) or every master (`multi_lock`)?
//!
//! Decide at each call site; both work over the same masters and exclude each other. Charging an
//! invoice goes on while a minority is down. Closing the ledger would rather not happen than happen
//! twice, and says which master it misses. Run it, stop a master, run it again:
//!
//! ```text
//! make cluster-up                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example policy_per_call_site       # or MULTILOCK_NODES=url,url,url
//! docker compose -p multilock stop redis3
//! cargo run --example policy_per_call_site
//! ```

mod common;

use std::time::Duration;

use anyhow::Context;
use multilock::{LockError, Masters, Policy, Vote};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let masters = common::connect().await.context("connecting to the masters")?;
    attempt(&masters, "charge invoice", Policy::RedLock).await?;
    attempt(&masters, "close ledger", Policy::MultiLock).await?;
    Ok(())
}

async fn attempt(masters: &Masters, job: &str, policy: Policy) -> anyhow::Result<()> {
    let needed = policy.needed(masters.len());
    print!("{job}: {policy}, {needed} of {} masters: ", masters.len());
    // `red_lock(..)` and `multi_lock(..)` are this with the policy filled in.
    let lock = masters.lock("books:2024", policy).lease(Duration::from_secs(10));
    match lock.try_lock().await {
        Ok(guard) => {
            guard.ensure_valid()?;
            println!("done");
            guard.unlock().await?;
        }
        Err(LockError::Contended { retry_after, .. }) => {
            println!("busy, try again within {retry_after:?}");
        }
        // A policy that cannot be met is never mistaken for a lock that is held.
        Err(LockError::Unreachable { votes }) => {
            println!("not possible now");
            for answer in votes.iter().filter(|answer| answer.vote != Vote::Granted) {
                println!("  {}: {}", answer.node, answer.vote);
            }
        }
        Err(error) => return Err(error).context(job.to_owned()),
    }
    Ok(())
}
