//! Contenders in turn, again and again, so that other load on the machine meets all alike.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::client::{Client, Settings, Who};
use crate::pairs::{Segment, one_task};
use crate::stats::{Durations, median};
use crate::summary::Figure;

/// One contender and its runs; the first one, in which caches and pools fill, is not among them.
pub struct Runs {
    pub who: Who,
    pub segments: Vec<Segment>,
}

impl Runs {
    /// The median over the runs, or the word of a broken run.
    pub fn figure(&self, of: impl Fn(&Segment) -> f64) -> Figure {
        if let Some(word) = self.segments.iter().find_map(|segment| segment.broken) {
            return Figure::Word(word.to_owned());
        }
        Figure::Number(median(self.segments.iter().map(of)))
    }

    pub fn all(&self) -> Result<Durations> {
        let mut all = Durations::default();
        for segment in &self.segments {
            all.add(&segment.latency)?;
        }
        Ok(all)
    }
}

pub fn figures(runs: &[Runs], of: impl Fn(&Segment) -> f64 + Copy) -> Vec<(Who, Figure)> {
    runs.iter().map(|runs| (runs.who, runs.figure(of))).collect()
}

pub async fn connect_all(who: &[Who], urls: &[String], settings: Settings) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for who in who {
        let client = Client::connect(*who, urls, settings).await;
        clients.push(client.with_context(|| format!("connecting {}", who.label()))?);
    }
    Ok(clients)
}

/// Microseconds of a pair, and of processor time for it, under a condition of the scenario. The limit is measured beside it,
/// so that other load on the machine cancels out in their ratio.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Beside {
    pub ours: f64,
    pub ours_cpu: f64,
    pub limit: f64,
}

impl Beside {
    /// Clients for it.
    pub async fn connect(urls: &[String], settings: Settings) -> Result<Vec<Client>> {
        connect_all(&[Who::Ours, Who::Limit], urls, settings).await
    }

    pub async fn measure(clients: &[Client], time: Duration) -> Result<Self> {
        const REPEATS: usize = 5;
        const NEVER: Duration = Duration::from_secs(10);
        let turn = time / REPEATS as u32;
        let runs = interleaved(clients, REPEATS, turn, async |client, time| {
            one_task(client, time, NEVER).await
        })
        .await?;
        let of = |place: usize, figure: fn(&Segment) -> f64| median(runs[place].segments.iter().map(figure));
        Ok(Self {
            ours: of(0, |segment| segment.latency.at(0.5)),
            ours_cpu: of(0, Segment::cpu_per_pair),
            limit: of(1, |segment| segment.latency.at(0.5)),
        })
    }

    /// Ratio of a pair's time now to its time before, divided by the same ratio of the limit.
    pub fn growth(&self, before: &Self) -> f64 {
        (self.ours / before.ours) / (self.limit / before.limit)
    }
}

/// Lets every client run in turn: once to warm up, then `repeats` times.
pub async fn interleaved(
    clients: &[Client],
    repeats: usize,
    time: Duration,
    run: impl AsyncFn(&Client, Duration) -> Result<Segment>,
) -> Result<Vec<Runs>> {
    let mut runs: Vec<Runs> = clients
        .iter()
        .map(|client| Runs {
            who: client.who,
            segments: Vec::new(),
        })
        .collect();
    let mut last = Vec::new();
    for client in clients {
        last.push(run(client, time / 4).await?);
    }
    for _ in 0..repeats {
        for ((client, runs), last) in clients.iter().zip(&mut runs).zip(&mut last) {
            // A client that hung once would hang again.
            if last.broken.is_none() {
                *last = run(client, time).await?;
            }
            runs.segments.push(last.clone());
        }
    }
    Ok(runs)
}
