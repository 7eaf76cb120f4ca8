//! How does a consumer lock the same key for message after message, without asking the masters each time?
//!
//! Each message is handled under the lock of its key. With `sticky` a key stays with this process when a message is done,
//! until another process wants it. So of up to 64 messages for a key only the first one asks the masters. Here the same
//! messages are handled with and without it, and then another host wants one of the keys.
//!
//! ```text
//! make cluster-up && cargo run --release --example sticky
//! ```
//! or `MULTILOCK_NODES=redis://a:6379,redis://b:6379,… cargo run --example sticky`.

mod common;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use multilock::{Closing, Masters, Unlocked};
use tokio::time::timeout;

const KEYS: usize = 10;
const MESSAGES: u32 = 2_000;

#[tokio::main]
async fn main() -> Result<()> {
    let connected = common::connect().await;
    let masters = connected.context("no majority of the masters; try `make cluster-up`")?;

    let plain = consume(&masters, "plain", false).await?;
    let sticky = consume(&masters, "sticky", true).await?;
    println!("{MESSAGES} messages for {KEYS} keys: {plain:.1?}, and {sticky:.1?} with sticky locks");
    println!("saved: {:.1?} a message", plain.saturating_sub(sticky) / MESSAGES);

    // The keys are idle here. Another host waits for one of them, and this client gives that one up at once.
    let other = common::connect().await?;
    let wanted = other.red_lock("example:sticky:0");
    let guard = timeout(Duration::from_secs(5), wanted.lock()).await??;
    println!("another host has a key, and {} stay", masters.status().idle);
    guard.unlock().await?;
    other.close(Closing::Release).await;

    // Without this the other keys would stay locked until their leases end.
    masters.close(Closing::Release).await;
    println!("closed, and every key is free");
    Ok(())
}

/// Handles all messages, each under the lock of its key, and returns the time that took.
async fn consume(masters: &Masters, topic: &str, is_sticky: bool) -> Result<Duration> {
    let lock = |key: usize| {
        let lock = masters.red_lock(format!("example:{topic}:{key}"));
        if is_sticky { lock.sticky() } else { lock }
    };
    let locks: Vec<_> = (0..KEYS).map(lock).collect();
    let (begun, mut last) = (Instant::now(), vec![0; KEYS]);
    let turns = (0..KEYS).cycle();
    for (_, key) in (0..MESSAGES).zip(turns) {
        let guard = locks[key].lock().await?;
        // The handler would write to the database with this token.
        let token = guard.fencing_token().get();
        ensure!(token > last[key], "tokens rise");
        last[key] = token;
        let unlocked = guard.unlock().await?;
        ensure!(is_sticky || unlocked == Unlocked::Released);
    }
    Ok(begun.elapsed())
}
