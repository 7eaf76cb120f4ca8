//! S17: cost of the release of a reader on a master, beside 10 and beside 5,000 other readers of the name.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use multilock::{Masters, MultiLock, MultiLockGuard, Shared};

use super::Bench;
use crate::client::{Settings, masters};
use crate::cluster::ScriptTime;
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::summary::Line;

const FEW: usize = 10;
const MANY: usize = 5_000;
/// Not renewed meanwhile: renewals are scripts, too.
const LEASE: Duration = Duration::from_secs(300);
/// A single script takes tens of microseconds, and the master counts whole ones.
const TOGETHER: usize = 20;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let settings = Settings {
        lease: LEASE,
        ..Settings::default()
    };
    let pool = masters(&bench.cluster.urls(1), settings).connect().await?;
    let beside = [Beside::new(&pool, FEW).await?, Beside::new(&pool, MANY).await?];
    let (mut few, mut many) = (Vec::new(), Vec::new());
    // The first turn warms up.
    for turn in 0..=bench.form(15, 40) {
        let (its_few, its_many) = (beside[0].releases(bench).await?, beside[1].releases(bench).await?);
        if turn > 0 {
            few.push(its_few);
            many.push(its_many);
        }
    }
    for Beside { guards, .. } in beside {
        ensure!(
            guards.iter().all(MultiLockGuard::is_valid),
            "a reader has lost its hold"
        );
        try_join_all(guards.into_iter().map(MultiLockGuard::unlock)).await?;
    }
    let ratio = many.iter().zip(&few).map(|(many, few)| many / few);
    let line = Line::new("S17", 1)
        .with("ours_us", median(many.iter().copied()))
        .with("ours_few_us", median(few.iter().copied()))
        .with("ratio_few", median(ratio));
    bench.summary.line(line);
    Ok(())
}

/// A name with readers that stay.
struct Beside {
    reader: MultiLock<Shared>,
    guards: Vec<MultiLockGuard<Shared>>,
}

impl Beside {
    async fn new(pool: &Masters, readers: usize) -> Result<Self> {
        let reader = pool.red_lock(fresh_name()).lease(LEASE).read();
        let mut guards = Vec::with_capacity(readers);
        while guards.len() < readers {
            let some = (guards.len()..readers).take(100);
            guards.extend(try_join_all(some.map(|_| reader.lock())).await?);
        }
        Ok(Self { reader, guards })
    }

    /// Microseconds of the master for a release of one more reader. Only this reader comes and goes.
    async fn releases(&self, bench: &Bench) -> Result<f64> {
        let master = &bench.cluster.observers(1)[0];
        let mut all = ScriptTime::default();
        for _ in 0..TOGETHER {
            let guard = self.reader.lock().await?;
            let before = ScriptTime::of(master).await?;
            guard.unlock().await?;
            all.add(&ScriptTime::of(master).await?.since(&before));
        }
        ensure!(
            (all.scripts - TOGETHER as f64).abs() < 0.5,
            "{} scripts instead",
            all.scripts
        );
        Ok(all.us / all.scripts)
    }
}
