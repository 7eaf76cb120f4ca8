//! What an acquisition is to do, and why one gave no hold.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{InvalidInput, LockError, Unchartered};
use crate::hold::client::Client;
use crate::names::Names;
use crate::owner::{Owner, Standing};
use crate::policy::Policy;
use crate::protocol::tally::Obstacle;
use crate::votes::Vote;

/// The checked options of an acquisition.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) client: Arc<Client>,
    pub(crate) names: Names,
    pub(crate) policy: Policy,
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    /// Whether the hold is renewed while its guard lives: the call site set no lease.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) fenced: bool,
    pub(crate) min_validity: Duration,
    /// `None` for one that nobody else can be.
    pub(crate) owner: Option<Owner>,
    /// Whether a refused attempt is followed by a wait.
    pub(crate) waits: bool,
}

impl Plan {
    /// Where its owner stands now with the names.
    pub(crate) fn standing(&self) -> Standing {
        self.owner.as_ref().map_or(Standing::Outside, |owner| {
            owner.standing(self.client.id, &self.names, self.client.pool.clock.now())
        })
    }

    /// Too few of the votes count that were given.
    pub(crate) fn split(&self, votes: Vec<Vote>) -> Refusal {
        Refusal {
            error: LockError::Contended {
                retry_after: self.client.pool.config.node_timeout,
                votes: self.client.pool.evidence(&votes),
            },
            obstacle: Obstacle::Split,
            votes,
        }
    }

    /// So little validity is left that there is nothing to enter.
    pub(crate) fn too_late(&self, validity: Duration, votes: Vec<Vote>) -> Refusal {
        Refusal {
            error: LockError::TooLate {
                validity,
                votes: self.client.pool.evidence(&votes),
            },
            obstacle: Obstacle::Split,
            votes,
        }
    }
}

/// An attempt that gave no hold.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: LockError,
    pub(crate) obstacle: Obstacle,
    /// What every master answered, in their order.
    pub(crate) votes: Vec<Vote>,
}

impl From<InvalidInput> for Refusal {
    fn from(invalid: InvalidInput) -> Self {
        Self::from(LockError::from(invalid))
    }
}

impl From<Unchartered> for Refusal {
    /// Masters have to come, to agree to the lease.
    fn from(unchartered: Unchartered) -> Self {
        Self {
            obstacle: Obstacle::Unreachable,
            ..Self::from(LockError::from(unchartered))
        }
    }
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self {
            error,
            obstacle: Obstacle::Final,
            votes: Vec::new(),
        }
    }
}
