//! S9: many holds and the cost of their renewals; S13 by the number of held locks. Each number of holds has
//! a process of its own, with fresh memory.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Bench;
use crate::client::Settings;
use crate::crew::Worker;
use crate::stats::median;
use crate::summary::Line;
use crate::worker::{HoldsOrder, HoldsReport, MemoryOrder, Order};

const N: usize = 5;
/// Lease for which the figures are given.
const LEASE: Duration = Duration::from_secs(30);
/// Number of holds with which the last server is frozen meanwhile.
const HUNG_AT: usize = 10_000;
const REPORT_WITHIN: Duration = Duration::from_secs(150);

pub async fn run(bench: &mut Bench) -> Result<()> {
    // With a shorter lease, renewals come more often, in proportion.
    let lease = bench.form(Duration::from_secs(3), LEASE);
    let scale = LEASE.as_secs_f64() / lease.as_secs_f64();
    for holds in bench.form(vec![1_000, 10_000], vec![1_000, 10_000, 100_000]) {
        let settings = Settings {
            lease,
            ..Settings::default()
        };
        let bytes_per_hold = bytes_per_hold(bench, settings, holds).await?;
        let server = &bench.cluster.servers[N - 1];
        let pid = server.pid().context("a running server")?;
        let order = Order::Holds(HoldsOrder {
            urls: bench.cluster.urls(N),
            settings,
            holds,
            periods: 1,
            pairs: bench.form(Duration::from_millis(200), Duration::from_secs(1)),
            hang: (holds == HUNG_AT).then_some(i32::try_from(pid)?),
        });
        let mut worker = Worker::start(&order)?;
        let report: HoldsReport = serde_json::from_str(&worker.line_within(REPORT_WITHIN).await?)?;
        drop(worker);
        server.thaw().await;
        bench.cluster.wipe(N).await?;
        let line = Line::new(format!("S9.holds{holds}"), N)
            .with("ours_cpu_percent", report.cpu_percent / scale)
            .with("ours_bytes_per_hold", bytes_per_hold)
            .with(
                "ours_scripts_per_node_and_tick",
                report.scripts_per_node_and_period,
            )
            .with("ours_taken_s", report.taken_s)
            .with("lease_s", lease.as_secs_f64());
        bench.summary.line(line);
        for (id, late) in ["S9.late", "S9.hung"].iter().zip(report.late_ms.iter().flatten()) {
            let tick = lease.as_secs_f64() * 1e3 / 3.0;
            let line = Line::new(format!("{id}.holds{holds}"), N)
                .with("ours_late_ms", *late)
                .with("ours_late_ticks", late / tick);
            bench.summary.line(line);
        }
        let [without, with] = report.pairs;
        let line = Line::new(format!("S13.held{holds}"), N)
            .with("ours_us", with.ours)
            .with("ours_none_held_us", without.ours)
            .with("ours_cpu_us", with.ours_cpu)
            .with("ours_none_held_cpu_us", without.ours_cpu)
            .with("limit_us", with.limit)
            .with("limit_none_held_us", without.limit)
            .with("ratio_none_held", with.growth(&without));
        bench.summary.line(line);
    }
    Ok(())
}

/// Bytes of a hold, as the median of several processes that do nothing else. Two such processes differ in the memory that
/// their allocators keep.
async fn bytes_per_hold(bench: &Bench, settings: Settings, holds: usize) -> Result<f64> {
    let mut samples = Vec::new();
    for _ in 0..bench.form(3, 5) {
        let order = Order::Memory(MemoryOrder {
            urls: bench.cluster.urls(N),
            settings,
            holds,
        });
        let mut worker = Worker::start(&order)?;
        let bytes: f64 = serde_json::from_str(&worker.line_within(REPORT_WITHIN).await?)?;
        drop(worker);
        bench.cluster.wipe(N).await?;
        samples.push(bytes);
    }
    Ok(median(samples))
}
