//! S23 and S23w: a pair of acquire and release of a permit beside one of a lock, and the part of the seats that is in use
//! while many wait; beside the masters (S23), and 5 ms away from them (S23w).

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use multilock::Masters;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Settings, masters};
use crate::cluster::commands;
use crate::distance::Distance;
use crate::pairs::fresh_name;
use crate::stats::median;
use crate::summary::Line;

/// Masters of the last case, which the next one wipes.
const N: usize = 5;
/// For how long a permit is held while others wait for it.
const HOLD: Duration = Duration::from_millis(10);
const CLIENTS: u32 = 4;
const AWAY: Duration = Duration::from_millis(5);

/// S23.
pub async fn near(bench: &mut Bench) -> Result<()> {
    for n in [3, N] {
        bench.cluster.wipe(N).await?;
        let clients = connect(&bench.cluster.urls(n)).await?;
        for permits in [4, 64] {
            beside_a_lock(bench, &clients[0], n, permits).await?;
        }
        let times = bench.form(20, 100);
        for permits in [1, 4, 8] {
            let line = in_use(bench, "S23", &clients, n, permits, times).await?;
            bench.summary.line(line);
        }
        bench.cluster.wipe(N).await?;
    }
    Ok(())
}

/// S23w.
pub async fn far(bench: &mut Bench) -> Result<()> {
    for n in [3, N] {
        bench.cluster.wipe(N).await?;
        let distance = Distance::to(&bench.cluster, n, AWAY).await?;
        let clients = connect(&distance.urls()).await?;
        let times = bench.form(10, 40);
        for permits in [1, 4, 8] {
            let mut line = in_use(bench, "S23w", &clients, n, permits, times).await?;
            for (key, value) in distance.told().await? {
                line = line.with(key, value);
            }
            bench.summary.line(line);
        }
        bench.cluster.wipe(N).await?;
    }
    Ok(())
}

async fn connect(urls: &[String]) -> Result<Vec<Masters>> {
    let connecting = (0..CLIENTS).map(|_| masters(urls, Settings::default()));
    Ok(try_join_all(connecting.map(multilock::MastersBuilder::connect)).await?)
}

/// One task, in turns with pairs of a lock.
async fn beside_a_lock(bench: &mut Bench, masters: &Masters, n: usize, permits: u32) -> Result<()> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let (permit, lock) = (
        masters.permits(fresh_name(), permits),
        masters.red_lock(fresh_name()),
    );
    for _ in 0..bench.form(300, 2000) {
        let begun = Instant::now();
        lock.lock().await?.unlock().await?;
        plain.push(begun.elapsed().as_secs_f64() * 1e6);
        let begun = Instant::now();
        permit.lock().await?.unlock().await?;
        ours.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let (ours, plain) = (median(ours), median(plain));
    let line = Line::new(format!("S23.pair.k{permits}.n{n}"), n)
        .with("ours_us", ours)
        .with("plain_us", plain)
        .with("ratio_plain", ours / plain);
    bench.summary.line(line);
    Ok(())
}

/// Three tasks for each seat, of several clients. At best a seat is idle for two round trips between two holders: one until
/// the next one is called, and one until it is let in. A pair without waiting takes as long as both.
async fn in_use(
    bench: &Bench,
    id: &str,
    clients: &[Masters],
    n: usize,
    permits: u32,
    times: u32,
) -> Result<Line> {
    let name = fresh_name();
    let lock = clients[0].red_lock(fresh_name());
    let mut pairs = Vec::new();
    for _ in 0..50 {
        // As long as the masters and the client do nothing below: then each answer takes longer.
        sleep(HOLD).await;
        let begun = Instant::now();
        lock.lock().await?.unlock().await?;
        pairs.push(begun.elapsed().as_secs_f64());
    }
    let pair = median(pairs);
    let before = commands(bench.cluster.observers(n)).await?;
    let begun = Instant::now();
    let working = (0..3 * permits).zip(clients.iter().cycle()).map(|(_, masters)| {
        let permit = masters.permits(name.clone(), permits);
        async move {
            let mut held = Duration::ZERO;
            for _ in 0..times {
                let guard = permit.lock().await?;
                let begun = Instant::now();
                sleep(HOLD).await;
                held += begun.elapsed();
                guard.unlock().await?;
            }
            anyhow::Ok(held)
        }
    });
    let held: Duration = try_join_all(working).await?.into_iter().sum();
    let took = begun.elapsed().as_secs_f64() * f64::from(permits);
    let ran = commands(bench.cluster.observers(n)).await?.since(&before);
    let (held, grants) = (held.as_secs_f64(), f64::from(3 * permits * times));
    let best = held + grants * pair;
    Ok(Line::new(format!("{id}.use.k{permits}.n{n}"), n)
        .with("of_best", best / took)
        .with("in_use", held / took)
        .with("pair_us", pair * 1e6)
        // Scripts of each grant: its release, the questions for it, and withdrawals.
        .with("scripts", ran.scripts() / grants))
}
