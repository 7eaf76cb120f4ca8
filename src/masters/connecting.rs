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
    let config = &pool.config;
    let mut reports = FirstReports::new(&pool.slots, config.require_all);
    let slots = pool.slots.iter().enumerate();
    let mut arriving: FuturesUnordered<_> = slots
        .map(|(node, slot)| async move { (node, first_report(slot).await) })
        .collect();
    // A record is stored once every other master has reported its own, or once its connect timeout has
    // passed.
    let mut end = Instant::now() + config.connect_timeout + config.node_timeout;
    while let Ok(Some((node, report))) = timeout_at(end, arriving.next()).await {
        reports.all[node] = report;
        if let Some(refusal) = reports.refusal() {
            return Err(refusal);
        }
        if reports.are_enough() && !config.require_all {
            // The first time counts, because each later end would be later.
            end = end.min(Instant::now() + config.node_timeout);
        }
    }
    if reports.are_enough() {
        return Ok(());
    }
    Err(reports.too_few())
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

/// Results of the first attempts to connect so far.
struct FirstReports<'a> {
    slots: &'a [Arc<Slot>],
    all: Vec<Result<(), NodeError>>,
    needed: usize,
    /// Number of masters that may be unfit.
    spare: usize,
}

impl<'a> FirstReports<'a> {
    fn new(slots: &'a [Arc<Slot>], require_all: bool) -> Self {
        let needed = Policy::RedLock.needed(slots.len());
        Self {
            slots,
            all: vec![Err(NodeError::Connecting); slots.len()],
            needed,
            spare: if require_all { 0 } else { slots.len() - needed },
        }
    }

    fn reached(&self) -> usize {
        self.all.iter().filter(|report| report.is_ok()).count()
    }

    fn are_enough(&self) -> bool {
        self.reached() >= self.needed
    }

    /// Reason why no further answer can help: too many masters are unfit, or one is in another set, so that
    /// none may be used.
    fn refusal(&self) -> Option<ConnectError> {
        let reports = self.all.iter().zip(self.slots);
        let unfit: Vec<_> = reports
            .filter_map(|(report, slot)| match report {
                Err(NodeError::Unfit(reason)) => Some((slot, reason)),
                _ => None,
            })
            .collect();
        let mut elsewhere = unfit
            .iter()
            .filter(|(_, reason)| matches!(reason, Unfit::OtherSet { .. }));
        let too_many = || unfit.first().filter(|_| unfit.len() > self.spare);
        let (slot, reason) = *elsewhere.next().or_else(too_many)?;
        Some(ConnectError::Unfit {
            node: Arc::clone(slot.label()),
            reason: reason.clone(),
        })
    }

    fn too_few(self) -> ConnectError {
        let labels = self.slots.iter().map(|slot| Arc::clone(slot.label()));
        ConnectError::TooFew {
            reached: self.reached(),
            needed: self.needed,
            nodes: labels.zip(self.all.into_iter().map(Result::err)).collect(),
        }
    }
}
