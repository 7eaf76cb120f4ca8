//! What may become of a hold: its loss, its extension, its end.

use std::fmt;
use std::time::Duration;

use super::InvalidInput;
use crate::time::rounded::Rounded;
use crate::values::votes::Votes;

/// The hold is gone: its validity has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hold's validity has ended")]
#[non_exhaustive]
pub struct Lost;

/// Why a hold was lost. Its text is that for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// Its validity ended before a quorum had confirmed an extension.
    Expired,
    /// So many masters serve somebody else, or an operator, that no quorum is left for it.
    TakenAway,
    /// So many masters have forgotten it, or serve somebody else, that no quorum keeps it, and none of
    /// them could be given it again.
    Forgotten,
    /// [`Masters::close`](crate::Masters::close) released it.
    Closed,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its validity ended before enough masters had confirmed a renewal",
            Self::TakenAway => {
                "it was taken away by force, or too many masters have the names for another holder"
            }
            Self::Forgotten => "too many masters have forgotten it",
            Self::Closed => "its client was closed",
        })
    }
}

/// The loss of a hold, as [`MultiLockGuard::lost`](crate::MultiLockGuard::lost) reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hold was lost: {cause}")]
#[non_exhaustive]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// Last answers of the masters, which may be older than the loss.
    pub votes: Votes,
}

/// What [`MultiLockGuard::extend`](crate::MultiLockGuard::extend) may answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease is out of its range. No master was asked; the hold is as it was.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The validity had ended before a quorum confirmed. Nothing revives a hold.
    #[error("the hold is lost: {votes}")]
    Lost {
        /// What every master answered; empty when the hold was lost before any was asked.
        votes: Votes,
    },
    /// No quorum confirmed. The hold is as it was and keeps the validity it had.
    #[error("not extended, {} of validity left: {votes}", Rounded(*.validity))]
    NotExtended {
        /// What is left of the old validity.
        validity: Duration,
        /// What every master answered.
        votes: Votes,
    },
}

/// What [`MultiLockGuard::unlock`](crate::MultiLockGuard::unlock) may answer. In each case this guard
/// has given up its hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The hold had ended before: its validity had passed, or too many masters no longer had it.
    /// What was done under it may have overlapped with another holder.
    #[error("the hold was lost before it was released: {votes}")]
    WasLost {
        /// What every master answered: to the release, or last before it where this guard sent none,
        /// because others are in the hold or because it was released when it was found lost.
        votes: Votes,
    },
    /// Too few masters confirmed the release. They are told again in the background; at the latest
    /// the lease frees the name.
    #[error("release not confirmed, free in {} at the latest: {votes}", Rounded(*.free_within))]
    Unconfirmed {
        /// The longest that a master may keep the name.
        free_within: Duration,
        /// What every master answered.
        votes: Votes,
    },
}
