//! Pairs of acquire and release, one after the other or many at once, always on names never used before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Client;
use crate::stats::Durations;
use crate::usage;

static NAMES: AtomicU64 = AtomicU64::new(0);

/// A name that nobody has used, so that no straggler of an earlier pair can stand in its way.
pub fn fresh_name() -> String {
    format!("bench-{:08}", NAMES.fetch_add(1, Ordering::Relaxed))
}

/// Latencies and times of one run of pairs.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub latency: Durations,
    pub wall: Duration,
    /// Of this process.
    pub cpu: Duration,
    /// Of the servers, where somebody asked.
    pub servers_cpu: Duration,
    /// It hung or failed, and was given up.
    pub broken: Option<&'static str>,
}

impl Segment {
    pub fn pairs_per_second(&self) -> f64 {
        self.latency.count() as f64 / self.wall.as_secs_f64()
    }

    /// Microseconds of the servers' processor time a pair.
    pub fn servers_cpu_per_pair(&self) -> f64 {
        self.servers_cpu.as_secs_f64() * 1e6 / self.latency.count() as f64
    }

    /// Microseconds of processor time a pair.
    pub fn cpu_per_pair(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.latency.count() as f64
    }
}

/// One task for `time`. A pair that takes longer than `at_most` counts as a hang, so that a hang becomes a figure.
pub async fn one_task(client: &Client, time: Duration, at_most: Duration) -> Result<Segment> {
    let client = client.clone();
    // On a worker thread of the runtime, as a service's tasks are.
    tokio::spawn(async move {
        let mut segment = Segment::default();
        let (begun, cpu) = (Instant::now(), usage::cpu());
        while begun.elapsed() < time {
            let name = fresh_name();
            let start = Instant::now();
            match timeout(at_most, client.pair(&name)).await {
                Ok(Ok(())) => segment.latency.record(start.elapsed()),
                Ok(Err(error)) if client.who.is_peer() => {
                    drop(error);
                    segment.broken = Some("fails");
                    break;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) if client.who.is_peer() => {
                    segment.broken = Some("hangs");
                    break;
                }
                Err(_) => anyhow::bail!("{}: a pair took more than {at_most:?}", client.who.label()),
            }
        }
        segment.wall = begun.elapsed();
        segment.cpu = usage::cpu().saturating_sub(cpu);
        Ok(segment)
    })
    .await?
}

/// Many tasks at once for `time`.
pub async fn many_tasks(client: &Client, tasks: usize, time: Duration) -> Result<Segment> {
    let mut running = JoinSet::new();
    let (begun, cpu) = (Instant::now(), usage::cpu());
    for _ in 0..tasks {
        let client = client.clone();
        running.spawn(async move {
            let mut latency = Durations::default();
            let mut start = begun;
            while start - begun < time {
                client.pair(&fresh_name()).await?;
                let now = Instant::now();
                latency.record(now - start);
                start = now;
            }
            anyhow::Ok(latency)
        });
    }
    let mut segment = Segment::default();
    while let Some(latency) = running.join_next().await {
        segment.latency.add(&latency.context("a task")??)?;
    }
    segment.wall = begun.elapsed();
    segment.cpu = usage::cpu().saturating_sub(cpu);
    Ok(segment)
}
