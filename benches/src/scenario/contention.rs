//! S6: all tasks want the same name, in one process and in several, and do 1 ms of work with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use tokio::sync::Barrier;

use super::Bench;
use crate::client::{Client, Settings, Who};
use crate::cluster::commands;
use crate::crew::Worker;
use crate::pairs::fresh_name;
use crate::stats::{Durations, jain, median};
use crate::summary::{Better, Figure, Line};
use crate::worker::{Between, ContendOrder, ContendReport, Order};

pub(super) const N: usize = 5;
const SECTION: Between = Between::always(Duration::from_millis(1));
/// Long enough for every holder, short enough that a key which a peer forgets does not end its run.
const LEASE: Duration = Duration::from_secs(4);

/// Processes that want one name for a time.
pub(super) struct Contenders {
    /// Of the masters, as they see them.
    pub urls: Vec<String>,
    pub processes: usize,
    /// Of each.
    pub tasks: usize,
    pub time: Duration,
    pub section: Between,
    pub pause: Between,
    /// Further figures of every line.
    pub told: Vec<(&'static str, f64)>,
}

/// Client that takes part, and a peer's longest pause between two attempts, if it is not the usual pause.
pub(super) type Contender = (Who, Option<Duration>);

/// One figure of a run: its name, whether more or less is better, and its value of an outcome.
pub(super) type Told = (&'static str, Better, fn(&Outcome) -> f64);

pub(super) struct Outcome {
    who: Who,
    pub grants_s: f64,
    wait_p99_ms: f64,
    pub longest_wait_ms: f64,
    held_ms: f64,
    /// Share of the time in which any task holds the name.
    held_share: f64,
    jain_tasks: f64,
    pub jain_processes: f64,
    /// Fewest and most grants of a process.
    pub grants: (f64, f64),
    pub commands: f64,
    violations: u64,
}

/// Figures for tasks without a pause between a release and the next attempt.
pub(super) const TOLD: [Told; 6] = [
    ("grants_s", Better::More, |outcome| outcome.grants_s),
    ("wait_p99_ms", Better::Less, |outcome| outcome.wait_p99_ms),
    ("held_ms", Better::Less, |outcome| outcome.held_ms),
    ("jain_tasks", Better::More, |outcome| outcome.jain_tasks),
    ("jain_processes", Better::More, |outcome| outcome.jain_processes),
    ("commands_per_grant_and_node", Better::Less, |outcome| {
        outcome.commands
    }),
];

pub async fn run(bench: &mut Bench) -> Result<()> {
    let crews = bench.form(vec![(1, 8), (4, 2)], vec![(1, 8), (4, 2), (16, 4)]);
    let (repeats, ms) = bench.form((1, 600), (2, 2_000));
    let who: Vec<Contender> = Who::ALL
        .into_iter()
        .filter(|who| !matches!(who, Who::Limit | Who::Fenced))
        .map(|who| (who, None))
        .collect();
    for (processes, tasks) in crews {
        let contenders = Contenders {
            urls: bench.cluster.urls(N),
            processes,
            tasks,
            time: Duration::from_millis(ms),
            section: SECTION,
            pause: Between::NOTHING,
            told: Vec::new(),
        };
        let id = format!("S6.p{processes}x{tasks}");
        contest(bench, &id, &contenders, &who, repeats, &TOLD).await?;
    }
    for contenders in bench.form(vec![4], vec![2, 4, 8, 16]) {
        start_together(bench, contenders).await?;
    }
    Ok(())
}

/// Runs all contenders in turn, `repeats` times, and writes the figures.
pub(super) async fn contest(
    bench: &mut Bench,
    id: &str,
    contenders: &Contenders,
    who: &[Contender],
    repeats: usize,
    told: &[Told],
) -> Result<()> {
    let mut outcomes = Vec::new();
    for _ in 0..repeats {
        for contender in who {
            outcomes.push(contend(bench, *contender, contenders).await?);
        }
    }
    let of = |who: Who, what: fn(&Outcome) -> f64| {
        median(outcomes.iter().filter(|outcome| outcome.who == who).map(what))
    };
    for (what, better, of_one) in told {
        let figures: Vec<(Who, Figure)> = who
            .iter()
            .map(|(who, _)| (*who, Figure::Number(of(*who, *of_one))))
            .collect();
        let mut line = Line::new(format!("{id}.{what}"), N).compare(what, *better, &figures, Who::Ours);
        if *what == "grants_s" {
            // 1 if hand-offs took no time.
            line = line.with("ours_held_share", of(Who::Ours, |outcome| outcome.held_share));
        }
        if what.contains("wait") {
            // Time of one hold and its hand-off; the tasks hold one after the other.
            let turn = 1e3 / of(Who::Ours, |outcome| outcome.grants_s);
            let all = (contenders.processes * contenders.tasks) as f64;
            line = line.with("ours_in_turns", of(Who::Ours, *of_one) / (all * turn));
        }
        for (key, value) in &contenders.told {
            line = line.with(*key, *value);
        }
        bench.summary.line(line);
    }
    for (who, _) in who {
        let violations: u64 = outcomes
            .iter()
            .filter(|outcome| outcome.who == *who)
            .map(|outcome| outcome.violations)
            .sum();
        if violations > 0 {
            if who.is_ours() {
                bail!("two holders, {violations} times");
            }
            let line = Line::new(format!("{id}.two_holders"), N);
            bench
                .summary
                .line(line.with(format!("{}_times", who.prefix()), violations as f64));
        }
    }
    Ok(())
}

pub(super) async fn contend(
    bench: &Bench,
    (who, longest_pause): Contender,
    contenders: &Contenders,
) -> Result<Outcome> {
    let Contenders {
        processes,
        tasks,
        time,
        section,
        pause,
        ..
    } = *contenders;
    let witness = tempfile::NamedTempFile::new().context("a file that only a holder may lock")?;
    let order = Order::Contend(ContendOrder {
        who,
        urls: contenders.urls.clone(),
        settings: Settings {
            lease: LEASE,
            longest_pause,
            ..Settings::default()
        },
        name: fresh_name(),
        tasks,
        time,
        section,
        pause,
        witness: witness.path().to_owned(),
    });
    let mut crew = Vec::new();
    for _ in 0..processes {
        crew.push(Worker::start(&order)?);
    }
    for worker in &mut crew {
        worker.line().await.context("a worker that is connected")?;
    }
    let before = commands(bench.cluster.observers(N)).await?;
    for worker in &mut crew {
        worker.go().await?;
    }
    let mut reports = Vec::new();
    for worker in &mut crew {
        let report: ContendReport = serde_json::from_str(&worker.line().await?)?;
        reports.push(report);
    }
    let ran = commands(bench.cluster.observers(N)).await?.since(&before);
    bench.cluster.wipe(N).await?;
    let shares = |report: &ContendReport| report.grants.iter().sum::<u64>() as f64;
    let grants: f64 = reports.iter().map(shares).sum();
    let (mut waits, mut held) = (Durations::default(), Durations::default());
    for report in &reports {
        for (all, some) in [(&mut waits, &report.waits), (&mut held, &report.held)] {
            for micros in some {
                all.record(Duration::from_micros(*micros));
            }
        }
    }
    let held_for = Duration::from_micros(reports.iter().flat_map(|report| &report.held).sum());
    let by_task: Vec<f64> = reports
        .iter()
        .flat_map(|r| &r.grants)
        .map(|n| *n as f64)
        .collect();
    let by_process: Vec<f64> = reports.iter().map(shares).collect();
    Ok(Outcome {
        who,
        grants_s: grants / time.as_secs_f64(),
        wait_p99_ms: waits.at(0.99) / 1e3,
        longest_wait_ms: waits.max() / 1e3,
        held_ms: held.at(0.5) / 1e3,
        held_share: held_for.as_secs_f64() / time.as_secs_f64(),
        jain_tasks: jain(&by_task),
        jain_processes: jain(&by_process),
        grants: (
            by_process.iter().copied().fold(f64::INFINITY, f64::min),
            by_process.iter().copied().fold(0.0, f64::max),
        ),
        // All commands, if no task got the name.
        commands: ran.sent_by(who) / grants.max(1.0),
        violations: reports.iter().map(|report| report.violations).sum(),
    })
}

/// Clients that all begin at once on a free name: when the first has it, and when the last has had it.
async fn start_together(bench: &mut Bench, contenders: usize) -> Result<()> {
    let urls = bench.cluster.urls(N);
    let clients = (0..contenders).map(|_| Client::connect(Who::Ours, &urls, Settings::default()));
    let clients = try_join_all(clients).await?;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..bench.form(10, 30) {
        let (start, name) = (Arc::new(Barrier::new(contenders)), fresh_name());
        let tasks = clients.iter().map(|client| {
            let (client, start, name) = (client.clone(), Arc::clone(&start), name.clone());
            tokio::spawn(async move {
                start.wait().await;
                let begun = Instant::now();
                let held = client.acquire(&name).await?;
                let waited = begun.elapsed();
                client.release(held).await?;
                anyhow::Ok(waited.as_secs_f64() * 1e6)
            })
        });
        let waits = try_join_all(tasks)
            .await?
            .into_iter()
            .collect::<Result<Vec<f64>>>()?;
        first.extend(waits.iter().copied().reduce(f64::min));
        last.extend(waits.iter().copied().reduce(f64::max));
    }
    let line = Line::new(format!("S6.start{contenders}"), N)
        .with("ours_first_us", median(first))
        .with("ours_last_us", median(last.iter().copied()))
        .with("ours_last_worst_us", last.into_iter().fold(0.0, f64::max));
    bench.summary.line(line);
    Ok(())
}
