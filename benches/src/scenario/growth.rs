//! S13: the cost of a pair, which grows with the number of masters; and memory, which must not grow with the number of pairs.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::client::{Settings, Who};
use crate::compare::{connect_all, figures, interleaved};
use crate::crew::Worker;
use crate::pairs::{Segment, one_task};
use crate::summary::{Better, Figure, Line};
use crate::worker::{GrowthOrder, GrowthReport, Order};

const NODES: [usize; 5] = [1, 3, 5, 7, 9];

pub async fn run(bench: &mut Bench) -> Result<()> {
    by_masters(bench).await?;
    by_pairs(bench).await
}

async fn by_masters(bench: &mut Bench) -> Result<()> {
    let (repeats, time) = bench.form((2, 60), (5, 200));
    let who = [Who::Ours, Who::Limit];
    let mut points: [Vec<[f64; 2]>; 2] = Default::default();
    for n in NODES {
        let clients = connect_all(&who, &bench.cluster.urls(n), Settings::default()).await?;
        let cluster = &bench.cluster;
        let runs = interleaved(
            &clients,
            repeats,
            Duration::from_millis(time),
            async |client, time| {
                let segment = one_task(client, time, Duration::from_secs(10)).await?;
                cluster.settle(n, client.who).await?;
                Ok(segment)
            },
        )
        .await?;
        let time = figures(&runs, |segment| segment.latency.at(0.5));
        let cpu = figures(&runs, Segment::cpu_per_pair);
        for (points, figures) in points.iter_mut().zip([&time, &cpu]) {
            if let [(_, Figure::Number(ours)), (_, Figure::Number(limit))] = figures[..] {
                points.push([ours, limit]);
            }
        }
        for (what, figures) in [("time", time), ("cpu", cpu)] {
            let line = Line::new(format!("S13.n{n}.{what}"), n);
            bench
                .summary
                .line(line.compare("us", Better::Less, &figures, Who::Ours));
        }
    }
    for (what, points) in ["time", "cpu"].iter().zip(points) {
        let slope = |of: usize| slope(&points.iter().map(|both| both[of]).collect::<Vec<_>>());
        let line = Line::new(format!("S13.slope.{what}"), NODES[NODES.len() - 1])
            .with("ours_us_per_master", slope(0))
            .with("limit_us_per_master", slope(1))
            .with("ratio_limit", slope(0) / slope(1));
        bench.summary.line(line);
    }
    Ok(())
}

/// Slope of the line through the points that fits best.
fn slope(values: &[f64]) -> f64 {
    let n = NODES.len() as f64;
    let (x, y) = (
        NODES.iter().sum::<usize>() as f64 / n,
        values.iter().sum::<f64>() / n,
    );
    let both = NODES.iter().zip(values);
    let (over, under) = both.fold((0.0, 0.0), |(over, under), (node, value)| {
        let from_mean = *node as f64 - x;
        (
            from_mean.mul_add(value - y, over),
            from_mean.mul_add(from_mean, under),
        )
    });
    over / under
}

async fn by_pairs(bench: &mut Bench) -> Result<()> {
    let time = bench.form(Duration::from_secs(3), Duration::from_secs(30));
    let urls = bench.cluster.urls(3);
    let mut worker = Worker::start(&Order::Growth(GrowthOrder { urls, time }))?;
    let report: GrowthReport = serde_json::from_str(&worker.line_within(time * 3).await?)?;
    bench.cluster.settle(3, Who::Ours).await?;
    let [before, after] = report.resident;
    let line = Line::new("S13.memory", 3)
        .with("ours_pairs", report.pairs as f64)
        .with("ours_resident_before_bytes", before)
        .with("ours_resident_after_bytes", after)
        .with("ours_bytes_per_pair", (after - before) / report.between as f64);
    bench.summary.line(line);
    Ok(())
}
