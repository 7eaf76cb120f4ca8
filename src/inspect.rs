//! What the masters say about a name.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::holder::Holder;
use crate::names::Names;
use crate::node::Slot;
use crate::protocol::calls;
use crate::protocol::reply::{self, Entry, Report};
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::votes::Vote;

/// What one master keeps under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// Nothing.
    Free,
    /// A hold of this crate or of Redisson.
    Held {
        /// Whose.
        holder: Holder,
        /// How often it was entered, as last told to this master.
        count: u64,
        /// Time until it expires unless renewed; `None` when the key has no expiry.
        remaining: Option<Duration>,
    },
    /// A key that is no reentrant lock: another library's, or a Redisson read/write lock.
    Foreign {
        /// Its Redis type.
        kind: String,
        /// Time until it expires; `None` when it has no expiry.
        remaining: Option<Duration>,
    },
    /// The master did not say.
    Silent(Vote),
}

/// What every master says about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The name.
    pub name: String,
    /// Every master's address and what it keeps, in the order of the configuration.
    pub nodes: Vec<(Arc<str>, NodeState)>,
    /// The holder that enough masters agree on for the policy of the lock that was inspected.
    pub agreed: Option<Holder>,
    /// How many wait for it, by the master that has most of them in its queue. Of each process only one task in front
    /// of its line counts. Who has just gone may still be among them.
    pub waiting: u64,
    /// The masters that have no vote at the moment because they may have forgotten who holds, and for
    /// how much longer.
    pub quarantined: Vec<(Arc<str>, Duration)>,
}

/// What every master says of the names, or its vote where it says nothing. Waits for each, at most the
/// node deadline.
pub(crate) async fn look(pool: &Arc<Pool>, names: &Names) -> Vec<Result<Report, Vote>> {
    let mut sights = vec![Err(Vote::Pending); pool.slots.len()];
    let mut round = Round::begin(pool, &calls::inspect(names), Trust::All, |_| true);
    while let Some((node, answer)) = round.next().await {
        sights[node] = reply::inspected(answer, names.len());
    }
    sights
}

/// Who holds each of the names, as every master sees it.
pub(crate) async fn inspect(pool: &Arc<Pool>, names: &Names, needed: usize) -> Vec<Inspection> {
    let sights = look(pool, names).await;
    let states = |index: usize| -> Vec<NodeState> {
        let state = |sight: &Result<Report, Vote>| match sight {
            Ok(report) => read(&report.entries[index]),
            Err(vote) => NodeState::Silent(vote.clone()),
        };
        sights.iter().map(state).collect()
    };
    let waiting = |index: usize| {
        let reports = sights.iter().flatten();
        reports
            .map(|report| report.entries[index].waiting)
            .max()
            .unwrap_or(0)
    };
    let quarantined = quarantined(pool);
    names
        .iter()
        .enumerate()
        .map(|(index, name)| (name, states(index), waiting(index)))
        .map(|(name, states, waiting)| Inspection {
            waiting,
            name: pool.config.namespace.own(name).to_owned(),
            quarantined: quarantined.clone(),
            agreed: agreed(&states, needed),
            nodes: pool
                .slots
                .iter()
                .map(|slot| Arc::clone(slot.label()))
                .zip(states)
                .collect(),
        })
        .collect()
}

fn quarantined(pool: &Pool) -> Vec<(Arc<str>, Duration)> {
    let now = Instant::now();
    let remaining = |slot: &Slot| slot.link().map_or(Duration::ZERO, |link| link.quarantine(now));
    pool.slots
        .iter()
        .map(|slot| (Arc::clone(slot.label()), remaining(slot)))
        .filter(|(_, remaining)| !remaining.is_zero())
        .collect()
}

fn read(entry: &Entry) -> NodeState {
    let remaining = entry.remaining;
    match entry.fields.as_slice() {
        _ if entry.kind == "none" => NodeState::Free,
        [(owner, count)] if entry.kind == "hash" => match count.parse() {
            Ok(count) => NodeState::Held {
                holder: Holder(owner.as_str().into()),
                count,
                remaining,
            },
            Err(_) => NodeState::Foreign {
                kind: entry.kind.clone(),
                remaining,
            },
        },
        _ => NodeState::Foreign {
            kind: entry.kind.clone(),
            remaining,
        },
    }
}

fn agreed(states: &[NodeState], needed: usize) -> Option<Holder> {
    let holders = || {
        states.iter().filter_map(|state| match state {
            NodeState::Held { holder, .. } => Some(holder),
            _ => None,
        })
    };
    holders()
        .find(|candidate| holders().filter(|holder| holder == candidate).count() >= needed)
        .cloned()
}
