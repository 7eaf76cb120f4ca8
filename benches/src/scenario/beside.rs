//! S6b: four tasks of ours and four of another library's want one name, with sections of a millisecond. Theirs are
//! stand-ins that send and wait as the originals do, and answer as late as these.

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::Policy;

use super::Bench;
use crate::client::{Settings, masters};
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::Line;
use crate::support::contest::{Contest, Side, Tally};
use crate::support::foreign::rlock::Pace;
use crate::support::foreign::{Lock, multi_lock, node_redlock, redsync, rlock};

const N: usize = 5;

/// Stand-in of another library, beside four tasks of ours.
struct Beside {
    id: &'static str,
    n: usize,
    ours: Policy,
}

impl Beside {
    const fn of(id: &'static str, n: usize, ours: Policy) -> Self {
        Self { id, n, ours }
    }
}

pub async fn run(bench: &mut Bench) -> Result<()> {
    let one = Beside::of("rlock", 1, Policy::RedLock);
    let redisson = async |urls: &[String]| rlock::Client::connect(&urls[0]).await;
    contest(bench, one, redisson, rlock::Client::lock).await?;

    // Unlike any Java program, this stand-in asks at the moment at which a release is announced.
    let hasty = Beside::of("rlock_at_once", 1, Policy::RedLock);
    let redisson = async |urls: &[String]| rlock::Client::with_pace(&urls[0], Pace::AtOnce).await;
    contest(bench, hasty, redisson, rlock::Client::lock).await?;

    let redisson = async |urls: &[String]| multi_lock::Client::connect(urls).await;
    let red_lock = Beside::of("red_lock", N, Policy::RedLock);
    contest(bench, red_lock, redisson, multi_lock::Client::red_lock).await?;
    let multi_lock = Beside::of("multi_lock", N, Policy::MultiLock);
    contest(bench, multi_lock, redisson, multi_lock::Client::multi_lock).await?;

    for (id, n) in [("redsync.n1", 1), ("redsync", N)] {
        let redsync = async |urls: &[String]| redsync::Client::connect(urls).await;
        contest(
            bench,
            Beside::of(id, n, Policy::RedLock),
            redsync,
            redsync::Client::lock,
        )
        .await?;
    }
    for (id, n) in [("node_redlock.n1", 1), ("node_redlock", N)] {
        let node = async |urls: &[String]| node_redlock::Client::connect(urls).await;
        contest(
            bench,
            Beside::of(id, n, Policy::RedLock),
            node,
            node_redlock::Client::lock,
        )
        .await?;
    }
    Ok(())
}

async fn contest<C, L: Lock + 'static>(
    bench: &mut Bench,
    Beside { id, n, ours }: Beside,
    connect: impl AsyncFnOnce(&[String]) -> C,
    lock: fn(&C, &str) -> L,
) -> Result<()> {
    let (urls, name) = (bench.cluster.urls(n), fresh_name());
    let masters = masters(&urls, Settings::default()).beside_redisson(true);
    let masters = masters.connect().await?;
    let client = connect(&urls).await;
    let contest = Contest::four_and_four(&masters.lock(&name, ours), || lock(&client, &name));
    let time = Duration::from_secs(bench.form(3, 30));
    // A rule that is broken is a panic there and an error here.
    let running = tokio::spawn(async move { contest.run(time, &[], 0).await });
    let [ours, theirs] = running
        .await
        .with_context(|| format!("{id}: two holders, or a hold that was lost"))?;
    bench.cluster.wipe(n).await?;
    let both = (ours.grants + theirs.grants) as f64;
    let share = |side: &Tally| 2.0 * side.grants as f64 / both;
    let line = Line::new(format!("S6b.{id}"), n)
        .with("ours_share", share(&ours))
        .with("stand_in_share", share(&theirs));
    let line = told(line, Side::Ours, &ours);
    let line = told(line, Side::Theirs, &theirs);
    bench.summary.line(line.with("seconds", time.as_secs_f64()));
    Ok(())
}

fn told(line: Line, side: Side, tally: &Tally) -> Line {
    let who = match side {
        Side::Ours => "ours",
        Side::Theirs => "stand_in",
    };
    let mut waits = Durations::default();
    for wait in &tally.waits {
        waits.record(*wait);
    }
    line.with(format!("{who}_grants"), tally.grants as f64)
        .with(
            format!("{who}_standstill_ms"),
            tally.standstill.as_secs_f64() * 1e3,
        )
        .with(format!("{who}_wait_p99_ms"), waits.at(0.99) / 1e3)
}
