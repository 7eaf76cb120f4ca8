//! S20: a fenced pair on one master, beside the commands that go-redsync sends for a pair. go-redsync has no tokens.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::client::{Settings, Who};
use crate::compare::{Runs, connect_all, figures, interleaved};
use crate::pairs::{Segment, many_tasks, one_task};
use crate::summary::{Better, Line};

const NEVER: Duration = Duration::from_secs(10);
const TASKS: usize = 32;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let (repeats, time) = bench.form((3, 120), (9, 280));
    let time = Duration::from_millis(time);
    let who = [Who::Fenced, Who::GoRedsync];
    let clients = connect_all(&who, &bench.cluster.urls(1), Settings::default()).await?;
    let cluster = &bench.cluster;
    let apart = cluster.apart_if_alone(1)?;
    let one = interleaved(&clients, repeats, time, async |client, time| {
        let segment = one_task(client, time, NEVER).await?;
        cluster.settle(1, client.who).await?;
        Ok(segment)
    })
    .await?;
    drop(apart);
    let many = interleaved(&clients, repeats, time, async |client, time| {
        let segment = many_tasks(client, TASKS, time).await?;
        cluster.settle(1, client.who).await?;
        Ok(segment)
    })
    .await?;
    let p50 = |segment: &Segment| segment.latency.at(0.5);
    told(bench, "S20.p50", "us", Better::Less, &one, p50);
    let rate = Segment::pairs_per_second;
    told(
        bench,
        &format!("S20.tasks{TASKS}"),
        "pairs_s",
        Better::More,
        &many,
        rate,
    );
    Ok(())
}

fn told(
    bench: &mut Bench,
    id: &str,
    what: &str,
    better: Better,
    runs: &[Runs],
    of: impl Fn(&Segment) -> f64 + Copy,
) {
    let line = Line::new(id, 1).compare(what, better, &figures(runs, of), Who::Fenced);
    let of = |who: &str| line.number(&format!("{who}_{what}"));
    let ratio = of("ours").zip(of("go_redsync"));
    bench.summary.line(match ratio {
        Some((ours, theirs)) => line.with("ratio_go_redsync", ours / theirs),
        None => line,
    });
}
