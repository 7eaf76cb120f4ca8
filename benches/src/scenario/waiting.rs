//! S10: a thousand waiters while nothing happens, on one name and on a thousand; S13 by the number of
//! waiters.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Settings, Who, masters};
use crate::cluster::{commands, connections};
use crate::compare::Beside;
use crate::pairs::fresh_name;
use crate::summary::Line;

const N: usize = 5;
/// A waiter asks the masters at most so often while nothing happens.
const FALLBACK: Duration = Duration::from_secs(5);
/// Longer than anybody waits here, and not renewed.
const LEASE: Duration = Duration::from_secs(120);

pub async fn run(bench: &mut Bench) -> Result<()> {
    for (waiters, names) in bench.form(vec![(1_000, 1_000)], vec![(1, 1), (1_000, 1), (1_000, 1_000)]) {
        wait(bench, waiters, names).await?;
    }
    Ok(())
}

async fn wait(bench: &mut Bench, waiters: usize, names: usize) -> Result<()> {
    let urls = bench.cluster.urls(N);
    let builder = masters(&urls, Settings::default());
    let holder = builder.clone().connect().await?;
    let names: Vec<String> = (0..names).map(|_| fresh_name()).collect();
    let guards = try_join_all(names.iter().map(async |name| {
        holder
            .red_lock(name.as_str())
            .fenced(false)
            .lease(LEASE)
            .lock()
            .await
    }))
    .await?;
    let clients = Beside::connect(&urls, Settings::default()).await?;
    let pairs = bench.form(Duration::from_millis(150), Duration::from_secs(1));
    let alone = Beside::measure(&clients, pairs).await?;

    let servers = bench.cluster.observers(N);
    let connected = connections(servers).await?;
    let pool = builder.connect().await?;
    let mut waiting = JoinSet::new();
    for number in 0..waiters {
        let lock = pool.red_lock(names[number % names.len()].as_str()).fenced(false);
        waiting.spawn(async move { lock.lock().await });
    }
    sleep(Duration::from_secs(1)).await;
    let joined = connections(servers).await?;
    let window = bench.form(FALLBACK, FALLBACK * 2);
    let before = commands(servers).await?;
    sleep(window).await;
    let ran = commands(servers).await?.since(&before);
    let beside = Beside::measure(&clients, pairs).await?;
    ensure!(
        waiting.try_join_next().is_none(),
        "a waiter came to an end while the name was held"
    );
    waiting.shutdown().await;
    for guard in guards {
        guard.unlock().await?;
    }
    bench.cluster.settle(N, Who::Ours).await?;

    let most = joined
        .iter()
        .zip(&connected)
        .map(|(now, before)| now - before)
        .max();
    let seconds = window.as_secs_f64();
    let asked = ran.scripts() / seconds;
    let id = format!("{waiters}on{}", names.len());
    let line = Line::new(format!("S10.{id}"), N)
        .with("ours_scripts_s_per_node", asked)
        .with("ours_commands_s_per_node", ran.all() / seconds)
        .with(
            "ours_scripts_per_name_and_fallback",
            asked / names.len() as f64 * FALLBACK.as_secs_f64(),
        )
        .with("ours_connections_per_node", most.context("nodes")? as f64)
        .with("window_s", seconds);
    bench.summary.line(line);
    let line = Line::new(format!("S13.waiters{id}"), N)
        .with("ours_us", beside.ours)
        .with("ours_none_waits_us", alone.ours)
        .with("limit_us", beside.limit)
        .with("limit_none_waits_us", alone.limit)
        .with("ratio_none_waits", beside.growth(&alone));
    bench.summary.line(line);
    Ok(())
}
