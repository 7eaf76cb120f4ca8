//! Why an attempt gave no hold.

use std::time::Duration;

use crate::acquire::rollback::Deferred;
use crate::acquire::terms::Terms;
use crate::error::{InvalidInput, LockError};
use crate::protocol::obstruction::Obstruction;
use crate::protocol::tally::{Obstacle, Tally};
use crate::votes::{Vote, Votes};

/// An attempt that gave no hold.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: LockError,
    pub(crate) obstacle: Obstacle,
    /// What every master answered, in their order.
    pub(crate) votes: Vec<Vote>,
    /// What they told of those in the way.
    pub(crate) obstruction: Box<Obstruction>,
    /// Its rollback, where more is heard first.
    pub(crate) deferred: Option<Deferred>,
}

impl Refusal {
    /// Why a round was lost.
    pub(crate) fn explain(terms: &Terms, tally: &Tally, votes: Vec<Vote>, obstruction: Obstruction) -> Self {
        let refusal = match tally.obstacle() {
            Some(Obstacle::Held) => {
                let retry_after = held_for(terms, tally, &votes);
                let holder = obstruction.holder.clone();
                let error = |votes| LockError::Contended {
                    holder,
                    retry_after,
                    votes,
                };
                Self::with_votes(terms, Obstacle::Held, votes, error)
            }
            _ if tally.final_faults() >= tally.blocking() => {
                let error = |votes| LockError::Misconfigured { votes };
                Self::with_votes(terms, Obstacle::Final, votes, error)
            }
            _ => {
                let error = |votes| LockError::Unreachable { votes };
                Self::with_votes(terms, Obstacle::Unreachable, votes, error)
            }
        };
        Self {
            obstruction: Box::new(obstruction),
            ..refusal
        }
    }

    /// Too few masters accepted a fencing token.
    pub(crate) fn unfenced(terms: &Terms, votes: Vec<Vote>) -> Self {
        let error = |votes| LockError::Unfenced { votes };
        Self::with_votes(terms, Obstacle::Split, votes, error)
    }

    /// So little validity is left that there is nothing to enter.
    pub(crate) fn too_late(terms: &Terms, validity: Duration, votes: Vec<Vote>) -> Self {
        let error = |votes| LockError::TooLate { validity, votes };
        Self::with_votes(terms, Obstacle::Split, votes, error)
    }

    fn with_votes(
        terms: &Terms,
        obstacle: Obstacle,
        votes: Vec<Vote>,
        error: impl FnOnce(Votes) -> LockError,
    ) -> Self {
        Self {
            error: error(terms.client.pool.evidence(&votes)),
            obstacle,
            votes,
            obstruction: Box::default(),
            deferred: None,
        }
    }
}

impl From<InvalidInput> for Refusal {
    fn from(invalid: InvalidInput) -> Self {
        Self::from(LockError::from(invalid))
    }
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self {
            error,
            obstacle: Obstacle::Final,
            votes: Vec::new(),
            obstruction: Box::default(),
            deferred: None,
        }
    }
}

/// Until so many refusals have expired that a quorum is possible. A master that has not answered yet may be free.
fn held_for(terms: &Terms, tally: &Tally, votes: &[Vote]) -> Duration {
    let mut left: Vec<Duration> = votes
        .iter()
        .filter_map(|vote| match vote {
            // A key without an expiry is freed by its holder alone: look again after a lease.
            Vote::Refused { remaining } => Some(remaining.unwrap_or(terms.lease)),
            _ => None,
        })
        .collect();
    left.sort_unstable();
    let open = votes.iter().filter(|vote| **vote == Vote::Pending).count();
    let missing = terms.needed.saturating_sub(tally.granted() + open).max(1);
    left.get(missing - 1)
        .or(left.last())
        .copied()
        .unwrap_or(terms.lease)
}
