//! S6b: four tasks of ours and four of Redisson's locks want one name, with sections of a millisecond. Theirs are
//! stand-ins that send and wait as the originals do, and answer as late as these.

use std::time::Duration;

use anyhow::{Context, Result};
use multilock::{Masters, MultiLock};

use super::Bench;
use crate::client::{Settings, masters};
use crate::pairs::fresh_name;
use crate::stats::Durations;
use crate::summary::Line;
use crate::support::contest::{Contest, Side, Tally};
use crate::support::foreign::multi_lock::{self, LockList};
use crate::support::foreign::{Lock, rlock};

const N: usize = 5;

pub async fn run(bench: &mut Bench) -> Result<()> {
    one_master(bench).await?;
    lists(
        bench,
        "red_lock",
        |ours, name| ours.red_lock(name),
        multi_lock::Client::red_lock,
    )
    .await?;
    lists(
        bench,
        "multi_lock",
        |ours, name| ours.multi_lock(name),
        multi_lock::Client::multi_lock,
    )
    .await
}

async fn one_master(bench: &mut Bench) -> Result<()> {
    let (urls, name) = (bench.cluster.urls(1), fresh_name());
    let ours = masters(&urls, Settings::default()).connect().await?;
    let theirs = rlock::Client::connect(&urls[0]).await;
    let lock = || theirs.lock(&name);
    contest(bench, "rlock", 1, ours.red_lock(&name), lock).await
}

async fn lists(
    bench: &mut Bench,
    id: &str,
    ours: fn(&Masters, &str) -> MultiLock,
    theirs: fn(&multi_lock::Client, &str) -> LockList,
) -> Result<()> {
    let (urls, name) = (bench.cluster.urls(N), fresh_name());
    let masters = masters(&urls, Settings::default()).connect().await?;
    let client = multi_lock::Client::connect(&urls).await;
    let lock = || theirs(&client, &name);
    contest(bench, id, N, ours(&masters, &name), lock).await
}

async fn contest<L: Lock + 'static>(
    bench: &mut Bench,
    id: &str,
    n: usize,
    ours: MultiLock,
    theirs: impl Fn() -> L,
) -> Result<()> {
    let time = Duration::from_secs(bench.form(3, 30));
    let contest = Contest::four_and_four(&ours, theirs);
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
