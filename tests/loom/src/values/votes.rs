//! The votes that the files need.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Granted,
    Pending,
    NotAsked,
    NotHeld,
    Refused { remaining: Option<Duration> },
    Revoked,
}

impl Vote {
    pub(crate) fn may_have_granted(&self) -> bool {
        *self == Self::Granted
    }

    pub(crate) fn may_soon_grant(&self) -> bool {
        *self == Self::NotAsked
    }
}
