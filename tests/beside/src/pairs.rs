//! Pairs of acquire and release on free names, each library alone, in turns.

use anyhow::Result;

use crate::Stage;
use crate::contender::{Figures, Order};

const MASTERS: [usize; 2] = [1, 5];
const TASKS: [usize; 2] = [1, 32];

/// Returns whether all went well, or `None` if nothing was selected.
pub(crate) async fn run(stage: &Stage) -> Result<Option<bool>> {
    if !stage.selects("pairs") {
        return Ok(None);
    }
    println!(
        "\nPairs of acquire and release on free names, each library alone, {} s each. Medians of {} rounds in turns, times of a \
         pair in milliseconds.\n",
        stage.seconds, stage.rounds
    );
    println!("| masters | tasks | library | pairs/s | median | 99th percentile | ours to it |");
    println!("|---|---|---|---|---|---|---|");
    let mut well = true;
    for n in MASTERS {
        for tasks in TASKS {
            if let Err(error) = point(stage, n, tasks).await {
                eprintln!("beside: pairs, N = {n}, {tasks} tasks: {error:#}");
                well = false;
            }
        }
    }
    Ok(Some(well))
}

async fn point(stage: &Stage, n: usize, tasks: usize) -> Result<()> {
    let redisson = if n == 1 { "lock" } else { "red_lock" };
    let libraries = [
        ("multilock, fenced", None, "red_lock"),
        ("Redisson", Some("java"), redisson),
        ("redsync", Some("go"), "lock"),
        ("node-redlock", Some("js"), "lock"),
    ];
    let selected = |(_, language, _): &(&str, Option<&str>, &str)| language.is_none_or(|it| stage.has(it));
    let libraries: Vec<_> = libraries.into_iter().filter(selected).collect();
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); libraries.len()];
    for round in 0..stage.rounds {
        for ((_, language, kind), figures) in libraries.iter().zip(&mut rounds) {
            let order = Order {
                language: *language,
                kind,
                n,
                name: &format!("pairs-{round}"),
                tasks,
                section_ms: 0,
                seconds: stage.seconds,
                is_contest: false,
                is_beside_redisson: false,
            };
            figures.extend(stage.contest(&[order]).await?);
        }
    }
    for ((library, language, _), figures) in libraries.iter().zip(&rounds) {
        let of = |figure: fn(&Figures) -> f64| median(figures.iter().map(figure));
        let ratios = rounds[0].iter().zip(figures);
        let ratio = median(ratios.map(|(ours, theirs)| ours.rate / theirs.rate));
        let ratio = language.map_or(String::new(), |_| format!("{ratio:.2}"));
        println!(
            "| {n} | {tasks} | {library} | {:.0} | {:.3} | {:.3} | {ratio} |",
            of(|it| it.rate),
            of(|it| it.p50),
            of(|it| it.p99),
        );
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
