//! What the masters say about a name, and the operator's verb that takes it away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::LockError;
use crate::masters::Pool;
use crate::name::Names;
use crate::node::Slot;
use crate::reply::{Entry, parse_entries, parse_owners};
use crate::round::{Round, Trust};
use crate::script;
use crate::vote::{Vote, Votes};

/// An owner as the masters store it. Knowing it is enough to release the lock, so it is shown only
/// in part.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Holder(pub(crate) Arc<str>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start: String = self.0.chars().take(8).collect();
        match self.0.rsplit_once(':') {
            Some((_, number)) => write!(f, "{start}…:{number}"),
            None => write!(f, "{start}…"),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
    }
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
    /// The masters that have no vote at the moment because they may have forgotten who holds, and for
    /// how much longer.
    pub quarantined: Vec<(Arc<str>, Duration)>,
}

/// What [`force_release`](crate::MultiLock::force_release) did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forced {
    /// Whom the names were taken from; empty when they were free.
    pub former: Vec<Holder>,
    /// What every master answered.
    pub votes: Votes,
}

/// Asks every master and waits for each, at most the node deadline.
pub(crate) async fn inspect(pool: &Arc<Pool>, names: &Names, needed: usize) -> Vec<Inspection> {
    let silent = NodeState::Silent(Vote::Pending);
    let mut states = vec![vec![silent; pool.slots.len()]; names.len()];
    let mut round = Round::begin(pool, &script::inspect(names), Trust::All, |_| true);
    while let Some((place, answer)) = round.next().await {
        let entries = answer.map(|value| parse_entries(&value));
        for (index, nodes) in states.iter_mut().enumerate() {
            nodes[place] = match &entries {
                Ok(Some(entries)) => entries.get(index).map_or_else(unexpected, read),
                Ok(None) => unexpected(),
                Err(fault) => NodeState::Silent(fault.vote()),
            };
        }
    }
    let quarantined = quarantined(pool);
    names
        .iter()
        .zip(states)
        .map(|(name, states)| Inspection {
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

/// Takes the names away from whoever holds them, on every master that answers.
pub(crate) async fn force(pool: &Arc<Pool>, names: &Names, needed: usize) -> Result<Forced, LockError> {
    // Every master must keep out every holder, also one that it has not met yet: an acquire may
    // still be on its way there. So first ask all who it is.
    let mut former: Vec<Arc<str>> = Vec::new();
    for inspection in inspect(pool, names, needed).await {
        for (_, state) in inspection.nodes {
            if let NodeState::Held { holder, .. } = state
                && !former.contains(&holder.0)
            {
                former.push(holder.0);
            }
        }
    }
    let request = script::force(names, pool.reckoning.longest_lease(), &former);
    let mut votes = vec![Vote::Pending; pool.slots.len()];
    let mut round = Round::begin(pool, &request, Trust::All, |_| true);
    while let Some((place, answer)) = round.next().await {
        votes[place] = match answer.map(|value| parse_owners(&value)) {
            Ok(Some(found)) => {
                former.extend(
                    found
                        .into_iter()
                        .filter(|owner| !former.contains(owner))
                        .collect::<Vec<_>>(),
                );
                Vote::Granted
            }
            Ok(None) => Vote::Unknown {
                reason: "unexpected answer".into(),
            },
            Err(fault) => fault.vote(),
        };
    }
    let votes = pool.evidence(&votes);
    tracing::warn!(%names, former = former.len(), granted = votes.granted(), "lock taken away by force");
    if votes.granted() < needed {
        return Err(LockError::Unreachable { votes });
    }
    Ok(Forced {
        former: former.into_iter().map(Holder).collect(),
        votes,
    })
}

fn unexpected() -> NodeState {
    NodeState::Silent(Vote::Unknown {
        reason: "unexpected answer".into(),
    })
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
