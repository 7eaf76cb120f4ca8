//! The chaos campaign: worker processes contend for a few names on real servers while servers, links, clocks and the
//! workers themselves are broken. A witness outside of the locks writes down the holds that tasks believe in. A
//! checker reads the book afterwards. Some names are locked plainly, others are read and written, and every promise
//! is checked for both. Beside this checker, a second one judges the calls by linearizability.
//!
//! Under plain `cargo test` every fault strikes once and nothing is said but the last line. From the environment:
//!
//! * `CHAOS=full`: several strikes each, and the table (`make chaos`)
//! * `CHAOS=soak`: faults in turn and load all the while for `SOAK_MINUTES`, and each minute the growth (`make soak`)
//! * `CHAOS=toxiproxy`: every toxic of Toxiproxy for `CHAOS_SECONDS` (60), and how long anybody waited. `TOXIPROXY` names
//!   the server's program (`make chaos-toxiproxy`)
//! * `CHAOS_SEED`, `CHAOS_ROUNDS` (strikes per history), `CHAOS_SECONDS` (new seeds until then),
//!   `CHAOS_PARALLEL` (histories at a time), `CHAOS_ONLY` (a part of the faults' names)
//! * `CHAOS_BREAK=1`: the workers' locks always succeed, and everything must go red
//! * `MULTILOCK_TEST_CLUSTER=compose`: on the masters of the compose file, with the faults that containers can have

// A program of its own exports nothing.
#![allow(unreachable_pub)]

mod calls;
mod checker;
mod crew;
mod event;
mod faults;
mod growth;
mod history;
mod hold;
mod load;
mod report;
mod settings;
mod soak;
mod stage;
mod timeline;
mod toxic_run;
mod toxics;
mod toxiproxy;
mod verdict;
mod waits;
mod witness;
mod worker;

use std::env;
use std::panic;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, StreamExt};
use multilock_test_support as support;

use faults::Row;
use report::Line;
use stage::Orders;
use worker::Duty;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((first, rest)) if first == worker::WORKER => {
            Duty::from_args(rest).and_then(|duty| worker::work(&duty).map(|()| true))
        }
        _ if !wanted(&args) => Ok(true),
        _ => campaign(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the words of a test runner's command line are about this one test.
fn wanted(args: &[String]) -> bool {
    let takes_value =
        |arg: &String| ["--test-threads", "--skip", "--format", "--color"].contains(&arg.as_str());
    let mut filters = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // There is no list to show.
            "--list" | "--ignored" => return false,
            _ if takes_value(arg) => drop(args.next()),
            _ if arg.starts_with('-') => {}
            filter => filters.push(filter),
        }
    }
    filters.is_empty() || filters.iter().any(|filter| "chaos".contains(filter))
}

/// Campaigns instead of histories of one fault each.
#[derive(Clone, Copy)]
enum Long {
    /// A soak of this number of minutes.
    Soak(u64),
    /// One history behind Toxiproxy.
    Toxiproxy,
}

struct Campaign {
    full: bool,
    long: Option<Long>,
    compose: bool,
    seed: u64,
    rounds: usize,
    least: Duration,
    parallel: usize,
    only: Option<String>,
    broken: bool,
}

impl Campaign {
    fn from_env() -> Result<Self> {
        let (full, long) = match env::var("CHAOS").as_deref() {
            Ok("full") => (true, None),
            Ok("soak") => (true, Some(Long::Soak(number("SOAK_MINUTES")?.unwrap_or(10)))),
            Ok("toxiproxy") => (false, Some(Long::Toxiproxy)),
            Ok("short") | Err(_) => (false, None),
            Ok(other) => bail!("CHAOS is 'full', 'short', 'soak' or 'toxiproxy', not '{other}'"),
        };
        let compose = settings::on_containers();
        let strikes = match (full, compose) {
            (true, false) => 4,
            (true, true) => 2,
            (false, _) => 1,
        };
        Ok(Self {
            full,
            long,
            compose,
            seed: number("CHAOS_SEED")?.unwrap_or(1),
            rounds: usize::try_from(number("CHAOS_ROUNDS")?.unwrap_or(strikes))?,
            least: Duration::from_secs(number("CHAOS_SECONDS")?.unwrap_or(0)),
            // The masters of the compose file are one set. Histories mostly wait.
            parallel: if compose {
                1
            } else {
                usize::try_from(number("CHAOS_PARALLEL")?.unwrap_or(if full { 5 } else { 8 }))?
            },
            only: env::var("CHAOS_ONLY").ok(),
            broken: env::var("CHAOS_BREAK").is_ok_and(|word| word == "1"),
        })
    }

    /// With their places among all, which their seeds follow.
    fn rows(&self) -> Vec<(u64, Row)> {
        let wanted = |row: &Row| {
            let named = self
                .only
                .as_ref()
                .is_none_or(|part| row.name.contains(part.as_str()));
            named && (row.containers || !self.compose)
        };
        (0..).zip(faults::all()).filter(|(_, row)| wanted(row)).collect()
    }
}

fn number(name: &str) -> Result<Option<u64>> {
    let Ok(text) = env::var(name) else {
        return Ok(None);
    };
    let number = text.trim().parse();
    number
        .map(Some)
        .with_context(|| format!("{name}: '{text}' is no number"))
}

/// Histories in which a fault may show the harm that it is expected to do, which takes two clients that meet in time.
const SHOWINGS: usize = 3;

/// Whether all promises were kept.
fn campaign() -> Result<bool> {
    let campaign = Campaign::from_env()?;
    let rows = campaign.rows();
    anyhow::ensure!(!rows.is_empty(), "CHAOS_ONLY leaves no fault");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // A panic of a history is a part of its verdict. Elsewhere it is a mistake of the campaign.
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some("main") {
            told(panic);
        }
    }));
    // Histories run on this thread, so that it is the parent of the workers, which end with it.
    match campaign.long {
        Some(Long::Soak(minutes)) => {
            let rows: Vec<Row> = rows.iter().map(|(_, row)| *row).collect();
            return runtime.block_on(soak::soak(&rows, campaign.seed, minutes, campaign.broken));
        }
        Some(Long::Toxiproxy) => {
            return runtime.block_on(toxic_run::run(campaign.seed, campaign.least, campaign.broken));
        }
        None => {}
    }
    let lines = runtime.block_on(passes(&campaign, &rows));
    if campaign.full {
        println!("{}", report::table(&lines));
        println!("{}", report::linearizable(&lines));
    }
    for line in &lines {
        if !line.wrong.is_empty() {
            println!("{}", report::trouble(line));
        }
    }
    println!("{}", report::summary(rows.len(), &lines));
    Ok(lines.iter().all(|line| line.wrong.is_empty()))
}

async fn passes(campaign: &Campaign, rows: &[(u64, Row)]) -> Vec<Line> {
    let begun = Instant::now();
    let mut lines = Vec::new();
    for pass in 0.. {
        let histories = rows.iter().map(|(place, row)| {
            let mut orders = Orders {
                seed: campaign.seed + 1000 * pass + place,
                rounds: campaign.rounds,
                broken: campaign.broken,
                load: 0,
                patience: stage::PATIENCE,
                toxiproxy: false,
            };
            async move {
                let mut tries = 1;
                let (history, wrong) = loop {
                    let history = history::run(row, orders).await;
                    let wrong = verdict::judge(row, &history);
                    if tries == SHOWINGS || !verdict::may_be_seen_later(&wrong) {
                        break (history, wrong);
                    }
                    tries += 1;
                    orders.seed += 100;
                };
                Line {
                    row: *row,
                    verdict: verdict::verdict(row, &wrong),
                    history,
                    wrong,
                }
            }
        });
        lines.extend(
            stream::iter(histories)
                .buffered(campaign.parallel)
                .collect::<Vec<_>>()
                .await,
        );
        if begun.elapsed() >= campaign.least {
            break;
        }
    }
    lines
}
