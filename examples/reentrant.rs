//! How does a function take a lock that its caller may hold already?
//!
//! Make one `Owner` for the actor (a request, a job) and pass it down. The same owner enters again at
//! once, without asking the masters. A caller without it is kept out, also in this process.
//!
//! ```text
//! make cluster-up                       # redis://127.0.0.1:7401 … 7405, as in docker-compose.yml
//! cargo run --example reentrant         # or on your own: MULTILOCK_NODES=url,url,url
//! ```

mod common;

use std::time::Duration;

use anyhow::{Context, ensure};
use multilock::{LockError, Masters, Owner, Unlocked};

const LEASE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let masters = common::connect().await.context("connecting to the masters")?;
    let me = Owner::new();

    let guard = masters
        .red_lock("invoice:42")
        .lease(LEASE)
        .owner(&me)
        .try_lock()
        .await?;
    println!("locked, count {}", guard.hold_count());
    ensure!(guard.hold_count() == 1, "a first entry counts one");

    add_line(&masters, &me, "postage").await?;

    println!("back in the caller, count {}", guard.hold_count());
    ensure!(
        guard.hold_count() == 1 && guard.is_valid(),
        "the outer hold is whole"
    );

    // Another owner is somebody else, wherever it runs.
    let other = masters.red_lock("invoice:42").lease(LEASE).try_lock().await;
    ensure!(
        matches!(other, Err(LockError::Contended { .. })),
        "kept out: {other:?}"
    );

    let left = guard.unlock().await?;
    println!("unlocked: {left:?}");
    ensure!(left == Unlocked::Released, "the last one to leave releases");
    Ok(())
}

/// Safe to call alone and from a caller that has the invoice locked.
async fn add_line(masters: &Masters, me: &Owner, line: &str) -> anyhow::Result<()> {
    let lock = masters.red_lock("invoice:42").lease(LEASE).owner(me);
    let guard = lock.lock().await?;
    println!("  entered again, count {}", guard.hold_count());
    ensure!(guard.hold_count() == 2, "the caller and this function");
    println!("  added {line}");

    let left = guard.unlock().await?;
    println!("  unlocked: {left:?}");
    ensure!(left == Unlocked::StillHeld(1), "the caller still holds it");
    Ok(())
}
