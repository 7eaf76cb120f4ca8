//! The errors that the files need.

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossCause {
    Expired,
    Closed,
    Forgotten,
    TakenAway,
}

/// Why a lock was refused, which no model looks at.
#[derive(Debug)]
pub(crate) struct LockError;
