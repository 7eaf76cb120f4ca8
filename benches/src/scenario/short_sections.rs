//! S6s and S6w: tasks of one process want one name and hold it for 50 µs, beside masters (S6s) and at a distance
//! from them (S6w). So short a section shows the cost of the hand-off.
//!
//! The section is spun away, with a yield at every turn: no timer of the runtime or of the system is as short. So it
//! takes a core from the waiters and the masters. That is the same for all contenders. The duration of the section is
//! in the line (`held`). It includes the lock on a file, by which two holders at once are noticed.
//!
//! Each peer has its best setting: several pauses between its attempts are tried for a short time each. The pause with
//! the most grants a second takes part. With a longer pause, the holder takes the name again at once, while the other
//! tasks hardly ever ask. So rate and wait must be read together.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Bench;
use super::contention::{Contender, Contenders, N, TOLD, contend, contest};
use crate::client::Who;
use crate::distance::Distance;
use crate::summary::Line;
use crate::worker::Between;

const SECTION: Between = Between::always(Duration::from_micros(50));
const AWAY: Duration = Duration::from_millis(1);

/// S6s.
pub async fn near(bench: &mut Bench) -> Result<()> {
    for tasks in [8, 64] {
        let contenders = one_process(bench, bench.cluster.urls(N), tasks, Vec::new());
        measure(bench, &format!("S6s.p1x{tasks}"), contenders).await?;
    }
    Ok(())
}

/// S6w.
pub async fn far(bench: &mut Bench) -> Result<()> {
    let distance = Distance::to(&bench.cluster, N, AWAY).await?;
    let contenders = one_process(bench, distance.urls(), 64, distance.told().await?);
    measure(bench, "S6w.p1x64", contenders).await
}

fn one_process(bench: &Bench, urls: Vec<String>, tasks: usize, told: Vec<(&'static str, f64)>) -> Contenders {
    Contenders {
        urls,
        processes: 1,
        tasks,
        time: Duration::from_millis(bench.form(500, 2_000)),
        section: SECTION,
        pause: Between::NOTHING,
        told,
    }
}

async fn measure(bench: &mut Bench, id: &str, contenders: Contenders) -> Result<()> {
    let short = Contenders {
        urls: contenders.urls.clone(),
        time: Duration::from_millis(bench.form(200, 600)),
        told: Vec::new(),
        ..contenders
    };
    let mut who = vec![(Who::Ours, None)];
    let mut line = Line::new(format!("{id}.longest_pause_ms"), N);
    for peer in Who::PEERS {
        let (pause, contender) = at_its_best(bench, peer, &short).await?;
        who.push(contender);
        line = line.with(format!("{}_ms", peer.prefix()), pause.as_secs_f64() * 1e3);
    }
    bench.summary.line(line);
    contest(bench, id, &contenders, &who, bench.form(1, 2), &TOLD).await
}

/// With the longest pause that brought the most grants.
async fn at_its_best(bench: &Bench, peer: Who, short: &Contenders) -> Result<(Duration, Contender)> {
    let pauses = bench.form(vec![10, 50, 200], vec![10, 50, 100, 200, 400]);
    let mut tried = Vec::new();
    for pause in pauses.into_iter().map(Duration::from_millis) {
        let outcome = contend(bench, (peer, Some(pause)), short).await?;
        tried.push((outcome.grants_s, pause));
    }
    let best = tried.into_iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
    let (_, pause) = best.context("a pause")?;
    Ok((pause, (peer, Some(pause))))
}
