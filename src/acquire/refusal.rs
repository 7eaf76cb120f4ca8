//! Reason why an attempt gave no hold.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::request::AcquireRequest;
use crate::acquire::rollback::DelayedRollback;
use crate::error::{InvalidInput, LockError};
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::blockers::Blockers;
use crate::protocol::tally::{LossReason, Tally};
use crate::values::votes::Vote;

/// Masters that an attempt has asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All, or as many as are needed.
    #[default]
    AllAtOnce,
    /// The first master alone. If the attempt is lost, that master has refused.
    FirstAlone,
    /// The first master, which granted, and then the others.
    FirstAndOthers,
}

/// An attempt that gave no hold.
pub(crate) struct Refusal {
    pub(crate) error: LockError,
    pub(crate) reason: LossReason,
    /// Vote of each master, in their order.
    pub(crate) votes: Vec<Vote>,
    /// Masters that were asked.
    pub(crate) asked: Asked,
    /// Holders and waiters in the way, as the masters reported them.
    pub(crate) blockers: Box<Blockers>,
    /// Rollback of the attempt, if it waits for more answers.
    pub(crate) deferred: Option<DelayedRollback>,
    /// Whether masters have free seats of a name with permits, but no seat is free on a quorum.
    pub(crate) has_no_common_seat: bool,
}

impl Refusal {
    /// Makes the refusal of a lost round.
    pub(crate) fn explain(
        request: &AcquireRequest,
        tally: &Tally,
        votes: Vec<Vote>,
        blockers: Blockers,
    ) -> Self {
        let evidence = request.client.pool.evidence(&votes);
        let (reason, error) = match tally.loss_reason() {
            Some(LossReason::Held) => {
                let facts = blockers.holder.as_deref().cloned().unwrap_or_default();
                let error = LockError::Contended {
                    holder: facts.label,
                    about: facts.about.as_deref().map(|about| Arc::new(about.to_owned())),
                    retry_after: held_for(request, tally, &votes),
                    votes: evidence,
                };
                (LossReason::Held, error)
            }
            _ if tally.final_faults >= tally.blocking() => {
                (LossReason::Final, LockError::Misconfigured { votes: evidence })
            }
            _ => (
                LossReason::Unreachable,
                LockError::Unreachable { votes: evidence },
            ),
        };
        Self {
            blockers: Box::new(blockers),
            ..Self::new(error, reason, votes)
        }
    }

    /// Refusal because too few masters accepted a fencing token.
    pub(crate) fn unfenced(request: &AcquireRequest, votes: Vec<Vote>) -> Self {
        let evidence = request.client.pool.evidence(&votes);
        Self::new(LockError::Unfenced { votes: evidence }, LossReason::Split, votes)
    }

    /// Refusal because too little validity is left to enter the hold.
    pub(crate) fn too_late(request: &AcquireRequest, validity: Duration, votes: Vec<Vote>) -> Self {
        let evidence = request.client.pool.evidence(&votes);
        let error = LockError::TooLate {
            validity,
            votes: evidence,
        };
        Self::new(error, LossReason::Split, votes)
    }

    /// Checks that a guard still has more validity left than is wanted.
    pub(super) fn check_validity(request: &AcquireRequest, guard: &HoldGuard) -> Result<(), Self> {
        let left = guard.hold().remaining();
        if left > request.min_validity {
            return Ok(());
        }
        Err(Self::too_late(request, left, guard.hold().grant.votes()))
    }

    pub(super) fn new(error: LockError, reason: LossReason, votes: Vec<Vote>) -> Self {
        Self {
            error,
            reason,
            votes,
            asked: Asked::default(),
            blockers: Box::default(),
            deferred: None,
            has_no_common_seat: false,
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
        Self::new(error, LossReason::Final, Vec::new())
    }
}

/// Time until enough refusals have expired for a quorum. A master that has not answered yet may be free.
fn held_for(request: &AcquireRequest, tally: &Tally, votes: &[Vote]) -> Duration {
    let mut left: Vec<Duration> = votes
        .iter()
        .filter_map(|vote| match vote {
            // Only its holder frees a key without an expiry, so check again after a lease.
            Vote::Refused { remaining } => Some(remaining.unwrap_or(request.lease)),
            _ => None,
        })
        .collect();
    left.sort_unstable();
    let open = votes.iter().filter(|vote| **vote == Vote::Pending).count();
    let missing = request.needed.saturating_sub(tally.granted + open).max(1);
    left.get(missing - 1)
        .or(left.last())
        .copied()
        .unwrap_or(request.lease)
}
