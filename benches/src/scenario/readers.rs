//! S15: 64 tasks of one process read one name, beside 64 plain locks on 64 names. S16: the same readers, and once a second
//! a writer of another client, as another process has.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use multilock::{Masters, Mode, MultiLock};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::Bench;
use crate::client::{Settings, Who, masters};
use crate::cluster::{ping, servers_cpu};
use crate::pairs::{Segment, fresh_name};
use crate::stats::{Durations, median};
use crate::summary::Line;
use crate::usage;

const N: usize = 5;
const TASKS: usize = 64;
const WRITES_EVERY: Duration = Duration::from_secs(1);

/// Pairs and holds of the tasks in a while.
#[derive(Default)]
struct Taken {
    pairs: Segment,
    /// From the grant to the end of the release.
    held: Durations,
}

/// S15.
pub async fn beside_plain(bench: &mut Bench) -> Result<()> {
    let time = Duration::from_millis(bench.form(300, 800));
    let repeats = bench.form(5, 9);
    let pool = masters(&bench.cluster.urls(N), Settings::default())
        .connect()
        .await?;
    for (id, fenced) in [("S15", false), ("S15.fenced", true)] {
        let plain: Vec<MultiLock> = (0..TASKS)
            .map(|_| pool.red_lock(fresh_name()).fenced(fenced))
            .collect();
        let readers = readers(&pool, &fresh_name(), fenced);
        let (mut of_plain, mut of_readers) = (Vec::new(), Vec::new());
        // The first turn warms up.
        for _ in 0..=repeats {
            of_plain.push(measured(bench, &plain, time).await?);
            of_readers.push(measured(bench, &readers, time).await?);
        }
        let each = |of: &[Segment], figure: fn(&Segment) -> f64| median(of.iter().skip(1).map(figure));
        let both = |figure| (each(&of_readers, figure), each(&of_plain, figure));
        let turns = of_readers.iter().zip(&of_plain).skip(1);
        let ratio = turns.map(|(readers, plain)| readers.pairs_per_second() / plain.pairs_per_second());
        let (rate, plain_rate) = both(Segment::pairs_per_second);
        let (cpu, plain_cpu) = both(Segment::cpu_per_pair);
        let (servers, plain_servers) = both(Segment::servers_cpu_per_pair);
        let line = Line::new(id, N)
            .with("ours_pairs_s", rate)
            .with("ours_plain_pairs_s", plain_rate)
            .with("ratio_plain", median(ratio))
            .with("ours_cpu_us", cpu)
            .with("ours_plain_cpu_us", plain_cpu)
            .with("ours_servers_cpu_us", servers)
            .with("ours_plain_servers_cpu_us", plain_servers);
        bench.summary.line(line);
    }
    Ok(())
}

/// S16.
pub async fn beside_a_writer(bench: &mut Bench) -> Result<()> {
    let urls = bench.cluster.urls(N);
    let time = Duration::from_secs(bench.form(2, 5));
    let repeats = bench.form(2, 5);
    let pool = masters(&urls, Settings::default()).connect().await?;
    let other = masters(&urls, Settings::default()).connect().await?;
    let name = fresh_name();
    let readers = readers(&pool, &name, true);
    let writer = other.red_lock(&name).write();
    let (mut waits, mut held, mut pings) = (Durations::default(), Durations::default(), Durations::default());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for repeat in 0..=repeats {
        // The first turn warms up, and is shorter.
        let time = if repeat == 0 { WRITES_EVERY } else { time };
        let without = take(&readers, time).await?.pairs.pairs_per_second();
        let writing = tokio::spawn(write(writer.clone(), time, bench.cluster.observers(N).to_vec()));
        let taken = take(&readers, time).await?;
        let (its_waits, its_pings) = writing.await.context("the writer")??;
        if repeat > 0 {
            alone.push(without);
            beside.push(taken.pairs.pairs_per_second());
            waits.add(&its_waits)?;
            held.add(&taken.held)?;
            pings.add(&its_pings)?;
        }
    }
    bench.cluster.settle(N, Who::Ours).await?;
    let round_trip = pings.at(0.5);
    let bound = held.at(0.99) + 3.0 * round_trip;
    let ratio = beside.iter().zip(&alone).map(|(beside, alone)| beside / alone);
    let line = Line::new("S16", N)
        .with("ours_wait_p50_us", waits.at(0.5))
        .with("ours_wait_p99_us", waits.at(0.99))
        .with("ours_section_p50_us", held.at(0.5))
        .with("ours_section_p99_us", held.at(0.99))
        .with("round_trip_us", round_trip)
        .with("ours_wait_to_section_and_round_trips", waits.at(0.99) / bound)
        .with("ours_writes", waits.count() as f64)
        .with("ours_pairs_s", median(beside.iter().copied()))
        .with("ours_no_writer_pairs_s", median(alone.iter().copied()))
        .with("ratio_no_writer", median(ratio));
    bench.summary.line(line);
    Ok(())
}

fn readers(pool: &Masters, name: &str, fenced: bool) -> Vec<MultiLock<multilock::Shared>> {
    let reader = || pool.red_lock(name).fenced(fenced).read();
    (0..TASKS).map(|_| reader()).collect()
}

/// With the processor time of the masters.
async fn measured<M: Mode>(bench: &Bench, locks: &[MultiLock<M>], time: Duration) -> Result<Segment> {
    let servers = bench.cluster.observers(N);
    let before = servers_cpu(servers).await?;
    let mut pairs = take(locks, time).await?.pairs;
    pairs.servers_cpu = servers_cpu(servers).await?.saturating_sub(before);
    bench.cluster.settle(N, Who::Ours).await?;
    Ok(pairs)
}

/// A task for each lock, which takes it again and again.
async fn take<M: Mode>(locks: &[MultiLock<M>], time: Duration) -> Result<Taken> {
    let mut running = JoinSet::new();
    let (begun, cpu) = (Instant::now(), usage::cpu());
    for lock in locks {
        let lock = lock.clone();
        running.spawn(async move {
            let mut taken = Taken::default();
            let mut start = begun;
            while start - begun < time {
                let guard = lock.lock().await?;
                let granted = Instant::now();
                guard.unlock().await?;
                let now = Instant::now();
                taken.held.record(now - granted);
                taken.pairs.latency.record(now - start);
                start = now;
            }
            anyhow::Ok(taken)
        });
    }
    let mut all = Taken::default();
    while let Some(taken) = running.join_next().await {
        let taken = taken.context("a task")??;
        all.pairs.latency.add(&taken.pairs.latency)?;
        all.held.add(&taken.held)?;
    }
    all.pairs.wall = begun.elapsed();
    all.pairs.cpu = usage::cpu().saturating_sub(cpu);
    Ok(all)
}

/// How long the writer waited each time, and round trips to a majority beside the same readers.
async fn write(
    writer: MultiLock,
    time: Duration,
    servers: Vec<MultiplexedConnection>,
) -> Result<(Durations, Durations)> {
    let (mut waits, mut pings) = (Durations::default(), Durations::default());
    let begun = Instant::now();
    let mut every = interval(WRITES_EVERY);
    // Not at the moment at which all readers begin.
    sleep(WRITES_EVERY / 2).await;
    every.reset_immediately();
    while begun.elapsed() < time {
        every.tick().await;
        ping(&servers, N / 2 + 1, &mut pings).await?;
        let start = Instant::now();
        let guard = writer.lock().await?;
        waits.record(start.elapsed());
        guard.unlock().await?;
    }
    Ok((waits, pings))
}
