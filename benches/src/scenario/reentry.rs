//! S11: an owner that enters again what it holds.

use std::time::Instant;

use anyhow::{Result, ensure};
use multilock::Owner;

use super::Bench;
use crate::client::{Settings, masters};
use crate::cluster::commands;
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::summary::Line;

const N: usize = 5;
const DEEP: usize = 10_000;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let masters = masters(&bench.cluster.urls(N), Settings::default()).connect().await?;
    let owner = Owner::new();
    let lock = masters.red_lock(fresh_name()).owner(&owner);
    let outer = lock.lock().await?;
    let (mut enter, mut leave, mut scripts) = (Vec::new(), Vec::new(), 0.0);
    for repeat in 0..=bench.form(5, 20) {
        let mut inner = Vec::with_capacity(DEEP);
        let before = commands(bench.cluster.observers(N)).await?;
        let begun = Instant::now();
        for _ in 0..DEEP {
            inner.push(lock.try_lock().await?);
        }
        let entered = begun.elapsed();
        ensure!(outer.hold_count() == DEEP as u64 + 1, "not entered again");
        let begun = Instant::now();
        for guard in inner {
            guard.unlock().await?;
        }
        let left = begun.elapsed();
        // The first one warms up.
        if repeat > 0 {
            enter.push(entered.as_nanos() as f64 / DEEP as f64);
            leave.push(left.as_nanos() as f64 / DEEP as f64);
            scripts += commands(bench.cluster.observers(N)).await?.since(&before).scripts();
        }
    }
    outer.unlock().await?;
    let line = Line::new("S11", N)
        .with("ours_enter_ns", median(enter))
        .with("ours_leave_ns", median(leave))
        .with("ours_commands", scripts);
    bench.summary.line(line);
    Ok(())
}
