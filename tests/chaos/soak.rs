//! The soak: the faults in turn and load all the while, on one set of masters and by processes that live on. Every
//! minute all tasks rest for some seconds. Then the book of the minute is read, and the figures that could have grown
//! are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::future::{FutureExt, join_all};
use tokio::time::{Instant, sleep, timeout};

use crate::checker::{ByLayout, Findings};
use crate::event::{Event, Micros, now};
use crate::faults::{Expect, PROMISED, Row};
use crate::growth::{Grown, Limits, Sample, grown};
use crate::history::{History, LONG, linearizable, words};
use crate::load::{NAMES, Told};
use crate::report::{self, Line};
use crate::settings::{SetUp, WORKERS};
use crate::stage::{Orders, PATIENCE, Stage, lasts};
use crate::verdict::{Wrong, judge, verdict};
use crate::witness::Witness;

const MASTERS: usize = 3;
/// Of each worker.
const LOAD: usize = 8;
const MINUTE: Duration = Duration::from_secs(60);
/// A fault and the way back from it go on beyond the minute; more than this is no soak any more.
const MINUTE_WITHIN: Duration = Duration::from_secs(240);
/// Releases that masters were not there for are under way still.
const SETTLES: Duration = Duration::from_secs(2);
/// A lease, and the delay of a master that has just come back; or the life of a queue after the last touch.
const FREE_WITHIN: Duration = Duration::from_secs(16);

/// For as many of the faults as possible.
const SET_UP: SetUp = SetUp {
    args: &["--appendfsync", "everysec"],
    replaceable: true,
    strict: true,
    ..PROMISED.set_up
};

/// Promises of a minute as a whole.
const SOAK: Row = Row {
    name: "soak",
    promise: "exclusion, tokens, progress, nothing left",
    set_up: SET_UP,
    // Some of the faults put older servers in the place of masters.
    reader_tokens: false,
    ..PROMISED
};

/// A strike, and when it began.
type Struck = (Row, Micros);

/// Outcome so far.
#[derive(Debug, Default)]
struct Outcome {
    seed: u64,
    minutes: u64,
    violations: usize,
    /// By the tasks that tell the witness.
    holds: usize,
    /// By worker, the last that each has told.
    told: BTreeMap<usize, Told>,
    samples: Vec<Sample>,
}

/// Whether all promises were kept and nothing grew.
pub async fn soak(rows: &[Row], seed: u64, minutes: u64, broken: bool) -> Result<bool> {
    let rows: Vec<Row> = rows.iter().copied().filter(suits).collect();
    anyhow::ensure!(
        !rows.is_empty(),
        "CHAOS_ONLY leaves no fault of those that the soak has"
    );
    let orders = Orders {
        seed,
        rounds: 0,
        broken,
        load: LOAD,
        patience: PATIENCE,
        toxiproxy: false,
    };
    let witness = Arc::new(Witness::start().await?);
    let mut outcome = Outcome {
        seed,
        ..Outcome::default()
    };
    let soaking = run(&rows, minutes, orders, &witness, &mut outcome);
    let soaking = AssertUnwindSafe(soaking).catch_unwind().await;
    if let Err(error) = soaking.unwrap_or_else(|panic| Err(anyhow!(words(&*panic)))) {
        outcome.judge(witness.take_events(), &[], Vec::new(), Some(format!("{error:#}")));
    }
    Ok(outcome.summary())
}

/// One set-up serves all: a fault that needs another, or promises less, is left to histories of its own. So are
/// faults that set the servers' clocks for good: once masters have forgotten a fence, tokens rise only if clocks
/// agree.
fn suits(row: &Row) -> bool {
    let wants = row.set_up;
    let args = wants.args.is_empty() || wants.args == SET_UP.args;
    args && !wants.clocks && !wants.no_quarantine && !wants.allow_eviction && row.overlaps == Expect::Never
}

async fn run(
    rows: &[Row],
    minutes: u64,
    orders: Orders,
    witness: &Arc<Witness>,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut stage = Stage::open(SET_UP, MASTERS, orders, Arc::clone(witness)).await?;
    let mut faults = rows.iter().cycle();
    let mut prepared = BTreeSet::new();
    for minute in 1..=minutes {
        let struck = timeout(MINUTE_WITHIN, strikes(&mut faults, &mut prepared, &mut stage));
        let struck = struck
            .await
            .with_context(|| format!("minute {minute} is not over within {MINUTE_WITHIN:?}"))??;
        ask_all(&mut stage, "rest").await?;
        sleep(SETTLES).await;
        let left_over = stage.left_over(FREE_WITHIN).await?;
        outcome.judge(witness.take_events(), &struck, left_over, None);
        outcome.look(&mut stage).await?;
        ask_all(&mut stage, "work").await?;
        outcome.minutes = minute;
        println!("minute {minute}: {}", outcome.line(struck.len()));
    }
    stage.close().await.map(drop)
}

/// The next of the faults, one after the other, for a minute.
async fn strikes<'a>(
    faults: &mut impl Iterator<Item = &'a Row>,
    prepared: &mut BTreeSet<&'static str>,
    stage: &mut Stage,
) -> Result<Vec<Struck>> {
    let begun = Instant::now();
    let mut struck = Vec::new();
    while begun.elapsed() < MINUTE {
        let Some(row) = faults.next() else { break };
        if let Some(prepare) = row.prepare.filter(|_| prepared.insert(row.name)) {
            prepare(stage).await?;
        }
        stage.pause(0, 300).await;
        struck.push((*row, now()));
        (row.strike)(stage).await.context(row.name)?;
        stage.healed(row.back_within).await.context(row.name)?;
    }
    Ok(struck)
}

/// Sends a word to every worker. Returns their answers.
pub async fn ask_all(stage: &mut Stage, word: &str) -> Result<Vec<Told>> {
    let asked = stage.workers.iter_mut().map(|worker| worker.ask(word));
    let answers = join_all(asked).await;
    answers.into_iter().map(|answer| answer?.parse()).collect()
}

impl Outcome {
    /// Judges a minute, and prints its faults.
    fn judge(
        &mut self,
        events: Vec<Event>,
        struck: &[Struck],
        left_over: Vec<String>,
        error: Option<String>,
    ) {
        let mut wrong = Vec::new();
        for (i, (row, from)) in struck.iter().enumerate() {
            let to = struck.get(i + 1).map_or(Micros::MAX, |(_, next)| *next);
            wrong.extend(during(row, &events, *from, to));
        }
        let history = History {
            seed: 1000 * self.seed + self.minutes + 1,
            masters: MASTERS,
            findings: ByLayout::check(&events, LONG, SOAK.back_within),
            linearizable: linearizable(&events, &SOAK),
            events,
            left_over,
            error,
            ..History::default()
        };
        self.holds += history
            .findings
            .each()
            .map(|(_, found)| found.holds)
            .iter()
            .sum::<usize>();
        wrong.extend(judge(&SOAK, &history));
        self.violations += wrong.len();
        if !wrong.is_empty() {
            let verdict = verdict(&SOAK, &wrong);
            println!(
                "{}",
                report::trouble(&Line {
                    row: SOAK,
                    verdict,
                    history,
                    wrong
                })
            );
        }
    }

    /// Looks at all processes, which rest, for a second.
    async fn look(&mut self, stage: &mut Stage) -> Result<()> {
        let told = ask_all(stage, "tell").await?;
        let mut sample = Sample::default();
        let (scripts, wakes) = (scripts(stage).await?, wakes(stage)?);
        sleep(Duration::from_secs(1)).await;
        sample.wakes = wakes_since(stage, &wakes)?;
        sample.scripts = self::scripts(stage).await?.saturating_sub(scripts);
        for (worker, told) in stage.workers.iter().zip(told) {
            let before = self.told.insert(worker.number, told);
            let wrong = told.wrong - before.map_or(0, |told| told.wrong);
            if wrong > 0 {
                println!(
                    "{wrong} refusals of load in worker {} that no fault explains",
                    worker.number
                );
                self.violations += 1;
            }
            sample.tasks = sample.tasks.max(told.tasks);
            sample.descriptors = sample.descriptors.max(descriptors(worker.pid())?);
            if lasts(worker) {
                sample.resident = sample.resident.max(status(worker.pid(), "VmRSS")?);
            }
        }
        for master in 0..stage.masters() {
            let clients: String = stage.ask(master, &["CLIENT", "LIST"]).await?;
            // The connection of this question is among them.
            sample.connections += clients.lines().count() as u64 - 1;
            sample.keys += stage.ask::<u64>(master, &["DBSIZE"]).await?;
        }
        sample.pairs = self.pairs();
        self.samples.push(sample);
        Ok(())
    }

    /// Pairs of a worker after its last answer are lost with it.
    fn pairs(&self) -> u64 {
        self.holds as u64 + self.told.values().map(|told| told.pairs).sum::<u64>()
    }

    fn line(&self, strikes: usize) -> String {
        let sample = self.samples.last().cloned().unwrap_or_default();
        format!("strikes={strikes} violations={} {sample}", self.violations)
    }

    /// The last lines; whether all is well.
    fn summary(&self) -> bool {
        let limits = Limits {
            connections: (MASTERS * WORKERS) as u64,
            // A token of each name. Beside these, the locks of the tellers, and the record.
            keys: MASTERS as u64 * (NAMES + 50),
        };
        let grown = grown(&self.samples, limits);
        let all: Vec<String> = grown.iter().map(Grown::to_string).collect();
        println!("over all: {}", all.join(", "));
        let too_much: Vec<&str> = grown
            .iter()
            .filter(|grown| grown.is_too_much())
            .map(|grown| grown.name)
            .collect();
        let growth = if too_much.is_empty() {
            "none".to_owned()
        } else {
            too_much.join(",")
        };
        println!(
            "soak: minutes={} pairs={} violations={} growth={growth}",
            self.minutes,
            self.pairs(),
            self.violations
        );
        self.violations == 0 && too_much.is_empty()
    }
}

/// Breaches of the promises for the time of one fault alone.
fn during(row: &Row, events: &[Event], from: Micros, to: Micros) -> Vec<Wrong> {
    let events: Vec<Event> = events
        .iter()
        .filter(|event| (from..to).contains(&event.at))
        .cloned()
        .collect();
    let found = ByLayout::check(&events, LONG, row.back_within);
    let during = |found: Findings| Findings {
        strikes: found.strikes,
        wrong_without_majority: found.wrong_without_majority,
        idle_strikes: found.idle_strikes,
        jobs: found.jobs,
        done_again: found.done_again,
        ..Findings::default()
    };
    let findings = ByLayout {
        plain: during(found.plain),
        read_write: during(found.read_write),
    };
    let row = Row {
        stale: Expect::Open,
        ..*row
    };
    let history = History {
        events,
        findings,
        ..History::default()
    };
    let mut wrong = judge(&row, &history);
    for wrong in &mut wrong {
        wrong.what = format!("{}: {}", row.name, wrong.what);
    }
    wrong
}

async fn scripts(stage: &Stage) -> Result<u64> {
    let mut scripts = 0;
    for master in 0..stage.masters() {
        let stats = stage.server(master).commandstats().await;
        scripts += ["eval", "evalsha"]
            .iter()
            .filter_map(|name| stats.get(*name))
            .sum::<u64>();
    }
    Ok(scripts)
}

/// How often each process has slept until something came, a timer among it.
fn wakes(stage: &Stage) -> Result<Vec<u64>> {
    let workers = stage.workers.iter();
    workers
        .map(|worker| status(worker.pid(), "voluntary_ctxt_switches"))
        .collect()
}

fn wakes_since(stage: &Stage, before: &[u64]) -> Result<u64> {
    let since = wakes(stage)?;
    let most = since.iter().zip(before).map(|(now, before)| now - before).max();
    Ok(most.unwrap_or(0))
}

/// A number from the system's report on a process; sizes are in KiB.
fn status(pid: u32, what: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.with_context(|| format!("{what} in {path}"))?.parse()?)
}

fn descriptors(pid: u32) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}
