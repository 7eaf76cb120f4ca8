//! Words that distinguish things in labels and spans: few, and always the same.

use crate::error::{LockError, LossCause};
use crate::values::policy::Policy;
use crate::values::votes::Vote;

/// A kind with a word for each of its values.
pub(crate) trait Word: Copy + 'static {
    /// Label of the metrics that has these words.
    #[cfg(feature = "metrics")]
    const KEY: &'static str;
    /// All values, in the order of their indices.
    const ALL: &'static [Self];

    fn index(self) -> usize;

    fn word(self) -> &'static str;
}

macro_rules! words {
    ($(#[$about:meta])* enum $name:ident by $key:literal { $($(#[$detail:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$detail])* $variant,)*
        }

        words! { $name by $key { $($variant = $word,)* } }
    };
    ($name:ident by $key:literal { $($variant:ident = $word:literal,)* }) => {
        impl Word for $name {
            #[cfg(feature = "metrics")]
            const KEY: &'static str = $key;
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            #[inline]
            fn index(self) -> usize {
                self as usize
            }

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}

words! {
    /// Operations on masters. Each script is of one, and an acquire may be a retake.
    enum Op by "op" {
        Acquire = "acquire", Retake = "retake", Extend = "extend", Release = "release", Downgrade = "downgrade", Retain = "retain",
        Withdraw = "withdraw", Inspect = "inspect", Force = "force", Introduce = "introduce", Label = "label", Mark = "mark",
    }
}

words! {
    /// Answer of a master to a question that is put to a vote.
    enum VoteKind by "vote" {
        Granted = "granted", Refused = "refused", NotHeld = "not_held", Revoked = "revoked", Failed = "failed",
        NotSent = "not_sent", Late = "late", Unknown = "unknown", Quarantined = "quarantined",
    }
}

#[cfg(feature = "metrics")]
words! {
    /// Whether as many masters assented as were needed.
    enum RoundOutcome by "outcome" { Won = "won", Lost = "lost", }
}

words! {
    /// End of a call for a lock.
    enum AcquireOutcome by "outcome" {
        Granted = "granted",
        /// The owner was inside already.
        Reentered = "reentered",
        /// Another task of the process has handed its hold on.
        HandedOn = "handed_on",
        Contended = "contended", Unreachable = "unreachable", TimedOut = "timed_out", TooLate = "too_late",
        Unfenced = "unfenced", Misconfigured = "misconfigured", Upgrade = "upgrade", Closed = "closed",
        Invalid = "invalid",
        /// The call was dropped.
        Cancelled = "cancelled",
    }
}

words! {
    enum PolicyKind by "policy" { RedLock = "redlock", MultiLock = "multilock", AtLeast = "at_least", }
}

#[cfg(feature = "metrics")]
words! {
    /// A policy that needs no number.
    enum NamedPolicy by "policy" { RedLock = "redlock", MultiLock = "multilock", }
}

words! {
    /// End of a hold.
    enum HoldEnd by "end" {
        Released = "released",
        /// The hold was given up, and its names stay locked for a while.
        Kept = "kept",
        HandedOn = "handed_on",
        /// The names of the hold stay with the client.
        Stays = "stays",
        Lost = "lost",
        /// Only leaked guards are in the hold.
        Leaked = "leaked",
    }
}

words! {
    LossCause by "cause" {
        Expired = "expired", TakenAway = "taken_away", Forgotten = "forgotten", Closed = "closed",
    }
}

words! {
    /// Outcome of an unlock.
    enum UnlockOutcome by "outcome" {
        Released = "released", HandedOn = "handed_on", Stays = "stays", KeptFor = "kept_for", Downgraded = "downgraded",
        StillHeld = "still_held", Unconfirmed = "unconfirmed", WasLost = "was_lost",
    }
}

#[cfg(feature = "metrics")]
words! {
    enum RenewalOutcome by "outcome" { Confirmed = "confirmed", Unconfirmed = "unconfirmed", }
}

words! {
    /// Reason why a waiter went on.
    enum WokenBy by "by" {
        /// Masters have called the waiter, or sent the time at which to ask.
        Notice = "notice",
        /// No message came until the timer fired.
        Timer = "timer",
        /// Listening was interrupted, or enough masters are connected again.
        Gap = "gap",
        /// Another task of the process has handed its turn or hold on.
        HandOn = "hand_on",
    }
}

impl VoteKind {
    /// Kind of a vote; `None` if the outcome was certain before the master answered.
    #[inline]
    pub(crate) fn of(vote: &Vote) -> Option<Self> {
        Some(match vote {
            Vote::Granted => Self::Granted,
            Vote::Refused { .. } => Self::Refused,
            Vote::NotHeld => Self::NotHeld,
            Vote::Revoked { .. } => Self::Revoked,
            Vote::Failed { .. } => Self::Failed,
            Vote::NotSent { .. } => Self::NotSent,
            Vote::Late { .. } => Self::Late,
            Vote::Unknown { .. } => Self::Unknown,
            Vote::Quarantined { .. } => Self::Quarantined,
            Vote::Pending | Vote::NotAsked => return None,
        })
    }
}

impl AcquireOutcome {
    pub(super) fn of_error(error: &LockError) -> Self {
        match error {
            LockError::Invalid(_) => Self::Invalid,
            LockError::Contended { .. } => Self::Contended,
            LockError::Unreachable { .. } => Self::Unreachable,
            LockError::Misconfigured { .. } => Self::Misconfigured,
            LockError::Unfenced { .. } => Self::Unfenced,
            LockError::TooLate { .. } => Self::TooLate,
            LockError::TimedOut { .. } => Self::TimedOut,
            LockError::Upgrade { .. } => Self::Upgrade,
            LockError::Closed => Self::Closed,
        }
    }
}

impl From<Policy> for PolicyKind {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::RedLock => Self::RedLock,
            Policy::MultiLock => Self::MultiLock,
            Policy::AtLeast(_) => Self::AtLeast,
        }
    }
}
