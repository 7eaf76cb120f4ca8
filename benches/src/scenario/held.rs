//! S13 beside very many holds of this process, each with a task that waits for its loss.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use multilock::{Closing, Masters};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Settings, masters, take};
use crate::compare::Beside;
use crate::summary::Line;
use crate::usage;

const N: usize = 5;
const HOLDS: usize = 10_000;
/// Lease for which the cost of the timers is given.
const LEASE: Duration = Duration::from_secs(30);

/// Compares a pair beside `HOLDS` tasks that wait for the losses of their holds with a pair beside the same holds alone.
/// Measures also the processor time of the timers of these tasks.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let urls = bench.cluster.urls(N);
    // With a shorter lease, timers fire more often, in proportion.
    let lease = bench.form(Duration::from_secs(3), Duration::from_secs(6));
    let settings = Settings {
        lease,
        ..Settings::default()
    };
    let pool = masters(&urls, settings).connect().await?;
    let clients = Beside::connect(&urls, Settings::default()).await?;
    let time = bench.form(Duration::from_millis(200), Duration::from_secs(1));
    let guards = take(HOLDS, |number| {
        pool.red_lock(format!("kept-{number:06}")).fenced(false)
    })
    .await?;
    let alone = Beside::measure(&clients, time).await?;
    let alone_percent = cpu_percent(lease * 2).await;
    let mut waiting = JoinSet::new();
    for guard in guards {
        waiting.spawn(async move { guard.lost().await });
    }
    let beside = Beside::measure(&clients, time).await?;
    let beside_percent = cpu_percent(lease * 2).await;
    ensure!(waiting.try_join_next().is_none(), "a hold was lost");
    waiting.shutdown().await;
    end(bench, &pool).await?;
    let scale = LEASE.as_secs_f64() / lease.as_secs_f64();
    let line = Line::new(format!("S13.lost{HOLDS}"), N)
        .with("ours_us", beside.ours)
        .with("ours_none_waits_us", alone.ours)
        .with("limit_us", beside.limit)
        .with("limit_none_waits_us", alone.limit)
        .with("ratio_none_waits", beside.growth(&alone))
        .with("ours_cpu_percent", beside_percent / scale)
        .with("ours_none_waits_cpu_percent", alone_percent / scale)
        .with(
            "ours_timers_cpu_percent",
            (beside_percent - alone_percent) / scale,
        )
        .with("lease_s", lease.as_secs_f64());
    bench.summary.line(line);
    Ok(())
}

/// Share of one core that this process uses while no caller asks for a lock.
async fn cpu_percent(window: Duration) -> f64 {
    let (begun, before) = (Instant::now(), usage::cpu());
    sleep(window).await;
    let spent = usage::cpu().saturating_sub(before);
    spent.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0
}

async fn end(bench: &Bench, pool: &Masters) -> Result<()> {
    let closed = pool.close(Closing::Release).await;
    ensure!(closed.unconfirmed == 0, "{closed:?}");
    bench.cluster.wipe(N).await
}
