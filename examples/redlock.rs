//! How do I make sure that a job is done by one process at a time, also while a master is down?
//!
//! A `red_lock` needs a majority of the masters. Two clerks want to charge the same invoice: one
//! charges it, the other is told that somebody is at it.
//!
//! ```text
//! make cluster-up                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example redlock           # or on your own: MULTILOCK_NODES=url,url,url
//! ```

mod common;

use std::time::Duration;

use anyhow::Context;
use multilock::{LockError, Masters};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let masters = common::connect().await.context("connecting to the masters")?;
    let (ann, bob) = tokio::join!(charge(&masters, "ann"), charge(&masters, "bob"));
    ann?;
    bob?;
    Ok(())
}

async fn charge(masters: &Masters, clerk: &str) -> anyhow::Result<()> {
    let lock = masters.red_lock("invoice:42").lease(Duration::from_secs(10));
    let guard = match lock.try_lock().await {
        Ok(guard) => guard,
        // Somebody else is at it, or two met half-way. Not an error: there is nothing left to do.
        Err(LockError::Contended { retry_after, .. }) => {
            println!("{clerk}: someone else is charging it, for {retry_after:?} at most");
            return Ok(());
        }
        // Nobody can tell whether it is held. This one is for the operators.
        Err(LockError::Unreachable { votes }) => {
            anyhow::bail!("{clerk}: no majority of the masters answers: {votes}")
        }
        Err(error) => return Err(error).context("charging invoice 42"),
    };

    let amount = look_up_amount().await;

    // The look-up may have taken longer than the lease. The last line before a step that cannot be undone:
    guard.ensure_valid()?;
    println!("{clerk}: charged {amount} with {:?} to spare", guard.validity());

    // Dropping the guard would release it too, but in the background and without a word.
    guard.unlock().await.context("releasing invoice 42")?;
    Ok(())
}

async fn look_up_amount() -> u32 {
    tokio::time::sleep(Duration::from_millis(20)).await;
    4_900
}
