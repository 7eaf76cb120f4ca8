//! Takes the charter away from all masters, looks at them again, and puts it back where it has to be.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use redis::Value;
use tokio::time::sleep;

use super::commands;
use super::labels::labels;
use super::look::{Objections, Rules, look_at_all, objections};
use super::master::{Master, Stored};
use crate::error::{NodeError, Objection, ResetError};
use crate::events::log;
use crate::node::questions::unexpected;
use crate::stored_charter::NodeCharter;

/// How often a master is asked to store again what it had, and how long in between after the second time.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// All of that. `longest` is the longest lease that any of them has told of.
pub(super) async fn take_away(
    masters: Vec<Master>,
    stored: Vec<Stored>,
    rules: Rules,
    longest: Duration,
) -> Result<(), ResetError> {
    let against = match taken_away(&masters, &stored).await {
        objections if objections.is_empty() => came_meanwhile(&masters, rules, longest).await,
        objections => objections,
    };
    if against.is_empty() {
        log::charter_lowered(longest);
        return Ok(());
    }
    let putting_back = masters.iter().zip(&stored).map(async |(master, stored)| {
        let failed = put_back(master, &stored.charter, masters.len()).await.err();
        failed.map(|error| (Arc::clone(&master.label), error))
    });
    let missing: Vec<_> = join_all(putting_back).await.into_iter().flatten().collect();
    log::charter_put_back(against.len(), missing.len());
    // Not before: until then masters lack what clients rely upon.
    let labels = labels(&masters, &against).await;
    Err(ResetError::PutBack {
        objections: against,
        labels,
        missing,
    })
}

/// Takes it away where it stands as it was read. What kept it from that, if anything.
async fn taken_away(masters: &[Master], stored: &[Stored]) -> Objections {
    let taking = masters.iter().zip(stored).map(async |(master, stored)| {
        let objection = match take_away_from(master, &stored.text).await {
            Ok(Value::Int(1)) => return None,
            Ok(Value::Int(0)) => raised(master).await,
            Ok(Value::Int(-1)) => NodeError::Unavailable("it was asked too late".to_owned()).into(),
            Ok(other) => unexpected("EVAL", &other).into(),
            Err(error) => error.into(),
        };
        Some((Arc::clone(&master.label), objection))
    });
    join_all(taking).await.into_iter().flatten().collect()
}

/// What is stuck on its way does nothing after the time for which it is waited for.
async fn take_away_from(master: &Master, text: &str) -> Result<Value, NodeError> {
    let patience = u64::try_from(master.patience().as_micros()).unwrap_or(u64::MAX);
    let latest_us = master.clock_us().await?.saturating_add(patience);
    master.answer(&commands::take_away(text, latest_us)).await
}

async fn raised(master: &Master) -> Objection {
    master.stored().await.map_or_else(Objection::from, |stored| {
        let NodeCharter {
            longest, raised_by, ..
        } = stored.charter;
        Objection::Raised {
            longest,
            by: raised_by,
        }
    })
}

/// What is to be seen on the masters now that was not before.
async fn came_meanwhile(masters: &[Master], rules: Rules, longest: Duration) -> Objections {
    let told = look_at_all(masters, rules).await;
    let mut against = objections(masters, &told, rules, longest);
    for (master, told) in masters.iter().zip(&told) {
        let Some(stored) = told.as_ref().ok().map(|told| &told.stored) else {
            continue;
        };
        if !stored.text.is_empty() {
            let objection = Objection::Raised {
                longest: stored.charter.longest,
                by: stored.charter.raised_by.clone(),
            };
            against.push((Arc::clone(&master.label), objection));
        }
    }
    against
}

/// Stores again what stood there, over a new connection where the old one has ended.
async fn put_back(master: &Master, stood: &NodeCharter, listed: usize) -> Result<(), NodeError> {
    if stood.longest.is_zero() {
        return Ok(());
    }
    let command = commands::put_back(stood, listed);
    // On the connection on which it was taken away it comes behind that.
    let mut answer = master.answer(&command).await;
    // On another one, that must not come behind it.
    let mut pause = master.patience();
    for _ in 1..ATTEMPTS {
        if answer.is_ok() {
            break;
        }
        sleep(pause).await;
        pause = PAUSE;
        answer = master.open_again().await.answer(&command).await;
    }
    answer.map(drop)
}
