//! S19: three locks on three sets of masters, a millisecond away each way: together as a set, and one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use multilock::{Masters, MultiLock};

use super::Bench;
use crate::client::{Settings, masters};
use crate::distance::Distance;
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::Line;

/// Each set of masters is one, as where a lock is put together of locks on three servers.
const N: usize = 3;
const EACH_WAY: Duration = Duration::from_millis(1);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let distance = Distance::to(&bench.cluster, N, EACH_WAY).await?;
    let mut pools: Vec<Masters> = Vec::new();
    for url in distance.urls() {
        pools.push(masters(&[url], Settings::default()).connect().await?);
    }
    let (mut alone, mut whole, mut in_turn) =
        (Durations::default(), Durations::default(), Durations::default());
    for pair in 0..bench.form(200, 1000) {
        let locks: Vec<MultiLock> = pools
            .iter()
            .map(|masters| masters.red_lock(fresh_name()))
            .collect();
        let first = locks.first().context("a pool")?.clone();
        let begun = Instant::now();
        first.lock().await?.unlock().await?;
        let once = begun.elapsed();
        let begun = Instant::now();
        MultiLock::all_of(locks.iter().cloned())
            .lock()
            .await?
            .unlock()
            .await?;
        let together = begun.elapsed();
        let begun = Instant::now();
        let mut guards = Vec::new();
        for lock in &locks {
            guards.push(lock.lock().await?);
        }
        for guard in guards {
            guard.unlock().await?;
        }
        // The first ones warm up.
        if pair >= 20 {
            alone.record(once);
            whole.record(together);
            in_turn.record(begun.elapsed());
        }
    }
    let mut line = Line::new("S19.p50", N)
        .with("ours_us", whole.at(0.5))
        .with("ours_one_us", alone.at(0.5))
        .with("ours_in_turn_us", in_turn.at(0.5))
        .with("ours_to_one", whole.at(0.5) / alone.at(0.5))
        .with("ours_in_turn_to_one", in_turn.at(0.5) / alone.at(0.5));
    for (key, value) in distance.told().await? {
        line = line.with(key, value);
    }
    bench.summary.line(line);
    Ok(())
}
