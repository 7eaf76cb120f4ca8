//! The ways in which a set is guarded.

/// A lock, and how its holder takes care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `lock()`, and the holder writes at the end without a look at its guard.
    Unguarded,
    /// `run(body)`: the body is dropped when the hold is lost.
    Run,
    /// `lock()`, and the resource compares fencing tokens.
    Fenced,
    /// The commands of redsync.
    Redsync,
    /// The commands of Redisson's lock.
    Redisson,
}

impl Way {
    /// The ways of this crate.
    pub(crate) const OURS: [Self; 3] = [Self::Unguarded, Self::Run, Self::Fenced];
    pub(crate) const ALL: [Self; 5] = [
        Self::Unguarded,
        Self::Run,
        Self::Fenced,
        Self::Redsync,
        Self::Redisson,
    ];

    /// Its name as an argument of a client.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unguarded => "unguarded",
            Self::Run => "run",
            Self::Fenced => "fenced",
            Self::Redsync => "redsync",
            Self::Redisson => "redisson",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.word() == word)
    }

    /// Its description in the table.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Unguarded => "`lock()`, and a write at the end",
            Self::Run => "`run(body)`",
            Self::Fenced => "`lock()`, and the resource compares `fencing_token()`",
            Self::Redsync => "redsync's commands: `SET NX PX` on three masters",
            Self::Redisson => "Redisson's commands: its script and watchdog on one master",
        }
    }

    /// Whether the resource is told tokens.
    pub(crate) fn is_checked(self) -> bool {
        self == Self::Fenced
    }
}
