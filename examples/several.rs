//! How does a job take two locks that are kept by different masters, without waiting for ever for a job that takes them
//! in the other order?
//!
//! A set of locks takes both at once or none, and holds none while it waits. Ten transfers go to and fro between two
//! accounts, each at a bank with masters of its own.
//!
//! ```text
//! make cluster-up && cargo run --example several
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example several`.

mod common;

use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use multilock::MultiLock;

#[tokio::main]
async fn main() -> Result<()> {
    // Two banks would have masters of their own.
    let bank = common::connect()
        .await
        .context("no majority of the masters; try `make cluster-up`")?;
    let accounts = [AtomicI64::new(100), AtomicI64::new(100)];
    let lock = |account: usize| bank.red_lock(format!("example:account:{account}"));
    let transfers = (0..10).map(|n| {
        let (from, to) = (n % 2, (n + 1) % 2);
        transfer(&accounts, [from, to], [lock(from), lock(to)])
    });
    try_join_all(transfers).await?;
    let [one, other] = accounts.map(AtomicI64::into_inner);
    println!("in the end: {one} and {other}");
    ensure!(one + other == 200, "money was lost or made");
    Ok(())
}

/// Moves ten from one account to another.
async fn transfer(accounts: &[AtomicI64; 2], [from, to]: [usize; 2], locks: [MultiLock; 2]) -> Result<()> {
    let both = MultiLock::all_of(locks).lock().await?;
    let balance = accounts[from].load(Ordering::Relaxed);
    tokio::task::yield_now().await;
    both.ensure_valid()?;
    // With a database behind it, each account's write would carry its own token.
    println!("10 from {from} to {to}, under tokens {:?}", both.fencing_tokens());
    accounts[from].store(balance - 10, Ordering::Relaxed);
    accounts[to].fetch_add(10, Ordering::Relaxed);
    both.unlock().await?;
    Ok(())
}
