//! Connections of clients to masters, over a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use multilock::{ClientConnection, Examination, MastersBuilder};
use tokio::time::{Instant, sleep};

use super::together::usable;
use crate::exit::Failure;

/// Pause between two looks.
const EVERY: Duration = Duration::from_millis(500);

/// Clients at all looks.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Clients by their ids.
    pub(super) pools: BTreeMap<String, Pool>,
    /// Time from the end of the first look to the beginning of the last one.
    pub(super) lasted: Duration,
    /// Whether each master can be used, and reported its clients at every look.
    reported: Vec<bool>,
    looks: usize,
}

/// Connections of one client.
#[derive(Debug)]
pub(super) struct Pool {
    /// Number of masters that it lists.
    pub(super) masters: usize,
    /// Addresses of its connections.
    pub(super) addresses: BTreeSet<String>,
    /// Indices of the masters on which it was seen at any look.
    pub(super) seen_on: BTreeSet<usize>,
    /// Whether it was seen at every look.
    is_lasting: bool,
}

impl Watched {
    /// Indices of the masters that the client is missing on, if it has been on some master at every look.
    pub(super) fn missing<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = usize> + 'a {
        let reported = self
            .reported
            .iter()
            .enumerate()
            .filter(|(_, reported)| **reported);
        reported
            .map(|(node, _)| node)
            .filter(|node| pool.is_lasting && !pool.seen_on.contains(node))
    }

    fn is_anybody_missing(&self) -> bool {
        self.pools
            .values()
            .any(|pool| self.missing(pool).next().is_some())
    }

    /// Takes in the reports of the masters.
    fn look<'a>(&mut self, reports: impl Iterator<Item = Option<&'a [ClientConnection]>>) {
        let is_first = self.looks == 0;
        self.looks += 1;
        let mut there = BTreeSet::new();
        for (node, clients) in reports.enumerate() {
            self.reported[node] &= clients.is_some();
            for client in clients.unwrap_or_default() {
                there.insert(client.pool.as_str());
                let pool = self.pools.entry(client.pool.clone()).or_insert_with(|| Pool {
                    masters: client.masters,
                    addresses: BTreeSet::new(),
                    seen_on: BTreeSet::new(),
                    is_lasting: is_first,
                });
                pool.addresses.insert(client.address.clone());
                pool.seen_on.insert(node);
            }
        }
        for (id, pool) in &mut self.pools {
            pool.is_lasting &= there.contains(id.as_str());
        }
    }
}

/// Repeats the look while a client is connected to some masters and missing on others, at most for the given
/// time. The first look was the masters' examination. `waiting` gets the rest of the time.
pub(super) async fn watch(
    builder: &MastersBuilder,
    masters: &[Examination],
    watch_for: Duration,
    mut waiting: impl FnMut(Duration),
) -> Result<Watched, Failure> {
    let begun = Instant::now();
    let mut watched = Watched {
        reported: masters.iter().map(|master| usable(master).is_some()).collect(),
        ..Watched::default()
    };
    let examined = masters.iter().map(|master| master.server.as_ref().ok());
    watched.look(examined.map(|facts| facts?.clients.as_deref()));
    while watched.is_anybody_missing() && watched.lasted < watch_for {
        waiting(watch_for.saturating_sub(begun.elapsed()));
        sleep(EVERY.min(watch_for.saturating_sub(begun.elapsed()))).await;
        watched.lasted = begun.elapsed();
        let reports = builder.clone().clients().await?;
        watched.look(reports.iter().map(|report| report.as_deref().ok()));
    }
    Ok(watched)
}
