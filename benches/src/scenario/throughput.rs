//! S2: many tasks, each on names of its own.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::client::{Settings, Who};
use crate::cluster::servers_cpu;
use crate::compare::{connect_all, figures, interleaved};
use crate::pairs::{Segment, many_tasks};
use crate::summary::{Better, Line};

const N: usize = 5;

pub async fn run(bench: &mut Bench) -> Result<()> {
    let (repeats, time) = bench.form((2, 120), (3, 280));
    for tasks in bench.form(vec![8, 64, 512], vec![1, 8, 64, 512, 1024]) {
        let clients = connect_all(&Who::ALL, &bench.cluster.urls(N), Settings::default()).await?;
        let cluster = &bench.cluster;
        let runs = interleaved(
            &clients,
            repeats,
            Duration::from_millis(time),
            async |client, time| {
                let servers = cluster.observers(N);
                let before = servers_cpu(servers).await?;
                let mut segment = many_tasks(client, tasks, time).await?;
                segment.servers_cpu = servers_cpu(servers).await?.saturating_sub(before);
                cluster.settle(N, client.who).await?;
                Ok(segment)
            },
        )
        .await?;
        for (ours, id) in [(Who::Ours, "S2"), (Who::Fenced, "S2.fenced")] {
            let line = Line::new(format!("{id}.tasks{tasks}"), N);
            let rates = figures(&runs, Segment::pairs_per_second);
            bench
                .summary
                .line(line.compare("pairs_s", Better::More, &rates, ours));
            let line = Line::new(format!("{id}.tasks{tasks}.cpu"), N);
            let cpu = figures(&runs, Segment::cpu_per_pair);
            bench.summary.line(line.compare("us", Better::Less, &cpu, ours));
            let line = Line::new(format!("{id}.tasks{tasks}.servers"), N);
            let cpu = figures(&runs, Segment::servers_cpu_per_pair);
            bench.summary.line(line.compare("us", Better::Less, &cpu, ours));
        }
    }
    Ok(())
}
