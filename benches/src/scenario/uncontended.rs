//! S1: one task, a free name, for several numbers of masters; and S13 by the number of masters.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::client::{Settings, Who};
use crate::compare::{connect_all, figures, interleaved};
use crate::pairs::{Segment, one_task};
use crate::summary::{Better, Line};

const NEVER: Duration = Duration::from_secs(10);

pub async fn run(bench: &mut Bench) -> Result<()> {
    let (repeats, time) = bench.form((2, 120), (5, 250));
    for n in bench.form(vec![3, 5], vec![1, 3, 5, 7]) {
        let urls = bench.cluster.urls(n);
        let clients = connect_all(&Who::ALL, &urls, Settings::default()).await?;
        let cluster = &bench.cluster;
        let _apart = cluster.apart_if_alone(n)?;
        let runs = interleaved(
            &clients,
            repeats,
            Duration::from_millis(time),
            async |client, time| {
                let segment = one_task(client, time, NEVER).await?;
                cluster.settle(n, client.who).await?;
                Ok(segment)
            },
        )
        .await?;
        for (ours, id) in [(Who::Ours, "S1"), (Who::Fenced, "S1.fenced")] {
            for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
                let figures = figures(&runs, |segment| segment.latency.at(quantile));
                let line = Line::new(format!("{id}.n{n}.{name}"), n);
                bench
                    .summary
                    .line(line.compare("us", Better::Less, &figures, ours));
            }
            let line = Line::new(format!("{id}.n{n}.cpu"), n);
            let figures = figures(&runs, Segment::cpu_per_pair);
            bench
                .summary
                .line(line.compare("us", Better::Less, &figures, ours));
        }
        for runs in &runs {
            bench
                .summary
                .distribution(&format!("S1.n{n}"), runs.who, &runs.all()?);
        }
    }
    Ok(())
}
