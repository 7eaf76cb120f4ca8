//! Errors of a hold: its loss, its extension, its end.

use std::fmt;
use std::time::Duration;

use super::InvalidInput;
use super::faq::Faq;
use crate::time::rounded::Rounded;
use crate::values::last_force::LastForce;
use crate::values::votes::{Confirmations, Vote, Votes};

/// The hold is gone: its validity has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hold's validity has ended ({faq})", faq = Faq("lost"))]
#[non_exhaustive]
pub struct Lost;

/// Cause of the loss of a hold. `Display` gives a text for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ended before a quorum had confirmed an extension, or the hold was not to be renewed any more
    /// ([`lease`](crate::MultiLock::lease), [`max_hold`](crate::MultiLock::max_hold)).
    Expired,
    /// No quorum is left for the hold: too many masters serve another owner, or an operator has taken the names away
    /// there.
    TakenAway,
    /// No quorum has the hold any more: too many masters have forgotten it, or serve another owner, and none of them
    /// could be given it again.
    Forgotten,
    /// [`Masters::close`](crate::Masters::close) released the hold.
    Closed,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => {
                "its validity ended: no renewal was confirmed in time, or it is not renewed any more (lease, max_hold)"
            }
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
#[error("the hold was lost: {} ({faq})", Why(.cause, .votes), faq = Faq("lost"))]
#[non_exhaustive]
pub struct Loss {
    /// Cause of the loss.
    pub cause: LossCause,
    /// Last answers of the masters, which may be older than the loss.
    pub votes: Votes,
}

impl Loss {
    /// The force that took a name away, if the cause is [`LossCause::TakenAway`] by an operator, and a master remembers it.
    pub fn force(&self) -> Option<&LastForce> {
        force_of(&self.votes)
    }
}

fn force_of(votes: &Votes) -> Option<&LastForce> {
    votes.iter().find_map(|node| match &node.vote {
        Vote::Revoked { force } => force.as_deref(),
        _ => None,
    })
}

/// Cause of a loss, for people: by whom the name was taken away, when and why, if a master remembers it.
struct Why<'a>(&'a LossCause, &'a Votes);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, force_of(self.1)) {
            (LossCause::TakenAway, Some(force)) => write!(f, "it was taken away by force {force}"),
            (cause, _) => cause.fmt(f),
        }
    }
}

/// Error of [`MultiLockGuard::extend`](crate::MultiLockGuard::extend).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease is out of its range. No master was asked; the hold is as it was.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The validity had ended before a quorum confirmed. A lost hold cannot be revived.
    #[error("the hold is lost ({faq}){}", after_colon(.votes), faq = Faq("lost"))]
    Lost {
        /// Answer of each master; empty if the hold was lost before any was asked.
        votes: Votes,
    },
    /// No quorum confirmed. The hold is as it was and keeps the validity it had.
    #[error("not extended, {} of validity left ({faq}): {}", Rounded(*.validity), Confirmations(.votes), faq = Faq("too few answers"))]
    NotExtended {
        /// Rest of the old validity.
        validity: Duration,
        /// Answer of each master.
        votes: Votes,
    },
}

/// Answers of the masters, for people; nothing if none was asked.
fn after_colon(votes: &Votes) -> String {
    match votes.iter().next() {
        Some(_) => format!(": {}", Confirmations(votes)),
        None => String::new(),
    }
}

/// Error of [`MultiLockGuard::unlock`](crate::MultiLockGuard::unlock). In each case this guard has given up
/// its hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The hold had ended before: its validity had passed, or the masters that no longer had it were enough for the quorum
    /// of another holder. Work under it may have overlapped with another holder's.
    #[error("the hold was lost before it was released ({faq}): {}", Confirmations(.votes), faq = Faq("lost"))]
    WasLost {
        /// Answer of each master to the release; if this guard sent none, its last answer before. A guard sends none
        /// if others are in the hold, or if the hold was released when its loss was found.
        votes: Votes,
    },
    /// Too few masters confirmed the release. The others get the release again in the background. The name is free at
    /// the latest when the lease ends.
    #[error("release not confirmed, free in {} at the latest ({faq}): {}", Rounded(*.free_within), Confirmations(.votes), faq = Faq("not confirmed"))]
    Unconfirmed {
        /// Longest time for which a master may keep the name locked.
        free_within: Duration,
        /// Answer of each master.
        votes: Votes,
    },
}
