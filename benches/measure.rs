//! What does waiting, handing over and renewing cost? Prints figures for the masters in `MULTILOCK_NODES`,
//! which should have nothing else to do: commands are counted by the servers.
//!
//! ```text
//! MULTILOCK_NODES=url,url,url cargo bench --bench measure
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::{join_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use hdrhistogram::Histogram;
use multilock::{Masters, MultiLock, MultiLockGuard};
use redis::aio::MultiplexedConnection;
use tokio::sync::Barrier;
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    let nodes = std::env::var("MULTILOCK_NODES").context("MULTILOCK_NODES")?;
    let mut servers = Vec::new();
    for url in nodes.split(',') {
        let client = redis::Client::open(url.trim())?;
        servers.push(client.get_multiplexed_async_connection().await?);
    }
    waiting(&mut servers).await?;
    hand_off(&servers).await?;
    for contenders in [2, 4, 8, 16] {
        race(contenders).await?;
    }
    holding(&mut servers, 10_000).await
}

/// Commands a node has run: calls of scripts, and everything that clients or scripts did.
async fn commands(servers: &mut [MultiplexedConnection]) -> Result<(f64, f64)> {
    let (mut scripts, mut all) = (0.0, 0.0);
    for server in &mut *servers {
        let info: String = redis::cmd("INFO").arg("commandstats").query_async(server).await?;
        for (name, rest) in info.lines().filter_map(|line| line.split_once(":calls=")) {
            let calls: f64 = rest.split(',').next().unwrap_or_default().parse()?;
            scripts += if name == "cmdstat_evalsha" { calls } else { 0.0 };
            all += if name == "cmdstat_info" { 0.0 } else { calls };
        }
    }
    let nodes = f64::from(u32::try_from(servers.len())?);
    Ok((scripts / nodes, all / nodes))
}

/// A hundred tasks in four clients wait ten seconds for one name.
async fn waiting(servers: &mut [MultiplexedConnection]) -> Result<()> {
    let holder = Masters::from_env().await?;
    let guard = holder.red_lock("measure").lease(LEASE).try_lock().await?;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = Masters::from_env().await?;
        tasks.extend((0..25).map(|_| {
            let lock = client.red_lock("measure");
            tokio::spawn(async move { lock.lock().await.map(drop) })
        }));
    }
    sleep(Duration::from_millis(500)).await;
    let before = commands(servers).await?;
    sleep(Duration::from_secs(10)).await;
    let after = commands(servers).await?;
    let (scripts, all) = ((after.0 - before.0) / 10.0, (after.1 - before.1) / 10.0);
    println!("waiting: {scripts:.2} evalsha/s a node, {all:.2} commands/s with what scripts run");
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    guard.unlock().await?;
    Ok(())
}

/// The time until so many servers have answered a PING.
async fn ping(servers: &[MultiplexedConnection], needed: usize) -> Result<Duration> {
    let begun = Instant::now();
    let mut answers: FuturesUnordered<_> = servers
        .iter()
        .cloned()
        .map(|mut server| async move { server.send_packed_command(&redis::cmd("PING")).await })
        .collect();
    for _ in 0..needed {
        answers.next().await.context("an answer")??;
    }
    Ok(begun.elapsed())
}

/// A quantile in microseconds.
fn at(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    Duration::from_nanos(histogram.value_at_quantile(quantile)).as_secs_f64() * 1e6
}

/// Two clients take turns, and the one that waits is asleep when the other releases.
async fn hand_off(servers: &[MultiplexedConnection]) -> Result<()> {
    let clients = [Masters::from_env().await?, Masters::from_env().await?];
    let (mut took, mut one, mut quorum) = (
        Histogram::<u64>::new(3)?,
        Histogram::<u64>::new(3)?,
        Histogram::<u64>::new(3)?,
    );
    let mut guard: MultiLockGuard = clients[0].red_lock("measure").lock().await?;
    for turn in 1..=600 {
        let lock = clients[turn % 2].red_lock("measure");
        let waiting = tokio::spawn(async move { lock.lock().await.map(|guard| (guard, Instant::now())) });
        sleep(Duration::from_millis(8)).await;
        one.record(u64::try_from(ping(&servers[..1], 1).await?.as_nanos())?)?;
        quorum.record(u64::try_from(
            ping(servers, servers.len() / 2 + 1).await?.as_nanos(),
        )?)?;
        let released = Instant::now();
        guard.unlock().await?;
        let won;
        (guard, won) = waiting.await??;
        took.record(u64::try_from((won - released).as_nanos())?)?;
    }
    guard.unlock().await?;
    let (p50, p99) = (at(&took, 0.5), at(&took, 0.99));
    for (what, pings) in [("one node", one), ("a quorum", quorum)] {
        let unit = at(&pings, 0.5);
        let (low, high) = (p50 / unit, p99 / unit);
        println!(
            "hand-off: p50 {p50:.0} µs, p99 {p99:.0} µs; {low:.2} and {high:.2} PINGs of {what} ({unit:.0} µs)"
        );
    }
    Ok(())
}

/// Contenders that start together on a free name.
async fn race(contenders: usize) -> Result<()> {
    let clients = try_join_all((0..contenders).map(|_| Masters::from_env())).await?;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for round in 0..30 {
        let start = Arc::new(Barrier::new(contenders));
        let tasks = clients.iter().map(|client| {
            let (lock, start) = (client.red_lock(format!("race-{round}")), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                let begun = Instant::now();
                let guard = lock.lock().await?;
                let won = Instant::now();
                guard.unlock().await?;
                Ok::<_, anyhow::Error>((begun, won))
            })
        });
        let mut times = Vec::new();
        for outcome in join_all(tasks).await {
            times.push(outcome??);
        }
        let begun = times
            .iter()
            .map(|(begun, _)| *begun)
            .min()
            .context("contenders")?;
        let won = || times.iter().map(|(_, won)| *won - begun);
        first.extend(won().min());
        last.extend(won().max());
    }
    for times in [&mut first, &mut last] {
        times.sort_unstable();
    }
    let (middle, worst) = (first.len() / 2, first.len() - 1);
    println!(
        "{contenders} contenders, median and worst of {}: the first after {:.1?}, {:.1?}; the last after {:.1?}, {:.1?}",
        first.len(),
        first[middle],
        first[worst],
        last[middle],
        last[worst],
    );
    Ok(())
}

/// Resident bytes, and processor time used, of this process.
fn usage() -> Result<(f64, f64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS")?;
    let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse()?;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    // The 14th and 15th of all, in hundredths of a second.
    Ok((
        kilobytes * 1024.0,
        (fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0,
    ))
}

/// Many holds, renewed for two periods.
async fn holding(servers: &mut [MultiplexedConnection], holds: u32) -> Result<()> {
    let masters = Masters::from_env().await?;
    let take = async |names: std::ops::Range<u32>| -> Result<Vec<MultiLockGuard>> {
        let mut guards = Vec::with_capacity(names.len());
        for start in names.clone().step_by(50) {
            let some = start..names.end.min(start + 50);
            let locks: Vec<_> = some
                .map(|number| masters.red_lock(format!("held-{number:05}")))
                .collect();
            guards.extend(try_join_all(locks.iter().map(MultiLock::try_lock)).await?);
        }
        Ok(guards)
    };
    // What a process needs once is there before it is counted.
    drop(take(0..200).await?);
    sleep(Duration::from_millis(500)).await;
    let before = usage()?;
    let guards = take(0..holds).await?;
    sleep(Duration::from_secs(1)).await;
    let taken = usage()?;
    let calls = commands(servers).await?;
    sleep(LEASE * 2 / 3).await;
    let (renewed, after) = (usage()?, commands(servers).await?);
    anyhow::ensure!(
        guards.iter().all(|guard| guard.validity() > LEASE / 2),
        "not renewed"
    );
    let per_hold = |bytes: f64| (bytes - before.0) / f64::from(holds);
    println!(
        "{holds} holds: {:.0} bytes a hold, {:.0} after renewals; {:.2} % of a core; {:.0} evalsha a node and period",
        per_hold(taken.0),
        per_hold(renewed.0),
        (renewed.1 - taken.1) / 20.0 * 100.0,
        (after.0 - calls.0) / 2.0,
    );
    Ok(())
}
