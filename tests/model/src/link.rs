//! The network between one client and one node.

use std::hash::{Hash, Hasher};

use tinyvec::ArrayVec;

use crate::state::Owner;

/// Requests on their way, first in, first out.
pub(crate) type Queue = ArrayVec<[Request; 6]>;

/// A client's connection to a node, and the client's knowledge of that node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) up: bool,
    /// Sent over the connection and not executed yet.
    pub(crate) queue: Queue,
    /// Requests that an abandoned socket may still deliver.
    pub(crate) abandoned: Queue,
    /// Releases to be sent after reconnecting.
    pub(crate) owed: Queue,
    /// The node's part in the client's present round.
    pub(crate) slot: Slot,
    /// The node was in quarantine when the present round began.
    pub(crate) forgetful: bool,
    /// The node has no vote in the present round.
    pub(crate) distrusted: bool,
    /// Attempts that may have a field on the node, a bit each.
    pub(crate) touched: u8,
}

/// Request to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) owner: Owner,
    pub(crate) token: u8,
    /// Number of its attempt and its round.
    pub(crate) serial: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Verb {
    #[default]
    Acquire,
    Extend,
    /// Extend by one tick.
    ExtendShortly,
    Retake,
    Raise,
    Release,
    /// Count up, where nodes count.
    Enter,
    /// Count down, where nodes count.
    Leave,
}

/// Answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Answer {
    pub(crate) word: Word,
    pub(crate) accepted: bool,
    /// The largest token that was stored before.
    pub(crate) highest: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Word {
    Granted,
    /// Granted again to an owner that the node may have forgotten.
    Retaken,
    Refused,
    Absent,
    Revoked,
}

/// A node's part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// It has none, or nothing could be sent to it.
    Unasked,
    /// Asked, and it has not answered.
    Waiting,
    /// It has answered, and the client has not read that.
    Answered(Answer),
    /// Read: granted, and whether the token was accepted with it.
    Granted { accepted: bool },
    /// Read: held by another. Whether it accepted a token nevertheless, where it may.
    Refused { accepted: bool },
    /// Read: it does not have the hold.
    Absent,
    /// Nothing that counts: unknown, revoked or in quarantine.
    Silent,
}

// Hashed in one go: hashing is most of the cost of an exploration.
impl Hash for Request {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let bytes = [self.verb as u8, self.owner.bit(), self.token, self.serial];
        hasher.write_u32(u32::from_le_bytes(bytes));
    }
}

impl Slot {
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Answered(_))
    }
}

impl Link {
    pub(crate) fn new() -> Self {
        Self {
            up: true,
            queue: Queue::default(),
            abandoned: Queue::default(),
            owed: Queue::default(),
            slot: Slot::Unasked,
            forgetful: false,
            distrusted: false,
            touched: 0,
        }
    }

    /// Whether a release of the owner is on its way or pending.
    pub(crate) fn will_release(&self, owner: Owner) -> bool {
        let releases = |request: &Request| request.verb == Verb::Release && request.owner == owner;
        self.queue.iter().any(releases) || self.owed.iter().any(releases)
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.abandoned.is_empty() && self.owed.is_empty()
    }
}
