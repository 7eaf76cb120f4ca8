//! S7: from the call of the release to the success of the one who waited, in round trips of the same run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::stream::{FuturesUnordered, StreamExt};
use rand::RngExt;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::Bench;
use crate::client::{Client, Settings, Who};
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::{Better, Figure, Line};

const N: usize = 5;
/// For one contender; a peer that forgets keys waits for their leases at every other turn.
const AT_MOST: Duration = Duration::from_secs(10);
const LEASE: Duration = Duration::from_secs(2);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let turns = bench.form(60, 400);
    let urls = bench.cluster.urls(N);
    let (mut one, mut quorum) = (Durations::default(), Durations::default());
    let mut took = Vec::new();
    for who in Who::ALL.into_iter().filter(|who| *who != Who::Limit) {
        let turns = if who.is_peer() { turns / 10 } else { turns };
        let settings = Settings {
            lease: if who.is_peer() {
                LEASE
            } else {
                Settings::default().lease
            },
            ..Settings::default()
        };
        let clients = [
            Client::connect(who, &urls, settings).await?,
            Client::connect(who, &urls, settings).await?,
        ];
        let durations = take_turns(bench, &clients, turns, (&mut one, &mut quorum)).await?;
        bench.summary.distribution("S7", who, &durations);
        bench.cluster.wipe(N).await?;
        took.push((who, durations));
    }
    let round_trip = quorum.at(0.5);
    for (ours, id) in [(Who::Ours, "S7"), (Who::Fenced, "S7.fenced")] {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let figures: Vec<_> = took
                .iter()
                .map(|(who, durations)| (*who, Figure::Number(durations.at(quantile))))
                .collect();
            let line = Line::new(format!("{id}.{name}"), N).compare("us", Better::Less, &figures, ours);
            let mine = line.number("ours_us").context("ours")?;
            bench.summary.line(
                line.with("round_trip_us", round_trip)
                    .with("round_trip_of_one_node_us", one.at(0.5))
                    .with("ours_round_trips", mine / round_trip),
            );
        }
    }
    Ok(())
}

async fn take_turns(
    bench: &Bench,
    clients: &[Client; 2],
    turns: usize,
    (one, quorum): (&mut Durations, &mut Durations),
) -> Result<Durations> {
    let servers = bench.cluster.observers(N);
    let (who, name, mut took) = (clients[0].who, fresh_name(), Durations::default());
    let mut held = clients[0].acquire(&name).await?;
    let (mut last, begun) = (0, Instant::now());
    for turn in 1..=turns {
        if who.is_peer() && begun.elapsed() > AT_MOST {
            break;
        }
        last = turn;
        let (client, holder, wanted) = (clients[turn % 2].clone(), &clients[(turn + 1) % 2], name.clone());
        let waiting = tokio::spawn(async move {
            let held = client.acquire(&wanted).await;
            (held, Instant::now())
        });
        // The one who waits is asleep by then, at any point of its pause if it asks again and again.
        let pause = rand::rng().random_range(8..16);
        sleep(Duration::from_millis(pause)).await;
        ping(&servers[..1], 1, one).await?;
        ping(servers, N / 2 + 1, quorum).await?;
        let released = Instant::now();
        holder.release(held).await?;
        let (next, won) = waiting.await?;
        held = next?;
        took.record(won - released);
    }
    clients[last % 2].release(held).await?;
    Ok(took)
}

/// The time until so many servers have answered a PING.
async fn ping(servers: &[MultiplexedConnection], needed: usize, into: &mut Durations) -> Result<()> {
    let begun = Instant::now();
    let mut answers: FuturesUnordered<_> = servers
        .iter()
        .cloned()
        .map(|mut server| async move { server.send_packed_command(&redis::cmd("PING")).await })
        .collect();
    for _ in 0..needed {
        answers.next().await.context("an answer")??;
    }
    into.record(begun.elapsed());
    Ok(())
}
