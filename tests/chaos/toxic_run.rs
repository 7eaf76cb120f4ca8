//! One long history behind Toxiproxy: one to three masters are struck at a time, with little time in between. The book is
//! read in the end, and the longest waits are held against the time in which enough masters were sound.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::future::FutureExt;
use rand::RngExt;
use tokio::time::{Instant, sleep, timeout};

use crate::checker::ByLayout;
use crate::event::{Micros, now};
use crate::faults::{REMEMBERED, Row};
use crate::history::{History, LONG, words};
use crate::load::Told;
use crate::report::{self, Line};
use crate::settings::WORKERS;
use crate::soak::ask_all;
use crate::stage::{Orders, Stage};
use crate::toxics::{Deck, Struck, Trouble};
use crate::verdict::{Verdict, Wrong, judge, verdict};
use crate::waits::{Longest, Window, longest, sound};
use crate::witness::Witness;

const MASTERS: usize = 5;
/// Of each worker.
const LOAD: usize = 6;
const DEFAULT_LENGTH: Duration = Duration::from_secs(60);
/// Longer than any wait that is not stuck.
const PATIENCE: Duration = Duration::from_secs(45);
/// For a strike to be over, a restart on a busy machine among it.
const STRIKE_WITHIN: Duration = Duration::from_secs(60);
/// From the end of trouble until a client has its connection back: its longest pause between attempts, and the call that
/// met the trouble.
const COMES_BACK: Duration = Duration::from_millis(1500);
/// For so long a restarted master has no vote: the longest lease, and its margin.
const QUARANTINE: Duration = Duration::from_millis(1200);
/// Most of a wait with enough sound masters: holds of others that last up to 1.5 s each, at most six of them before.
const UNEXPLAINED: Duration = Duration::from_secs(15);

/// Part of the strikes in which a worker is killed and another one begins.
const RELIEF: f64 = 0.2;
const TELLS_WITHIN: Duration = Duration::from_secs(1);

const ROW: Row = Row {
    name: "Toxiproxy",
    promise: "exclusion, tokens, jobs, waits that the faults explain",
    ..REMEMBERED
};

/// Notes beside the book.
#[derive(Debug, Default)]
struct Notes {
    windows: Vec<Window>,
    /// How often each kind of trouble struck.
    struck: BTreeMap<String, usize>,
    pairs: u64,
    /// Refusals of load that no fault explains.
    wrong: u64,
    /// The longest wait of each worker's tasks in one line.
    in_line: Vec<(Micros, Micros)>,
}

impl Notes {
    fn add(&mut self, told: Told) {
        self.pairs += told.pairs;
        self.wrong += told.wrong;
        self.in_line.push(told.longest);
    }
}

/// Whether all promises were kept.
pub async fn run(seed: u64, length: Duration, broken: bool) -> Result<bool> {
    let length = if length.is_zero() { DEFAULT_LENGTH } else { length };
    let orders = Orders {
        seed,
        rounds: 0,
        broken,
        load: LOAD,
        patience: PATIENCE,
        toxiproxy: true,
    };
    let witness = Arc::new(Witness::start().await?);
    let begun = std::time::Instant::now();
    let mut notes = Notes::default();
    let playing = AssertUnwindSafe(play(orders, length, &witness, &mut notes)).catch_unwind();
    let outcome = playing.await.unwrap_or_else(|panic| Err(anyhow!(words(&*panic))));
    let mut history = History {
        seed,
        masters: MASTERS,
        events: witness.events(),
        ..History::default()
    };
    match outcome {
        Ok(left_over) => history.left_over = left_over,
        Err(error) => history.error = Some(format!("{error:#}")),
    }
    history.findings = ByLayout::check(&history.events, LONG, ROW.back_within);
    history.took = begun.elapsed();
    let mut waits = longest(&history.events, &notes.windows, MASTERS);
    waits.insert("in one line, by worker", in_line(&notes));
    let mut wrong = judge(&ROW, &history);
    wrong.extend(judge_waits(&waits));
    wrong.extend(judge_notes(&notes, length));
    println!("{}", table(&waits));
    let holds: usize = history.findings.each().map(|(_, found)| found.holds).iter().sum();
    let strikes = notes.windows.len();
    if !wrong.is_empty() {
        let line = Line {
            row: ROW,
            verdict: verdict(&ROW, &wrong),
            history,
            wrong: wrong.clone(),
        };
        println!("{}", report::trouble(&line));
    }
    println!(
        "chaos-toxiproxy: seconds={} strikes={strikes} kinds={} holds={holds} load={} wrong={}",
        length.as_secs(),
        notes.struck.len(),
        notes.pairs,
        wrong.len()
    );
    Ok(wrong.is_empty())
}

/// Returns the keys that are left on the masters in the end.
async fn play(
    orders: Orders,
    length: Duration,
    witness: &Arc<Witness>,
    notes: &mut Notes,
) -> Result<Vec<String>> {
    let mut stage = Stage::open(ROW.set_up, MASTERS, orders, Arc::clone(witness)).await?;
    stage.breaks("toxics, proxies that are off, masters that are killed and frozen");
    let end = Instant::now() + length;
    let mut deck = Deck::default();
    while Instant::now() < end {
        let striking = timeout(STRIKE_WITHIN, strike(&mut stage, &mut deck, notes));
        striking
            .await
            .with_context(|| format!("a strike is not over within {STRIKE_WITHIN:?}"))??;
        stage.pause(100, 1500).await;
        stage.check()?;
    }
    stage.healed(ROW.back_within).await?;
    for told in ask_all(&mut stage, "tell").await? {
        notes.add(told);
    }
    stage.close().await
}

/// One to three masters, each with trouble of its own.
async fn strike(stage: &mut Stage, deck: &mut Deck, notes: &mut Notes) -> Result<()> {
    let count = stage.rng.random_range(1..=3);
    let masters = stage.some(count);
    let from = now();
    let mut all = Vec::new();
    for &master in &masters {
        let trouble = deck.draw(&mut stage.rng);
        *notes.struck.entry(trouble.to_string()).or_default() += 1;
        all.push(Struck::begin(stage, trouble, master).await?);
    }
    let texts: Vec<String> = all
        .iter()
        .map(|struck| format!("{} {}", struck.master, struck.trouble))
        .collect();
    stage.breaks(texts.join(", "));
    if stage.rng.random_bool(RELIEF) {
        relieve(stage, notes).await?;
    }
    let lasts = stage.rng.random_range(200..=2500);
    sleep(Duration::from_millis(lasts)).await;
    for struck in &all {
        struck.end(stage).await?;
    }
    let is_killed = all.iter().any(|struck| struck.trouble.ends_in_quarantine());
    let after = COMES_BACK + if is_killed { QUARANTINE } else { Duration::ZERO };
    let to = now() + Micros::try_from(after.as_micros())?;
    notes.windows.push(Window { masters, from, to });
    Ok(())
}

/// Kills a worker, and has another one begin while masters are struck: its first waits know no clock of theirs.
async fn relieve(stage: &mut Stage, notes: &mut Notes) -> Result<()> {
    let place = stage.rng.random_range(0..WORKERS);
    let number = stage.workers.iter().find(|worker| worker.place == place);
    let number = number.context("a worker of each place")?.number;
    // A worker that has just begun listens only once it is connected.
    if let Ok(Ok(told)) = timeout(TELLS_WITHIN, stage.worker(number)?.ask("tell")).await {
        notes.add(told.parse()?);
    }
    stage.breaks(format!("worker {number} is killed, another one begins"));
    stage.worker(number)?.kill();
    stage.workers.retain(|worker| worker.number != number);
    stage.hire(place)
}

/// The waits in one line, as a kind of their own.
fn in_line(notes: &Notes) -> Longest {
    let mut longest = Longest {
        grants: notes.in_line.len(),
        ..Longest::default()
    };
    for &(from, to) in &notes.in_line {
        let sound = sound(&notes.windows, MASTERS, MASTERS / 2 + 1, from, to);
        longest.wait = longest.wait.max(Duration::from_micros(to - from));
        longest.unexplained = longest.unexplained.max(Duration::from_micros(sound));
    }
    longest
}

fn judge_waits(waits: &BTreeMap<&'static str, Longest>) -> Vec<Wrong> {
    let long = waits
        .iter()
        .filter(|(_, longest)| longest.unexplained > UNEXPLAINED);
    long.map(|(kind, longest)| {
        let who = longest.waiter.map_or(String::new(), |(task, _)| format!(" by {task}"));
        let (wait, sound) = (longest.wait, longest.unexplained);
        Wrong {
            verdict: Verdict::Violation,
            what: format!("'{kind}' was waited for{who} while enough masters were sound for {sound:?} (longest wait {wait:?})"),
            at: longest.waiter.map(|(_, from)| from),
            layout: None,
        }
    })
    .collect()
}

/// Faults that keep the run from showing anything.
fn judge_notes(notes: &Notes, length: Duration) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut say = |what: String| {
        wrong.push(Wrong {
            verdict: Verdict::Unexpected,
            what,
            at: None,
            layout: None,
        });
    };
    let all = Trouble::all().len();
    if length >= DEFAULT_LENGTH && notes.struck.len() < all {
        say(format!("{} of {all} kinds of trouble struck", notes.struck.len()));
    }
    if notes.wrong > 0 {
        say(format!("{} refusals of load that no fault explains", notes.wrong));
    }
    wrong
}

fn table(waits: &BTreeMap<&'static str, Longest>) -> String {
    let mut text = format!(
        "{:<22} {:>7} {:>9} {:>12}\n",
        "kind", "grants", "longest s", "of it sound"
    );
    for (kind, longest) in waits {
        let _ = writeln!(text, "{kind:<22} {longest}");
    }
    text
}
