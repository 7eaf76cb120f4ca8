//! Takes names away from their holders, for an operator.
//!
//! A force looks first, chooses among the holders that it has seen, and names these to the masters. So a request that
//! is delayed, and arrives when there is another holder, changes nothing. A holder that was seen on any master is
//! locked out on all of them, because an acquire of its owner may still be on its way there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;

use crate::admin::inspect::{count_of, holder_of, look, owners};
use crate::error::LockError;
use crate::events::{EventObserver, log};
use crate::protocol::calls;
use crate::protocol::caption::HolderFacts;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{self, FieldEntry, Report, StoredName};
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::votes::{Vote, Votes};

/// Outcome of [`force_release`](crate::MultiLock::force_release) and
/// [`force_release_from`](crate::MultiLock::force_release_from).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forced {
    /// Holders that have lost the names, also those of other libraries, and those that kept them locked by
    /// [`at_least`](crate::MultiLock::at_least). Empty if the names were free, or if the chosen holders did not
    /// hold them.
    pub former: Vec<Holder>,
    /// Keys that are no locks. They stay as they are, so the names are not free there.
    pub spared: Vec<Spared>,
    /// Answer of each master.
    pub votes: Votes,
}

/// A key under the name of a lock that is not a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spared {
    /// Name of the lock.
    pub name: String,
    /// Address of the master that stores it.
    pub node: Arc<str>,
    /// Redis type of the key: a list, a set, a stream, a hash with fields that are not owners with their counts.
    pub kind: String,
}

/// Takes the names away from the holders that are seen now and that `is_meant` chooses.
pub(crate) async fn force(
    pool: &Arc<Pool>,
    names: &Names,
    kind: HoldKind,
    needed: usize,
    reason: &str,
    is_meant: impl Fn(&Holder) -> bool,
) -> Result<Forced, LockError> {
    let sights = look(pool, names, kind, Trust::All).await;
    let mut votes: Vec<Vote> = sights
        .iter()
        .map(|sight| sight.as_ref().err().cloned().unwrap_or(Vote::Pending))
        .collect();
    if sights.iter().flatten().count() < needed {
        // The holders may be only on the masters that did not answer.
        let votes = pool.evidence(&votes);
        return Err(LockError::Unreachable { votes });
    }
    let Seen {
        mut holders,
        known,
        spared,
    } = seen(pool, names, &sights);
    // The scripts touch only the holders that are named to them: a hold that comes after the look was not
    // judged.
    for of_name in &mut holders {
        of_name.retain(|owner| is_meant(&holder(owner, &known)));
    }
    // The look began at most a node timeout ago, and each answer is waited for no longer than another one.
    let patience = u64::try_from(2 * pool.config.node_timeout.as_micros()).unwrap_or(u64::MAX);
    let mut rounds = Vec::new();
    for portion in portions(&holders) {
        for (node, sight) in sights.iter().enumerate() {
            let Ok(report) = sight else { continue };
            let request = calls::force(
                names,
                kind,
                report.clock_us.saturating_add(patience),
                pool.lease_timing.longest_lease,
                &portion,
                (&pool.label, reason),
                pool.config.beside_redisson,
            );
            let round = Round::begin(pool, &request, Trust::Quorum(needed), NodeSet::one(node));
            rounds.push(round.trace_quorum(1));
        }
    }
    let answers = join_all(rounds.iter_mut().map(Round::next)).await;
    for (round, answer) in rounds.iter_mut().zip(answers) {
        let Some((node, answer)) = answer else { continue };
        let vote = reply::forced(answer);
        round.voted(node, &vote);
        // A master counts only if it did all of its portions.
        if matches!(votes[node], Vote::Pending | Vote::Granted) {
            votes[node] = vote;
        }
    }
    let votes = pool.evidence(&votes);
    let owners: BTreeSet<&Arc<str>> = holders.iter().flatten().collect();
    let former: Vec<Holder> = owners.into_iter().map(|owner| holder(owner, &known)).collect();
    if !former.is_empty() {
        log::forced(names, former.len(), votes.granted());
        pool.events.forced();
    }
    if votes.granted() < needed {
        return Err(LockError::Unreachable { votes });
    }
    Ok(Forced {
        former,
        spared,
        votes,
    })
}

/// Observations on all masters together.
struct Seen {
    /// For each name, its holders on any master.
    holders: Vec<BTreeSet<Arc<str>>>,
    /// Holders that are known by more than their owner.
    known: BTreeMap<Arc<str>, Holder>,
    spared: Vec<Spared>,
}

fn seen(pool: &Pool, names: &Names, sights: &[Result<Report, Vote>]) -> Seen {
    let mut seen = Seen {
        holders: vec![BTreeSet::new(); names.len()],
        known: BTreeMap::new(),
        spared: Vec::new(),
    };
    for (slot, sight) in pool.slots.iter().zip(sights) {
        let entries = sight.iter().flat_map(|report| &report.entries);
        for ((name, on_any), entry) in names.iter().zip(&mut seen.holders).zip(entries) {
            let is_known = |entry: &&FieldEntry| entry.facts != HolderFacts::default();
            let with_owner = |entry: &FieldEntry| (Arc::from(entry.field.as_str()), holder_of(entry));
            seen.known
                .extend(entry.fields.iter().filter(is_known).map(with_owner));
            match holders(entry) {
                Some(holders) => on_any.extend(holders),
                None => seen.spared.push(Spared {
                    name: pool.config.namespace.own(name).to_owned(),
                    node: Arc::clone(slot.label()),
                    kind: entry.kind.clone(),
                }),
            }
        }
    }
    seen
}

/// Most holders of each name in one script call, during which a master serves no other client.
const PORTION: usize = 1_000;

/// Holders of each name, in as many portions as are needed; one portion if there are none.
fn portions(holders: &[BTreeSet<Arc<str>>]) -> Vec<Vec<Vec<Arc<str>>>> {
    let most = holders.iter().map(BTreeSet::len).max().unwrap_or(0);
    let portion = |from: usize| -> Vec<Vec<Arc<str>>> {
        let of_name = |all: &BTreeSet<Arc<str>>| all.iter().skip(from).take(PORTION).cloned().collect();
        holders.iter().map(of_name).collect()
    };
    (0..most.max(1)).step_by(PORTION).map(portion).collect()
}

/// Holders of a key; `None` for a key that is not a lock.
fn holders(entry: &StoredName) -> Option<Vec<Arc<str>>> {
    match (entry.kind.as_str(), &entry.digest) {
        ("none", _) => Some(Vec::new()),
        ("string", Some(digest)) => Some(vec![format!("string:{digest}").into()]),
        ("hash", _) => {
            let owners = owners(entry).map(|owner| count_of(owner).map(|_| owner.field.as_str().into()));
            let owners: Vec<Arc<str>> = owners.collect::<Option<_>>()?;
            (!owners.is_empty()).then_some(owners)
        }
        _ => None,
    }
}

fn holder(owner: &Arc<str>, known: &BTreeMap<Arc<str>, Holder>) -> Holder {
    let unknown = || Holder::new(Arc::clone(owner), None, None);
    known.get(owner).cloned().unwrap_or_else(unknown)
}
