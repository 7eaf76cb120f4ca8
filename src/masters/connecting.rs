//! Waits for the first connections, until a majority of fit masters is connected or impossible.

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::error::{ConnectError, NodeError, Unfit};
use crate::node::{Reached, Slot};
use crate::round::pool::Pool;
use crate::values::policy::Policy;

/// Waits until a majority of the masters is connected. Then waits for the others: one node timeout more, or the whole
/// connect timeout if all masters are required.
pub(crate) async fn until_connected(pool: &Pool) -> Result<(), ConnectError> {
    let (config, slots) = (&pool.config, &pool.slots);
    let needed = Policy::RedLock.needed(slots.len());
    let may_be_unfit = if config.require_all {
        0
    } else {
        slots.len() - needed
    };
    let mut reports = vec![Err(NodeError::Connecting); slots.len()];
    let mut reached = 0;
    let arriving = slots.iter().enumerate();
    let mut arriving: FuturesUnordered<_> = arriving
        .map(|(node, slot)| async move { (node, first_report(slot).await) })
        .collect();
    // A record is stored once every other master has reported its own, or once its connect timeout has
    // passed.
    let mut end = Instant::now() + config.connect_timeout + config.node_timeout;
    while let Ok(Some((node, report))) = timeout_at(end, arriving.next()).await {
        reached += usize::from(report.is_ok());
        reports[node] = report;
        if let Some(refusal) = refusal(slots, &reports, may_be_unfit) {
            return Err(refusal);
        }
        if reached >= needed && !config.require_all {
            // The first time counts, because each later end would be later.
            end = end.min(Instant::now() + config.node_timeout);
        }
    }
    if reached >= needed {
        return Ok(());
    }
    let labels = slots.iter().map(|slot| Arc::clone(slot.label()));
    Err(ConnectError::TooFew {
        reached,
        needed,
        nodes: labels.zip(reports.into_iter().map(Result::err)).collect(),
    })
}

/// Result of the first attempt to connect to a master.
async fn first_report(slot: &Slot) -> Result<(), NodeError> {
    let mut status = slot.watch();
    let reached = status
        .wait_for(|status| !matches!(status, Reached::Connecting))
        .await;
    match reached.as_deref() {
        Ok(Reached::Up) => Ok(()),
        Ok(Reached::Down(error)) => Err(error.clone()),
        Ok(Reached::Connecting) | Err(_) => Err(NodeError::Connecting),
    }
}

/// Reason why no further answer can help: more masters are unfit than may be, or one is in another set, so that
/// none may be used.
fn refusal(
    slots: &[Arc<Slot>],
    reports: &[Result<(), NodeError>],
    may_be_unfit: usize,
) -> Option<ConnectError> {
    let unfit: Vec<_> = reports
        .iter()
        .zip(slots)
        .filter_map(|(report, slot)| match report {
            Err(NodeError::Unfit(reason)) => Some((slot, reason)),
            _ => None,
        })
        .collect();
    let mut elsewhere = unfit
        .iter()
        .filter(|(_, reason)| matches!(reason, Unfit::OtherSet { .. }));
    let too_many = || unfit.first().filter(|_| unfit.len() > may_be_unfit);
    let (slot, reason) = *elsewhere.next().or_else(too_many)?;
    Some(ConnectError::Unfit {
        node: Arc::clone(slot.label()),
        reason: reason.clone(),
    })
}
