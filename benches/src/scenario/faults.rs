//! S3 to S5: masters killed, frozen or slow, each beside its own healthy figure.
//!
//! Healthy and faulty masters are two clusters that are asked in turn, so that both figures of a
//! contender are taken under the same conditions.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use multilock::LockError;

use super::Bench;
use crate::client::{Client, Settings, Who, masters};
use crate::cluster::Cluster;
use crate::compare::{Runs, connect_all, interleaved};
use crate::pairs::{fresh_name, one_task};
use crate::stats::Durations;
use crate::summary::{Better, Figure, Line};
use crate::support::{Direction, Proxy};

const N: usize = 5;
const SLOW: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    Frozen,
    Slow,
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    for (fault, id) in [
        (Fault::Killed, "S3.killed"),
        (Fault::Frozen, "S4.frozen"),
        (Fault::Slow, "S5.slow"),
    ] {
        for (masters, count) in bench.form(vec![(1, "one")], vec![(1, "one"), (2, "two")]) {
            measure(bench, fault, masters, &format!("{id}.{count}")).await?;
        }
    }
    Ok(())
}

/// Default node timeout, for the policy that needs every master.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

async fn measure(bench: &mut Bench, fault: Fault, broken: usize, id: &str) -> Result<()> {
    let (repeats, time, at_most) = bench.form((2, 60, 1_200), (3, 120, 2_000));
    let at_most = Duration::from_millis(at_most);
    let cluster = Cluster::start(N).await?;
    let mut urls = cluster.urls(N);
    let mut proxies = Vec::new();
    if matches!(fault, Fault::Slow) {
        for (url, server) in urls.iter_mut().zip(&cluster.servers).skip(N - broken) {
            let proxy = Proxy::start(server.port()).await;
            *url = proxy.url();
            proxies.push(proxy);
        }
    }
    // Everybody is connected while all is well.
    let healthy = connect_all(&Who::ALL, &bench.cluster.urls(N), Settings::default()).await?;
    let faulty = connect_all(&Who::ALL, &urls, Settings::default()).await?;
    for client in &faulty {
        one_task(client, Duration::from_millis(20), at_most).await?;
    }
    let multi = masters(&urls, Settings::default())
        .node_timeout(NODE_TIMEOUT)
        .connect()
        .await?;
    for server in cluster.servers.iter().skip(N - broken) {
        match fault {
            Fault::Killed => server.kill().await,
            Fault::Frozen => server.freeze().await,
            Fault::Slow => {}
        }
    }
    for proxy in &proxies {
        proxy.set_delay(Direction::ToServer, SLOW);
    }
    let pairs: Vec<Client> = healthy
        .into_iter()
        .zip(faulty)
        .flat_map(|(a, b)| [a, b])
        .collect();
    let runs = interleaved(
        &pairs,
        repeats,
        Duration::from_millis(time),
        async |client, time| one_task(client, time, at_most).await,
    )
    .await?;
    let (healthy, faulty): (Vec<_>, Vec<_>) = runs.chunks(2).map(|both| (&both[0], &both[1])).unzip();
    for (ours, id) in [
        (Who::Ours, id.to_owned()),
        (Who::Fenced, id.replacen('.', ".fenced.", 1)),
    ] {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let well = of(&healthy, quantile)?;
            let figures = of(&faulty, quantile)?;
            let mut line = Line::new(format!("{id}.{name}"), N);
            line = line.compare("us", Better::Less, &figures, ours);
            for ((who, now), (_, before)) in figures.iter().zip(&well) {
                if let (Figure::Number(now), Figure::Number(before)) = (now, before)
                    && (!who.is_ours() || *who == ours)
                {
                    line = line.with(format!("{}_to_healthy", who.prefix()), now / before);
                }
            }
            bench.summary.line(line);
        }
    }
    decide(bench, &multi, fault, id).await
}

/// Quantile over all runs: the rare slow pair after a fault must not vanish in a median.
fn of(runs: &[&Runs], quantile: f64) -> Result<Vec<(Who, Figure)>> {
    runs.iter()
        .map(|runs| {
            let broken = runs.segments.iter().find_map(|segment| segment.broken);
            let all = runs.all()?;
            Ok((
                runs.who,
                broken.map_or_else(
                    || Figure::Number(all.at(quantile)),
                    |word| Figure::Word(word.to_owned()),
                ),
            ))
        })
        .collect()
}

/// Measures the time until the policy that needs every master decides.
async fn decide(bench: &mut Bench, masters: &multilock::Masters, fault: Fault, id: &str) -> Result<()> {
    let mut took = Durations::default();
    for _ in 0..bench.form(20, 40) {
        let lock = masters.multi_lock(fresh_name());
        let begun = Instant::now();
        let outcome = lock.try_lock().await;
        took.record(begun.elapsed());
        match (fault, outcome) {
            // Whether a slow master is waited for or set aside, the answer is in time.
            (_, Err(LockError::Unreachable { .. })) => {}
            // Its release may come too late for the deadline on a busy machine.
            (Fault::Slow, Ok(guard)) => drop(guard.unlock().await),
            (_, Ok(_)) => bail!("granted without a master"),
            (_, Err(error)) => return Err(error.into()),
        }
    }
    let line = Line::new(id.replacen('.', ".multilock.", 1), N)
        .with("ours_decided_p50_us", took.at(0.5))
        .with("ours_decided_max_us", took.max())
        .with("node_timeout_us", NODE_TIMEOUT.as_secs_f64() * 1e6)
        .with(
            "ratio_node_timeout",
            took.max() / (NODE_TIMEOUT.as_secs_f64() * 1e6),
        );
    bench.summary.line(line);
    Ok(())
}
