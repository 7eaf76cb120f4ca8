//! One history: a fault strikes several times while workers contend, then the book is read.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::future::FutureExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, timeout};

use crate::calls::{self, Promises};
use crate::checker::ByLayout;
use crate::event::Event;
use crate::faults::{Expect, Row};
use crate::stage::{Orders, Stage};
use crate::support::linearizability::Judgement;
use crate::witness::Witness;

/// Bound for one history, in any case.
const WITHIN: Duration = Duration::from_secs(180);
/// More strikes where something is to be seen: a rival may come too late to show it.
const MORE: usize = 24;
/// No strike more begins after this time. On a slow machine the bound for one history would end it, which is no verdict.
const MORE_WITHIN: Duration = Duration::from_secs(90);
/// Of a fault that lasts for less nothing can be said about progress during it.
pub const LONG: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct History {
    pub seed: u64,
    pub masters: usize,
    pub events: Vec<Event>,
    pub findings: ByLayout,
    /// Findings of the linearizability checker.
    pub linearizable: Judgement,
    pub left_over: Vec<String>,
    /// Error that kept it from its end.
    pub error: Option<String>,
    pub took: Duration,
}

pub async fn run(row: &Row, orders: Orders) -> History {
    let begun = Instant::now();
    let few = StdRng::seed_from_u64(orders.seed).random_bool(0.5);
    let mut history = History {
        seed: orders.seed,
        masters: if few { 3 } else { 5 },
        ..History::default()
    };
    let witness = match Witness::start().await {
        Ok(witness) => Arc::new(witness),
        Err(error) => {
            history.error = Some(format!("{error:#}"));
            return history;
        }
    };
    // A server that cannot be started or broken panics; that is a word on this history alone.
    let playing = AssertUnwindSafe(play(row, history.masters, orders, &witness)).catch_unwind();
    let outcome = match timeout(WITHIN, playing).await {
        Ok(Ok(outcome)) => outcome.map(|left_over| history.left_over = left_over),
        Ok(Err(panic)) => Err(anyhow!(words(&*panic))),
        Err(_) => Err(anyhow!("not over within {WITHIN:?}")),
    };
    history.error = outcome.err().map(|error| format!("{error:#}"));
    history.events = witness.events();
    history.findings = ByLayout::check(&history.events, LONG, row.back_within);
    history.linearizable = linearizable(&history.events, row);
    history.took = begun.elapsed();
    history
}

/// Judges the calls by the promises of the row.
pub fn linearizable(events: &[Event], row: &Row) -> Judgement {
    let promises = Promises {
        exclusion: row.overlaps == Expect::Never,
        tokens: row.tokens,
    };
    calls::of(events, promises).judge()
}

/// Text of a panic.
pub fn words(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    words.unwrap_or_else(|| "a panic".to_owned())
}

/// Returns the keys that are left on the masters in the end.
async fn play(row: &Row, masters: usize, orders: Orders, witness: &Arc<Witness>) -> Result<Vec<String>> {
    let mut stage = Stage::open(row.set_up, masters, orders, Arc::clone(witness)).await?;
    strikes(row, orders, &mut stage).await?;
    stage.close().await
}

async fn strikes(row: &Row, orders: Orders, stage: &mut Stage) -> Result<()> {
    if let Some(prepare) = row.prepare {
        prepare(stage).await?;
    }
    let begun = Instant::now();
    for round in 0..orders.rounds + MORE {
        let is_late = begun.elapsed() > MORE_WITHIN;
        if round >= orders.rounds && (is_late || seen(row, &stage.witness.events())) {
            break;
        }
        stage.pause(0, 300).await;
        (row.strike)(stage).await?;
        stage.healed(row.back_within).await?;
    }
    Ok(())
}

/// Whether everything has been seen that the row is to show, of either layout.
fn seen(row: &Row, events: &[Event]) -> bool {
    let found = ByLayout::check(events, LONG, row.back_within);
    let found = found.each();
    (row.overlaps != Expect::Seen || found.iter().any(|(_, found)| !found.overlaps.is_empty()))
        && (row.stale != Expect::Seen || found.iter().any(|(_, found)| !found.stale.is_empty()))
}
