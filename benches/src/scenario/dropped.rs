//! S8: an acquisition that is dropped while it is under way: the keys that stay on the masters, and for how long.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use rand::RngExt;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Client, Settings, Who};
use crate::pairs::fresh_name;
use crate::spend::spin;
use crate::stats::Durations;
use crate::summary::{Better, Figure, Line};

const N: usize = 5;
const LEASE: Duration = Duration::from_secs(1);
const CLOSELY: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(5);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let tries = bench.form(10, 40);
    let settings = Settings {
        lease: LEASE,
        node_timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let (mut orphaned, mut left) = (Vec::new(), Vec::new());
    for who in Who::ALL {
        let client = Client::connect(who, &bench.cluster.urls(N), settings).await?;
        if client.blocks() {
            continue;
        }
        client.pair(&fresh_name()).await?;
        let servers = bench.cluster.observers(N);
        // The names are watched side by side, because a name that is left behind is watched until its lease has ended.
        let mut watched = Vec::new();
        for _ in 0..tries {
            let (name, patience) = (fresh_name(), rand::rng().random_range(0..300));
            // The acquisition is polled at least once. A lock that was granted meanwhile is given back.
            let granted = tokio::select! {
                biased;
                held = client.acquire(&name) => Some(held?),
                () = spin(Duration::from_micros(patience)) => None,
            };
            if let Some(held) = granted {
                client.release(held).await?;
                continue;
            }
            let (mut orphan, servers) = (Orphan::new(name), servers.to_vec());
            // First without pauses, for a resolution of microseconds; then with pauses, all names side by side.
            orphan.watch(&servers, CLOSELY, Duration::ZERO).await?;
            watched.push(tokio::spawn(async move {
                orphan.watch(&servers, LEASE / 10, PAUSE).await?;
                let keys = on(&servers, &orphan.name).await?;
                orphan.watch(&servers, LEASE * 2, PAUSE).await?;
                anyhow::Ok((orphan.last_seen, keys))
            }));
        }
        let seen = try_join_all(watched)
            .await?
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        ensure!(
            !seen.is_empty(),
            "{}: nothing was dropped on its way",
            who.label()
        );
        let mut times = Durations::default();
        for (time, _) in &seen {
            times.record(*time);
        }
        bench.summary.distribution("S8", who, &times);
        orphaned.push((who, Figure::Number(times.max())));
        let keys: f64 = seen.iter().map(|(_, keys)| keys).sum();
        left.push((who, Figure::Number(keys / seen.len() as f64)));
        if who.is_ours() && seen.iter().any(|(_, keys)| *keys > 0.0) {
            anyhow::bail!("keys were left behind by a dropped acquisition");
        }
        bench.cluster.wipe(N).await?;
    }
    let round_trip = round_trip(bench.cluster.observers(N)).await?;
    for (ours, id) in [(Who::Ours, "S8"), (Who::Fenced, "S8.fenced")] {
        let line = Line::new(format!("{id}.orphan"), N).compare("us", Better::Less, &orphaned, ours);
        let mine = line.number("ours_us").unwrap_or(f64::NAN);
        bench.summary.line(
            line.with("round_trip_us", round_trip)
                .with("ours_round_trips", mine / round_trip),
        );
        let line = Line::new(format!("{id}.keys_left"), N);
        bench
            .summary
            .line(line.compare("keys", Better::Less, &left, ours));
    }
    Ok(())
}

struct Orphan {
    name: String,
    begun: Instant,
    /// Since the drop.
    last_seen: Duration,
}

impl Orphan {
    fn new(name: String) -> Self {
        Self {
            name,
            begun: Instant::now(),
            last_seen: Duration::ZERO,
        }
    }

    /// Watches the name until a time after the drop. With pauses, it ends as soon as the name is gone.
    async fn watch(
        &mut self,
        servers: &[MultiplexedConnection],
        until: Duration,
        pause: Duration,
    ) -> Result<()> {
        while self.begun.elapsed() < until {
            let asked = self.begun.elapsed();
            if on(servers, &self.name).await? > 0.0 {
                self.last_seen = asked;
            } else if !pause.is_zero() {
                break;
            }
            sleep(pause).await;
        }
        Ok(())
    }
}

/// On how many masters the name is.
async fn on(servers: &[MultiplexedConnection], name: &str) -> Result<f64> {
    let answers = servers.iter().map(async |server| {
        let exists: u32 = redis::cmd("EXISTS")
            .arg(name)
            .query_async(&mut server.clone())
            .await?;
        anyhow::Ok(f64::from(exists))
    });
    Ok(try_join_all(answers).await?.into_iter().sum())
}

async fn round_trip(servers: &[MultiplexedConnection]) -> Result<f64> {
    let mut took = Durations::default();
    for _ in 0..200 {
        let begun = Instant::now();
        let pings = servers.iter().map(async |server| {
            let pong: String = redis::cmd("PING").query_async(&mut server.clone()).await?;
            anyhow::Ok(pong)
        });
        try_join_all(pings).await?;
        took.record(begun.elapsed());
    }
    Ok(took.at(0.5))
}
