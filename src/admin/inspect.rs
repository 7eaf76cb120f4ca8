//! Reads the state of names on the masters.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::node::Slot;
use crate::protocol::calls;
use crate::protocol::kind::HoldKind;
use crate::protocol::reply::{self, FieldEntry, FirstWaiting, Report, StoredName};
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::values::holder::{Holder, WRITER};
use crate::values::last_force::LastForce;
use crate::values::names::Names;
use crate::values::token::FencingToken;
use crate::values::votes::Vote;

/// Field of a read/write lock, beside its holders, with the mode in which it is held.
const MODE: &str = "mode";

/// Field of a name that clients of this crate read, whatever mode it has (`lua/readers.lua`).
const READ_UNTIL: &str = "multilock";

/// Entries of a hash that stand for holders.
pub(crate) fn owners(entry: &StoredName) -> impl Iterator<Item = &FieldEntry> {
    let is_owner = |entry: &&FieldEntry| ![MODE, READ_UNTIL].contains(&entry.field.as_str());
    entry.fields.iter().filter(is_owner)
}

/// Whether a hash has owners, and no field of another program.
fn has_owners_alone(entry: &StoredName) -> bool {
    owners(entry).next().is_some() && owners(entry).all(|owner| count_of(owner).is_some())
}

/// Count of a hold; `None` for a field that is no owner with its count, as in the hash of another program.
pub(crate) fn count_of(entry: &FieldEntry) -> Option<u64> {
    // An owner is a client and a number of it.
    let is_owner = entry.field.contains(':');
    entry.value.parse().ok().filter(|_| is_owner)
}

/// Whether clients of this crate read the name.
fn is_read(entry: &StoredName) -> bool {
    entry.fields.iter().any(|entry| entry.field == READ_UNTIL)
}

/// Mode in which a name is held; `None` for a plain lock.
fn mode(entry: &StoredName) -> Option<&str> {
    if is_read(entry) {
        return Some("read");
    }
    let mut fields = entry.fields.iter();
    Some(fields.find(|entry| entry.field == MODE)?.value.as_str())
}

/// The holder of a name that nobody shares, and its count; `None` for a name that is read, and for another program's hash.
pub(crate) fn only_holder(entry: &StoredName) -> Option<(&FieldEntry, u64)> {
    let mode = mode(entry);
    if !matches!(mode, None | Some("write")) {
        return None;
    }
    let is_writer = |owner: &&FieldEntry| mode.is_some() && owner.field.ends_with(WRITER);
    let holder = match owners(entry).find(is_writer) {
        // A writer of Redisson's that reads as well has a field for each.
        Some(writer) if has_owners_alone(entry) => writer,
        _ => owners(entry).next().filter(|_| owners(entry).count() == 1)?,
    };
    Some((holder, count_of(holder)?))
}

/// Holder that stands for an entry of a hash, as people know it.
pub(crate) fn holder_of(entry: &FieldEntry) -> Holder {
    let facts = &entry.facts;
    Holder::new(entry.field.as_str(), facts.label.clone(), facts.about.clone())
}

/// State of one name on one master.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// No key.
    Free,
    /// A hold of this crate or of Redisson.
    Held {
        /// Holder of the name.
        holder: Holder,
        /// Hold count, as the master knows it. With 0 nobody holds the name, which stays locked for
        /// [`MultiLock::at_least`](crate::MultiLock::at_least).
        count: u64,
        /// Time until it expires unless renewed; `None` if the key has no expiry.
        remaining: Option<Duration>,
    },
    /// Written under a read/write lock, of this crate or of Redisson.
    Write {
        /// Holder of the name.
        holder: Holder,
        /// Hold count, as the master knows it.
        count: u64,
        /// Time until it expires unless renewed; `None` if the key has no expiry.
        remaining: Option<Duration>,
    },
    /// Read under a read/write lock, of this crate or of Redisson.
    Read {
        /// Readers. Some of Redisson's stay in the list after the end of their lease, until others come or
        /// leave.
        holders: Vec<Holder>,
        /// Time until the last lease ends unless renewed; `None` if the key has no expiry.
        remaining: Option<Duration>,
    },
    /// Another key: a lock of another library, or one with more than 8,192 readers, or 1,024 of Redisson's.
    Foreign {
        /// Redis type of the key.
        kind: String,
        /// Time until it expires; `None` if it has no expiry.
        remaining: Option<Duration>,
    },
    /// No report of the master; its vote is the reason.
    Silent(Vote),
}

/// State of one name on all masters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Name of the lock.
    pub name: String,
    /// Address and state of every master, in the order of the configuration.
    pub nodes: Vec<(Arc<str>, NodeState)>,
    /// Holder on enough masters for the policy of the inspected lock.
    pub agreed: Option<Holder>,
    /// Readers on enough masters each.
    pub readers: Vec<Holder>,
    /// Number of waiters, on the master with the longest queue. Of each process only the task at the front of
    /// its line counts. Stale waiters may be among them.
    pub waiting: u64,
    /// Number of waiters that want to read. Of a process only one counts, until it has been let in.
    pub waiting_to_read: u64,
    /// Waiter with the least ticket that a master knows: it is to have the name next. Its client may have ended.
    pub first_waiting: Option<Holder>,
    /// Time for which that waiter has waited, by the master's clock. A `try_lock` beside an idle grant has waited for none.
    pub first_waits: Option<Duration>,
    /// Largest fencing token that any master has accepted for the name in the last two minutes, or since the name is
    /// held. The fence is at most some thousand above the token of the present hold, which may have more tokens left.
    /// A token counts the microseconds since 1970 at which its hold began, by the masters' clocks. `None` if no hold
    /// had a token.
    pub fence: Option<FencingToken>,
    /// Last time that the name was taken away by force, if that was less than a day ago.
    pub last_force: Option<LastForce>,
    /// Masters that have no vote now, because they may have forgotten their holders, and the time for which
    /// they have none.
    pub quarantined: Vec<(Arc<str>, Duration)>,
}

/// Report of each master that `trust` counts, or its vote if there is no report. Waits for all of them until the node timeout
/// at most.
pub(crate) async fn look(
    pool: &Arc<Pool>,
    names: &Names,
    kind: HoldKind,
    trust: Trust,
) -> Vec<Result<Report, Vote>> {
    let mut sights = vec![Err(Vote::Pending); pool.slots.len()];
    let mut round = Round::begin(pool, &calls::inspect(names, kind), trust, pool.all());
    while let Some((node, answer)) = round.next().await {
        sights[node] = reply::inspected(answer, names.len());
    }
    sights
}

/// Holders of each name, on all masters.
pub(crate) async fn inspect(
    pool: &Arc<Pool>,
    names: &Names,
    kind: HoldKind,
    needed: usize,
) -> Vec<Inspection> {
    let sights = look(pool, names, kind, Trust::All).await;
    let quarantined = quarantined(pool);
    let inspection = |(index, name): (usize, &str)| {
        let state = |sight: &Result<Report, Vote>| match sight {
            Ok(report) => read(&report.entries[index]),
            Err(vote) => NodeState::Silent(vote.clone()),
        };
        let states: Vec<NodeState> = sights.iter().map(state).collect();
        let reports = || sights.iter().flatten();
        let entries = || reports().map(|report| &report.entries[index]);
        let longest = entries().max_by_key(|entry| entry.waiting);
        let (waiting, waiting_to_read) =
            longest.map_or((0, 0), |entry| (entry.waiting, entry.waiting_to_read));
        let first = reports()
            .filter_map(|report| Some((report.entries[index].first_waiting.as_ref()?, report.clock_us)))
            .min_by_key(|(first, _)| first.ticket);
        let waited = |(first, clock_us): (&FirstWaiting, u64)| {
            Duration::from_micros(clock_us.saturating_sub(first.ticket))
        };
        let last_force = entries()
            .filter_map(|entry| entry.last_force.as_ref())
            .max_by_key(|force| force.at);
        Inspection {
            name: pool.config.namespace.own(name).to_owned(),
            agreed: agreed(&states, needed),
            readers: readers(&states, needed),
            nodes: pool
                .slots
                .iter()
                .map(|slot| Arc::clone(slot.label()))
                .zip(states)
                .collect(),
            waiting,
            waiting_to_read,
            first_waiting: first
                .map(|(first, _)| Holder::new(first.waiter.as_str(), first.facts.label.clone(), None)),
            first_waits: first.map(waited),
            fence: entries().filter_map(|entry| entry.fence).max(),
            last_force: last_force.cloned(),
            quarantined: quarantined.clone(),
        }
    };
    names.iter().enumerate().map(inspection).collect()
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
    if entry.kind != "hash" {
        return if entry.kind == "none" {
            NodeState::Free
        } else {
            foreign()
        };
    }
    match (mode(entry), only_holder(entry)) {
        (Some("read"), _) if is_read(entry) || has_owners_alone(entry) => NodeState::Read {
            holders: owners(entry).map(holder_of).collect(),
            remaining,
        },
        (Some(_), Some((holder, count))) => NodeState::Write {
            holder: holder_of(holder),
            count,
            remaining,
        },
        (None, Some((holder, count))) => NodeState::Held {
            holder: holder_of(holder),
            count,
            remaining,
        },
        _ => foreign(),
    }
}

fn agreed(states: &[NodeState], needed: usize) -> Option<Holder> {
    let holders = states.iter().filter_map(|state| match state {
        NodeState::Held { holder, count, .. } | NodeState::Write { holder, count, .. } if *count > 0 => {
            Some(holder)
        }
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

/// Holders on at least `needed` masters, each as shown by the master that knows most of it.
fn on_enough(mut holders: Vec<&Holder>, needed: usize) -> Vec<Holder> {
    holders.sort_unstable_by(|one, other| one.owner.cmp(&other.owner));
    let same = holders
        .chunk_by(|one, other| one == other)
        .filter(|same| same.len() >= needed);
    let known = |holder: &&&Holder| (holder.client_label().is_some(), holder.about().is_some());
    let best_known = |same: &[&Holder]| same.iter().max_by_key(known).copied().cloned();
    same.filter_map(best_known).collect()
}
