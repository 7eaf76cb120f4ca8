//! S11: an owner that enters its hold again.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use multilock::Owner;

use super::Bench;
use crate::client::{Settings, masters};
use crate::cluster::commands;
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::summary::Line;

const N: usize = 5;
const DEEP: usize = 100;
const ROUNDS: usize = 100;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let masters = masters(&bench.cluster.urls(N), Settings::default())
        .connect()
        .await?;
    let owner = Owner::new();
    let lock = masters.red_lock(fresh_name()).owner(&owner);
    let outer = lock.lock().await?;
    let (mut enter, mut leave, mut scripts) = (Vec::new(), Vec::new(), 0.0);
    let mut inner = Vec::with_capacity(DEEP);
    for repeat in 0..=bench.form(5, 20) {
        let (mut entering, mut leaving) = (Duration::ZERO, Duration::ZERO);
        let before = commands(bench.cluster.observers(N)).await?;
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            for _ in 0..DEEP {
                inner.push(lock.try_lock().await?);
            }
            entering += begun.elapsed();
            ensure!(outer.hold_count() == DEEP as u64 + 1, "not entered again");
            let begun = Instant::now();
            for guard in inner.drain(..) {
                guard.unlock().await?;
            }
            leaving += begun.elapsed();
        }
        // The first one warms up.
        if repeat > 0 {
            enter.push(entering.as_nanos() as f64 / (DEEP * ROUNDS) as f64);
            leave.push(leaving.as_nanos() as f64 / (DEEP * ROUNDS) as f64);
            scripts += commands(bench.cluster.observers(N))
                .await?
                .since(&before)
                .scripts();
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
