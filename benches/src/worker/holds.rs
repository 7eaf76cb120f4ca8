//! Many holds at once: their memory, the cost of their renewals, and their effect on pairs beside them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use multilock::MultiLockGuard;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::client::{Settings, masters, take};
use crate::cluster::{commands, observers};
use crate::compare::Beside;
use crate::usage;

/// Pause after the last lock was taken or given back, for messages that are still under way.
const SETTLED: Duration = Duration::from_millis(300);

#[derive(Serialize, Deserialize)]
pub struct HoldsOrder {
    pub urls: Vec<String>,
    pub settings: Settings,
    pub holds: usize,
    /// Periods of renewal that are watched.
    pub periods: u32,
    /// For the pairs beside them.
    pub pairs: Duration,
    /// A server's process, to be frozen for a period.
    pub hang: Option<i32>,
}

/// Order for a process that only takes the holds.
#[derive(Serialize, Deserialize)]
pub struct MemoryOrder {
    pub urls: Vec<String>,
    pub settings: Settings,
    pub holds: usize,
}

#[derive(Serialize, Deserialize)]
pub struct HoldsReport {
    pub taken_s: f64,
    pub cpu_percent: f64,
    pub scripts_per_node_and_period: f64,
    /// How far the least validity that was ever left fell below two thirds of the lease, in
    /// milliseconds: while all is well, and with a server that hangs.
    pub late_ms: Option<[f64; 2]>,
    /// Pairs without the holds, and with them.
    pub pairs: [Beside; 2],
}

pub async fn run(order: HoldsOrder) -> Result<HoldsReport> {
    let lease = order.settings.lease;
    let period = lease / 3;
    let servers = observers(&order.urls).await?;
    let pool = masters(&order.urls, order.settings).connect().await?;
    let clients = Beside::connect(&order.urls, order.settings).await?;
    // The first locks set up everything that a process needs once, before the measurement.
    let named = |prefix: &'static str| {
        let pool = &pool;
        move |number| pool.red_lock(format!("{prefix}-{number:06}")).fenced(false)
    };
    drop(take(200, named("warm")).await?);
    let without = Beside::measure(&clients, order.pairs).await?;
    sleep(SETTLED).await;

    let begun = Instant::now();
    let guards = take(order.holds, named("held")).await?;
    let taken_s = begun.elapsed().as_secs_f64();
    sleep(SETTLED).await;
    let (cpu, calls) = (usage::cpu(), commands(&servers).await?);
    sleep(period * order.periods).await;
    let cpu = usage::cpu().saturating_sub(cpu);
    let scripts = commands(&servers).await?.since(&calls).scripts();
    let with = Beside::measure(&clients, order.pairs).await?;
    let late_ms = match order.hang {
        None => None,
        Some(pid) => {
            // A whole period and the time of a renewal, so that every hold is renewed.
            let watch = period.mul_f64(1.3);
            let well = latest(&guards, lease, watch).await?;
            let pid = Pid::from_raw(pid).context("a process")?;
            kill_process(pid, Signal::STOP)?;
            let hung = latest(&guards, lease, watch).await;
            kill_process(pid, Signal::CONT)?;
            Some([well, hung?])
        }
    };
    let periods = f64::from(order.periods);
    Ok(HoldsReport {
        taken_s,
        cpu_percent: cpu.as_secs_f64() / (period.as_secs_f64() * periods) * 100.0,
        scripts_per_node_and_period: scripts / periods,
        late_ms,
        pairs: [without, with],
    })
}

/// Resident bytes that a hold takes.
pub async fn memory(order: MemoryOrder) -> Result<f64> {
    let pool = masters(&order.urls, order.settings).connect().await?;
    let named = |prefix: &'static str| {
        let pool = &pool;
        move |number| pool.red_lock(format!("{prefix}-{number:06}")).fenced(false)
    };
    drop(take(200, named("warm")).await?);
    sleep(SETTLED).await;
    let before = usage::resident()?;
    let guards = take(order.holds, named("held")).await?;
    sleep(SETTLED).await;
    let bytes = (usage::resident()? - before) / guards.len() as f64;
    ensure!(
        guards.iter().all(MultiLockGuard::is_valid),
        "a hold was lost while its memory was read"
    );
    Ok(bytes)
}

/// Watches the holds for a time, and returns how far their least validity fell below the validity at which a renewal is
/// due, in milliseconds. Fails if a hold is lost.
async fn latest(guards: &[MultiLockGuard], lease: Duration, watch: Duration) -> Result<f64> {
    let mut lowest = lease;
    let begun = Instant::now();
    while begun.elapsed() < watch {
        for guard in guards {
            lowest = lowest.min(guard.validity());
        }
        ensure!(!lowest.is_zero(), "a hold was lost");
        sleep(Duration::from_millis(20)).await;
    }
    // A renewal is due when a third of the lease has gone by; the margin for drift was never validity.
    let drift = lease.mul_f64(0.01) + Duration::from_millis(2);
    let due = lease.mul_f64(2.0 / 3.0).saturating_sub(drift);
    Ok((due.as_secs_f64() - lowest.as_secs_f64()) * 1e3)
}
