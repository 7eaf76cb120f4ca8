//! S14: memory of a master for names that were locked once, more than two minutes later by the masters' own clocks.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt};
use multilock::Masters;
use redis::FromRedisValue;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Settings, masters};
use crate::stats::median;
use crate::summary::Line;
use crate::support::{Server, clock};

const N: usize = 3;
const CONCURRENT: usize = 256;
/// A server expires keys in its own time, a part of them ten times a second.
const EXPIRED_WITHIN: Duration = Duration::from_secs(60);
const SAMPLES: usize = 5;
const BETWEEN: Duration = Duration::from_millis(50);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let names = bench.form(20_000, 200_000);
    let variables = clock::env()?;
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut servers = Vec::new();
    for _ in 0..N {
        let server = Server::start_with_env(&["--appendonly", "no", "--save", ""], &variables).await;
        clock::set(&server, 0)?;
        servers.push(server);
    }
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let masters = masters(&urls, Settings::default()).connect().await?;
    pair(&masters, "the first").await?;
    let before = (size(&servers[0]).await?, dataset(&servers[0]).await?);
    let pairs = stream::iter(0..names).map(|n| {
        let masters = masters.clone();
        async move { pair(&masters, &format!("order:{n}")).await }
    });
    let pairs: Vec<Result<()>> = pairs.buffer_unordered(CONCURRENT).collect().await;
    pairs.into_iter().collect::<Result<()>>()?;
    let used = dataset(&servers[0]).await? - before.1;
    for server in &servers {
        clock::set(server, 3 * 60)?;
    }
    let begun = Instant::now();
    while size(&servers[0]).await? >= before.0 {
        ensure!(begun.elapsed() < EXPIRED_WITHIN, "fences are left");
        sleep(Duration::from_millis(50)).await;
    }
    let left = dataset(&servers[0]).await? - before.1;
    let names = f64::from(names);
    let each = |bytes: f64| bytes / names;
    bench.summary.line(
        Line::new("S14".to_owned(), N)
            .with("ours_names", names)
            .with("ours_bytes_a_name_in_use", each(used))
            .with("ours_bytes_a_name_left", each(left.max(0.0))),
    );
    Ok(())
}

async fn pair(masters: &Masters, name: &str) -> Result<()> {
    masters.red_lock(name).lock().await?.unlock().await?;
    Ok(())
}

async fn ask<T: FromRedisValue>(server: &Server, command: &[&str]) -> Result<T> {
    let answer = server.try_command(command).await?;
    redis::from_redis_value(answer).context("an unexpected answer")
}

async fn size(server: &Server) -> Result<i64> {
    ask(server, &["DBSIZE"]).await
}

/// Bytes of the keys and their values: the median of several answers, since buffers come and go.
async fn dataset(server: &Server) -> Result<f64> {
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        let info: String = ask(server, &["INFO", "memory"]).await?;
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory_dataset:"));
        let used = used.context("the server tells what its data take")?;
        samples.push(used.trim().parse()?);
        sleep(BETWEEN).await;
    }
    Ok(median(samples))
}
