//! S7 and S7w: time from the call of the release to the success of the waiter, in round trips of the same run;
//! beside the masters (S7), and 1 and 10 ms away from them (S7w).
//!
//! Holder and waiter have clients of their own, which share nothing, as in two processes. Both live in the bench's
//! process, so that one clock shows the times of the release and of the grant.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::RngExt;
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use super::Bench;
use crate::client::{Client, Settings, Who};
use crate::cluster::ping;
use crate::distance::Distance;
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::{Better, Figure, Line};

const N: usize = 5;
const LEASE: Duration = Duration::from_secs(2);

/// Masters over which two clients hand over to each other.
struct Place {
    urls: Vec<String>,
    observers: Vec<MultiplexedConnection>,
    /// A waiter is asleep after so long at least.
    asleep: Duration,
    /// Of ours; a peer has a tenth.
    turns: usize,
    /// Time limit of all turns of one contender, and of a single turn. A peer that forgets keys waits for their leases at
    /// every other turn, or for ever.
    at_most: Duration,
    told: Vec<(&'static str, f64)>,
}

/// Round trips, to one master and to a majority.
#[derive(Default)]
struct Pings {
    one: Durations,
    quorum: Durations,
}

/// S7.
pub async fn near(bench: &mut Bench) -> Result<()> {
    let place = Place {
        urls: bench.cluster.urls(N),
        observers: bench.cluster.observers(N).to_vec(),
        asleep: Duration::from_millis(8),
        turns: bench.form(60, 400),
        at_most: bench.form(Duration::from_secs(3), Duration::from_secs(10)),
        told: Vec::new(),
    };
    measure(bench, "S7", &place, true).await
}

/// S7w.
pub async fn far(bench: &mut Bench) -> Result<()> {
    for (ms, turns) in bench.form([(1, 60), (10, 20)], [(1, 400), (10, 100)]) {
        let distance = Distance::to(&bench.cluster, N, Duration::from_millis(ms)).await?;
        let place = Place {
            urls: distance.urls(),
            observers: distance.observers().to_vec(),
            // It asks, hears that it is held, stands in line; the pings take two more.
            asleep: Duration::from_millis(8) + distance.round_trip() * 3,
            turns,
            at_most: bench.form(Duration::from_secs(2), Duration::from_secs(10)),
            told: vec![("proxies_each_way_ms", ms as f64)],
        };
        let fenced = !bench.quick;
        measure(bench, &format!("S7w.{ms}ms"), &place, fenced).await?;
    }
    Ok(())
}

async fn measure(bench: &mut Bench, id: &str, place: &Place, fenced: bool) -> Result<()> {
    let (mut pings, mut took) = (Pings::default(), Vec::new());
    let who = Who::ALL.into_iter().filter(|who| *who != Who::Limit);
    for who in who.filter(|who| fenced || *who != Who::Fenced) {
        let settings = Settings {
            lease: if who.is_peer() {
                LEASE
            } else {
                Settings::default().lease
            },
            ..Settings::default()
        };
        let clients = [
            Client::connect(who, &place.urls, settings).await?,
            Client::connect(who, &place.urls, settings).await?,
        ];
        let durations = take_turns(place, &clients, &mut pings).await?;
        bench.summary.distribution(id, who, &durations);
        bench.cluster.wipe(N).await?;
        took.push((who, durations));
    }
    let round_trip = pings.quorum.at(0.5);
    let mut ours = vec![(Who::Ours, id.to_owned())];
    if fenced {
        let id = match id.split_once('.') {
            Some((scenario, point)) => format!("{scenario}.fenced.{point}"),
            None => format!("{id}.fenced"),
        };
        ours.push((Who::Fenced, id));
    }
    for (ours, id) in ours {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let figures: Vec<_> = took
                .iter()
                .map(|(who, durations)| (*who, Figure::Number(durations.at(quantile))))
                .collect();
            let line = Line::new(format!("{id}.{name}"), N).compare("us", Better::Less, &figures, ours);
            let mine = line.number("ours_us").context("ours")?;
            let mut line = line
                .with("round_trip_us", round_trip)
                .with("round_trip_of_one_node_us", pings.one.at(0.5))
                .with("ours_round_trips", mine / round_trip);
            for (key, value) in &place.told {
                line = line.with(*key, *value);
            }
            bench.summary.line(line);
        }
    }
    Ok(())
}

async fn take_turns(place: &Place, clients: &[Client; 2], pings: &mut Pings) -> Result<Durations> {
    let (who, name, mut took) = (clients[0].who, fresh_name(), Durations::default());
    let turns = if who.is_peer() {
        place.turns / 10
    } else {
        place.turns
    };
    let mut held = clients[0].acquire(&name).await?;
    let (mut last, begun) = (0, Instant::now());
    for turn in 1..=turns {
        if who.is_peer() && begun.elapsed() > place.at_most {
            break;
        }
        last = turn;
        let (client, holder, wanted) = (clients[turn % 2].clone(), &clients[(turn + 1) % 2], name.clone());
        let mut waiting = tokio::spawn(async move {
            let held = client.acquire(&wanted).await;
            (held, Instant::now())
        });
        // The waiter is asleep by then. If it polls, it is at any point of its pause.
        sleep(place.asleep + Duration::from_millis(rand::rng().random_range(0..8))).await;
        ping(&place.observers[..1], 1, &mut pings.one).await?;
        ping(&place.observers, N / 2 + 1, &mut pings.quorum).await?;
        let released = Instant::now();
        holder.release(held).await?;
        let (next, won) = match timeout(place.at_most, &mut waiting).await {
            Ok(done) => done?,
            Err(_) if who.is_peer() => {
                waiting.abort();
                took.record(place.at_most);
                return Ok(took);
            }
            Err(_) => bail!("{}: not handed over within {:?}", who.label(), place.at_most),
        };
        held = next?;
        took.record(won - released);
    }
    clients[last % 2].release(held).await?;
    Ok(took)
}
