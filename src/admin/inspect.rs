//! What the masters say about a name.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::node::Slot;
use crate::protocol::calls;
use crate::protocol::reply::{self, FieldEntry, Report, StoredName};
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::votes::Vote;

/// Beside its holders, a read/write lock keeps in which mode it is held.
const MODE: &str = "mode";

/// What clients of this crate read has this field, whatever its mode says (`lua/readers.lua`).
const READ_UNTIL: &str = "multilock";

/// The entries of a hash that stand for holders.
pub(crate) fn owners(entry: &StoredName) -> impl Iterator<Item = &FieldEntry> {
    let is_owner = |entry: &&FieldEntry| ![MODE, READ_UNTIL].contains(&entry.field.as_str());
    entry.fields.iter().filter(is_owner)
}

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
    /// Written under a read/write lock, of this crate or of Redisson.
    Write {
        /// Whose it is.
        holder: Holder,
        /// How often it was entered, as last told to this master.
        count: u64,
        /// Time until it expires unless renewed; `None` when the key has no expiry.
        remaining: Option<Duration>,
    },
    /// Read under a read/write lock, of this crate or of Redisson.
    Read {
        /// Who reads. Of Redisson's, some whose lease has ended stay among them until others come or leave.
        holders: Vec<Holder>,
        /// Time until the last of them has to be gone unless renewed; `None` when the key has no expiry.
        remaining: Option<Duration>,
    },
    /// A key that is no lock of these kinds: another library's; or read by more than 8,192, or 1,024 of Redisson's.
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
    /// Those who read it, as far as enough masters agree on each.
    pub readers: Vec<Holder>,
    /// How many wait for it, by the master that has most of them in its queue. Of each process only one task in front
    /// of its line counts. Who has just gone may still be among them.
    pub waiting: u64,
    /// How many of these wait to read. Of a process's only one does, until it has been let in.
    pub waiting_to_read: u64,
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
        let entries = sights.iter().flatten().map(|report| &report.entries[index]);
        let most = entries.max_by_key(|entry| entry.waiting);
        most.map_or((0, 0), |entry| (entry.waiting, entry.waiting_to_read))
    };
    let quarantined = quarantined(pool);
    names
        .iter()
        .enumerate()
        .map(|(index, name)| (name, states(index), waiting(index)))
        .map(|(name, states, (waiting, waiting_to_read))| Inspection {
            waiting,
            waiting_to_read,
            readers: readers(&states, needed),
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

fn read(entry: &StoredName) -> NodeState {
    let remaining = entry.remaining;
    let foreign = || NodeState::Foreign {
        kind: entry.kind.clone(),
        remaining,
    };
    let value = |name: &str| {
        let mut fields = entry.fields.iter();
        Some(fields.find(|entry| entry.field == name)?.value.as_str())
    };
    let of = |entry: &FieldEntry| Holder::new(entry.field.as_str(), entry.label.clone());
    let only = || {
        let mut owners = owners(entry);
        let (Some(owner), None) = (owners.next(), owners.next()) else {
            return None;
        };
        Some((of(owner), owner.value.parse().ok()?))
    };
    if entry.kind != "hash" {
        return if entry.kind == "none" {
            NodeState::Free
        } else {
            foreign()
        };
    }
    let mode = if value(READ_UNTIL).is_some() {
        Some("read")
    } else {
        value(MODE)
    };
    match mode {
        Some("read") => NodeState::Read {
            holders: owners(entry).map(of).collect(),
            remaining,
        },
        Some("write") => only().map_or_else(foreign, |(holder, count)| NodeState::Write {
            holder,
            count,
            remaining,
        }),
        Some(_) => foreign(),
        None => only().map_or_else(foreign, |(holder, count)| NodeState::Held {
            holder,
            count,
            remaining,
        }),
    }
}

fn agreed(states: &[NodeState], needed: usize) -> Option<Holder> {
    let holders = states.iter().filter_map(|state| match state {
        NodeState::Held { holder, .. } | NodeState::Write { holder, .. } => Some(holder),
        _ => None,
    });
    on_enough(holders.collect(), needed).into_iter().next()
}

fn readers(states: &[NodeState], needed: usize) -> Vec<Holder> {
    let holders = states.iter().flat_map(|state| match state {
        NodeState::Read { holders, .. } => holders.as_slice(),
        _ => &[],
    });
    on_enough(holders.collect(), needed)
}

/// Those that are on so many masters; each with its label, if any of these knows it.
fn on_enough(mut holders: Vec<&Holder>, needed: usize) -> Vec<Holder> {
    holders.sort_unstable_by(|one, other| one.owner.cmp(&other.owner));
    let same = holders
        .chunk_by(|one, other| one == other)
        .filter(|same| same.len() >= needed);
    let told = |same: &[&Holder]| {
        let known = same.iter().find(|holder| holder.client_label().is_some());
        Holder::clone(known.unwrap_or(&same[0]))
    };
    same.map(told).collect()
}
