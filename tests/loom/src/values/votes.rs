//! The votes that the files need.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Granted,
    Pending,
    NotAsked,
    NotHeld,
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
