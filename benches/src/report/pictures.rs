//! The pictures, each from the lines of one scenario.

use std::path::Path;

use anyhow::Result;

use super::canvas::{Axes, Curve, colour, draw as paint, plain};
use crate::client::Who;
use crate::summary::Summary;

pub fn draw(summary: &Summary, dir: &Path) -> Result<()> {
    latency(summary, &dir.join("latency.svg"))?;
    throughput(summary, &dir.join("throughput.svg"))?;
    masters(summary, &dir.join("masters.svg"))?;
    held(summary, &dir.join("held.svg"))?;
    contention(summary, &dir.join("contention.svg"))
}

/// Every recorded pair, by how many were slower.
fn latency(summary: &Summary, path: &Path) -> Result<()> {
    let all = summary.distributions.iter().filter(|one| one.scenario == "S1.n5");
    let curves: Vec<Curve> = all
        .map(|one| {
            let total: u64 = one.histogram.iter().map(|(_, count)| count).sum();
            let mut slower = total;
            let mut points = Vec::new();
            for (nanoseconds, count) in &one.histogram {
                let before = slower as f64 / total as f64;
                // Beyond, single pairs would make the curve.
                if before < 5e-4 {
                    break;
                }
                points.push((1.0 / before, *nanoseconds as f64 / 1e3));
                slower -= count;
            }
            Curve {
                label: one.who.label().to_owned(),
                colour: colour(one.who),
                points,
            }
        })
        .collect();
    let axes = Axes {
        title: "S1: one task, five masters: acquire and release",
        x: "percentile",
        y: "µs",
        linear_y: false,
        linear_x: false,
        format_x: |x| {
            format!("{}", (1.0 - 1.0 / x.max(1.0)) * 100.0)
                .chars()
                .take(5)
                .collect()
        },
        scattered: false,
    };
    paint(path, &axes, &curves)
}

fn throughput(summary: &Summary, path: &Path) -> Result<()> {
    let curves = Who::ALL.map(|who| {
        let id = if who == Who::Fenced {
            "S2.fenced.tasks"
        } else {
            "S2.tasks"
        };
        curve(
            summary,
            who,
            who.label(),
            id,
            &format!("{}_pairs_s", who.prefix()),
        )
    });
    let axes = Axes {
        title: "S2: pairs a second by the number of tasks, five masters",
        x: "tasks",
        y: "pairs a second",
        linear_y: false,
        linear_x: false,
        format_x: plain,
        scattered: false,
    };
    paint(path, &axes, &curves)
}

fn masters(summary: &Summary, path: &Path) -> Result<()> {
    // Four curves of two contenders: the colours are only borrowed from others.
    let curves = [
        (Who::Ours, Who::Ours, "time", "multilock, time (p50)"),
        (Who::Limit, Who::Limit, "time", "the limit, time (p50)"),
        (Who::Ours, Who::Fenced, "cpu", "multilock, processor time"),
        (Who::Limit, Who::Rslock, "cpu", "the limit, processor time"),
    ]
    .map(|(who, coloured_as, what, label)| {
        let key = format!("{}_us", who.prefix());
        let points = summary.lines.iter().filter_map(|line| {
            let here = line.scenario == format!("S13.n{}.{what}", line.n);
            here.then(|| line.number(&key).map(|us| (line.n as f64, us)))?
        });
        Curve {
            label: label.to_owned(),
            colour: colour(coloured_as),
            points: points.collect(),
        }
    });
    let axes = Axes {
        title: "S13: what a pair costs by the number of masters",
        x: "masters",
        y: "µs",
        linear_y: true,
        linear_x: true,
        format_x: plain,
        scattered: false,
    };
    paint(path, &axes, &curves)
}

fn held(summary: &Summary, path: &Path) -> Result<()> {
    let curves = [
        ("p50 of a pair", Who::Ours, "ours_us"),
        ("processor time of a pair", Who::Rslock, "ours_cpu_us"),
    ]
    .map(|(label, who, key)| curve(summary, who, label, "S13.held", key));
    let axes = Axes {
        title: "S13: a pair while so many locks are held and renewed, five masters",
        x: "held locks",
        y: "µs",
        linear_y: true,
        linear_x: false,
        format_x: plain,
        scattered: false,
    };
    paint(path, &axes, &curves)
}

/// Rate and wait together: a poller gets its rate by letting the holder walk straight back in.
fn contention(summary: &Summary, path: &Path) -> Result<()> {
    let crews = ["S6.p1x8", "S6.p4x2", "S6.p16x4"];
    let curves = Who::ALL.map(|who| Curve {
        label: who.label().to_owned(),
        colour: colour(who),
        points: crews
            .iter()
            .filter_map(|crew| {
                let of = |what: &str| {
                    let line = summary.find(&format!("{crew}.{what}"))?;
                    line.number(&format!("{}_{what}", who.prefix()))
                };
                (who != Who::Fenced).then_some(())?;
                Some((of("grants_s")?.max(1.0), of("wait_p99_ms")?))
            })
            .collect(),
    });
    let curves: Vec<Curve> = curves
        .into_iter()
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let axes = Axes {
        title: "S6: one name held for 1 ms by 1 × 8 (small), 4 × 2, 16 × 4 tasks (large): down and right is better",
        x: "grants a second",
        y: "wait, p99, ms",
        linear_y: false,
        linear_x: true,
        format_x: plain,
        scattered: true,
    };
    paint(path, &axes, &curves)
}

/// The figures of all lines that are called so and a number.
fn curve(summary: &Summary, who: Who, label: &str, id: &str, key: &str) -> Curve {
    let points = summary.lines.iter().filter_map(|line| {
        let x: f64 = line.scenario.strip_prefix(id)?.parse().ok()?;
        Some((x, line.number(key)?))
    });
    Curve {
        label: label.to_owned(),
        colour: colour(who),
        points: points.collect(),
    }
}
