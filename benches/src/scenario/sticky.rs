//! S21, S22, S22w: names that stay with a client after a sticky lock. S21 shows the saving where one client locks the same
//! names again and again. S22 shows the cost where two clients want the same name, beside the masters, and 5 ms away
//! from them (S22w).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use multilock::{Masters, MultiLock, Unlocked};
use tokio::task::JoinSet;

use super::Bench;
use crate::client::{Client, Settings, Who, masters};
use crate::distance::Distance;
use crate::pairs::{fresh_name, many_tasks, one_task};
use crate::stats::{Durations, median};
use crate::summary::Line;

const NEVER: Duration = Duration::from_secs(10);
/// Tasks with a name each.
const TASKS: usize = 64;
/// Of the contest over several names and the turns.
const N: usize = 5;
const AWAY: Duration = Duration::from_millis(5);

async fn connect(bench: &Bench, n: usize) -> Result<Masters> {
    let masters = masters(&bench.cluster.urls(n), Settings::default());
    Ok(masters.connect().await?)
}

/// S21 and S22.
pub async fn near(bench: &mut Bench) -> Result<()> {
    for n in bench.form(vec![1, 5], vec![1, 3, 5]) {
        // The masters of the last number are a set of their own.
        bench.cluster.wipe(N).await?;
        same(bench, n).await?;
    }
    names(bench).await?;
    turns(bench).await?;
    let repeats = bench.form(200, 1000);
    let line = tries("S22.try", &bench.cluster.urls(N), repeats).await?;
    bench.summary.line(line);
    Ok(())
}

/// S22w.
pub async fn far(bench: &mut Bench) -> Result<()> {
    let distance = Distance::to(&bench.cluster, N, AWAY).await?;
    let repeats = bench.form(20, 100);
    let mut line = tries("S22w.try", &distance.urls(), repeats).await?;
    for (key, value) in distance.told().await? {
        line = line.with(key, value);
    }
    bench.summary.line(line);
    Ok(())
}

/// One task, one name: a pair, beside a pair of the limit on names of its own.
async fn same(bench: &mut Bench, n: usize) -> Result<()> {
    let masters = connect(bench, n).await?;
    let limit = Client::connect(Who::Limit, &bench.cluster.urls(n), Settings::default()).await?;
    let time = Duration::from_millis(bench.form(150, 400));
    let (mut pairs, mut limits) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..bench.form(3, 5) {
        for (fenced, pairs) in [false, true].into_iter().zip(&mut pairs) {
            let lock = masters.red_lock(fresh_name()).fenced(fenced).sticky();
            pairs.push(again_and_again(lock, time).await?.at(0.5));
        }
        limits.push(one_task(&limit, time, NEVER).await?.latency.at(0.5));
    }
    let limit = median(limits);
    for (pairs, id) in pairs.into_iter().zip(["S21.same", "S21.same.fenced"]) {
        let ours = median(pairs);
        let line = Line::new(format!("{id}.n{n}"), n)
            .with("ours_us", ours)
            .with("limit_us", limit)
            .with("ratio_limit", ours / limit);
        bench.summary.line(line);
    }
    Ok(())
}

async fn again_and_again(lock: MultiLock, time: Duration) -> Result<Durations> {
    let pairs = tokio::spawn(async move {
        let mut latency = Durations::default();
        let (begun, mut start) = (Instant::now(), Instant::now());
        while start - begun < time {
            lock.lock().await?.unlock().await?;
            let now = Instant::now();
            latency.record(now - start);
            start = now;
        }
        anyhow::Ok(latency)
    });
    pairs.await?
}

/// Many tasks with a name each, beside as many on names that are never used again (S2).
async fn names(bench: &mut Bench) -> Result<()> {
    let urls = bench.cluster.urls(N);
    let (sticky, plain) = (
        connect(bench, N).await?,
        Client::connect(Who::Fenced, &urls, Settings::default()).await?,
    );
    let time = Duration::from_millis(bench.form(150, 400));
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..bench.form(3, 5) {
        let (begun, mut running, mut pairs) = (Instant::now(), JoinSet::new(), 0);
        for _ in 0..TASKS {
            let lock = sticky.red_lock(fresh_name()).sticky();
            running.spawn(again_and_again(lock, time));
        }
        while let Some(latency) = running.join_next().await {
            pairs += latency.context("a task")??.count();
        }
        ours.push(pairs as f64 / begun.elapsed().as_secs_f64());
        others.push(many_tasks(&plain, TASKS, time).await?.pairs_per_second());
    }
    let (ours, others) = (median(ours), median(others));
    let line = Line::new(format!("S21.names.tasks{TASKS}"), N)
        .with("ours_pairs_s", ours)
        .with("plain_pairs_s", others)
        .with("ratio_plain", ours / others);
    bench.summary.line(line);
    Ok(())
}

/// Two clients in strict turns on one name, sticky and not.
async fn turns(bench: &mut Bench) -> Result<()> {
    let clients = [connect(bench, N).await?, connect(bench, N).await?];
    let turns = bench.form(200, 600);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..bench.form(3, 5) {
        for (is_sticky, times) in [false, true].into_iter().zip(&mut times) {
            let name = fresh_name();
            let lock = |client: &Masters| {
                let lock = client.red_lock(&*name);
                if is_sticky { lock.sticky() } else { lock }
            };
            let locks: Vec<_> = clients.iter().map(lock).collect();
            let begun = Instant::now();
            for turn in 0..turns {
                locks[turn % 2].lock().await?.unlock().await?;
            }
            times.push(begun.elapsed().as_secs_f64() * 1e6 / turns as f64);
        }
    }
    let [off, on] = times.map(median);
    let line = Line::new("S22.turns", N)
        .with("ours_us", on)
        .with("off_us", off)
        .with("ratio_off", on / off);
    bench.summary.line(line);
    Ok(())
}

/// A try beside a name that stays with another client.
async fn tries(id: &str, urls: &[String], repeats: u32) -> Result<Line> {
    let connect = || masters(urls, Settings::default()).connect();
    let (keeps, tries) = (connect().await?, connect().await?);
    let limit = Client::connect(Who::Limit, urls, Settings::default()).await?;
    let (mut latency, mut won) = (Durations::default(), 0_u32);
    for _ in 0..repeats {
        let name = fresh_name();
        let guard = keeps.red_lock(&*name).sticky().lock().await?;
        ensure!(guard.unlock().await? == Unlocked::Stays, "it does not stay");
        let lock = tries.red_lock(&*name);
        let begun = Instant::now();
        if let Ok(guard) = lock.try_lock().await {
            latency.record(begun.elapsed());
            won += 1;
            guard.unlock().await?;
        }
    }
    let pair = one_task(&limit, Duration::from_millis(400), NEVER)
        .await?
        .latency
        .at(0.5);
    Ok(Line::new(id, N)
        .with("ours_success", f64::from(won) / f64::from(repeats))
        .with("ours_us", if won > 0 { latency.at(0.5) } else { 0.0 })
        // A pair is two round trips.
        .with(
            "ours_round_trips",
            if won > 0 {
                2.0 * latency.at(0.5) / pair
            } else {
                0.0
            },
        ))
}
