//! S24: a job that is done once, beside a pair of acquire and release of the same kind of lock.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use multilock::{Masters, Once};

use super::Bench;
use crate::client::{Settings, masters};
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::summary::Line;

/// Of the marks that a run leaves: they are gone soon after it.
const KEEP: Duration = Duration::from_secs(60);
/// Masters of the last case, which the next one wipes.
const N: usize = 5;

pub async fn run(bench: &mut Bench) -> Result<()> {
    for n in [3, N] {
        bench.cluster.wipe(N).await?;
        let masters = masters(&bench.cluster.urls(n), Settings::default());
        let masters = masters.connect().await?;
        beside_a_pair(bench, &masters, n).await?;
        bench.cluster.wipe(N).await?;
    }
    Ok(())
}

/// One task on names that are never used again, in turns with plain pairs; and the same job again, which is done.
async fn beside_a_pair(bench: &mut Bench, masters: &Masters, n: usize) -> Result<()> {
    let (mut ours, mut plain, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.form(300, 2000) {
        let begun = Instant::now();
        let guard = masters.red_lock(fresh_name()).lock().await?;
        guard.unlock().await?;
        plain.push(begun.elapsed().as_secs_f64() * 1e6);
        let job = masters.red_lock(fresh_name()).once(KEEP);
        let begun = Instant::now();
        let ran = job.run(async |_guard| anyhow::Ok(())).await?;
        ours.push(begun.elapsed().as_secs_f64() * 1e6);
        ensure!(ran == Once::Ran(()), "{ran:?}");
        let begun = Instant::now();
        let again = job.run(async |_guard| anyhow::Ok(())).await?;
        done.push(begun.elapsed().as_secs_f64() * 1e6);
        ensure!(matches!(again, Once::Done { .. }), "{again:?}");
    }
    let (ours, plain) = (median(ours), median(plain));
    let line = Line::new(format!("S24.once.n{n}"), n)
        .with("ours_us", ours)
        .with("plain_us", plain)
        .with("ratio_plain", ours / plain)
        .with("done_us", median(done));
    bench.summary.line(line);
    Ok(())
}
