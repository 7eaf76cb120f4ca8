//! The state: masters with their stored holds, clients, and the messages between them.

use std::hash::{Hash, Hasher};

use super::line::Line;
use super::master::Master;
use super::scope::Scope;
use crate::state::Aside;

pub(super) const MASTERS: usize = 3;
pub(super) const CLIENTS: usize = 3;

/// Attempts of a client, at most.
pub(super) const ATTEMPTS: usize = 2;

/// Purpose of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Read,
    Write,
}

/// The owner field of a client's attempt, as an index.
pub(super) fn field_of(client: usize, attempt: u8) -> usize {
    client * ATTEMPTS + usize::from(attempt)
}

/// Answer of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    Granted,
    Refused,
    /// The field is not there, and may be put back.
    Absent,
}

/// A master's part in a client's round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    /// It has none, or nothing could be sent to it.
    #[default]
    Unasked,
    Waiting,
    /// It has answered, and the client has not read that.
    Answered(Word),
    Read(Word),
    /// Nothing that counts: unknown, or in quarantine.
    Silent,
}

impl Slot {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Answered(_))
    }
}

/// A client's connection to a master, and the client's knowledge of that master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// Sent over the connection and not executed yet.
    pub(super) line: Line,
    /// Requests that an abandoned socket may still deliver.
    pub(super) abandoned: Line,
    /// Releases to be sent after reconnecting.
    pub(super) owed: Line,
    pub(super) down: bool,
    pub(super) slot: Slot,
    /// The master's answer to the last request has no vote.
    pub(super) distrusted: bool,
    /// Attempts that may have a field on the master, a bit each.
    pub(super) touched: u8,
}

// Hashed in one go: hashing is most of the cost of an exploration.
impl Hash for Link {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let slot = match self.slot {
            Slot::Unasked => 0,
            Slot::Waiting => 1,
            Slot::Silent => 2,
            Slot::Answered(word) => 3 + word as u8,
            Slot::Read(word) => 6 + word as u8,
        };
        let flags = u8::from(self.down) | u8::from(self.distrusted) << 1;
        hasher.write_u64(self.line.bits());
        hasher.write_u64(self.abandoned.bits() | self.owed.bits() << 32);
        hasher.write_u32(u32::from_le_bytes([slot, flags, self.touched, 0]));
    }
}

/// A master with the links to it: everything that carries its number, so that masters can change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) master: Master,
    pub(super) links: [Link; CLIENTS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Acquiring,
    Holding,
}

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// Present purpose of its hold: a downgrade turns it from `Write` to `Read`.
    pub(super) kind: Kind,
    /// Attempts begun so far.
    pub(super) attempts: u8,
    pub(super) extensions_left: u8,
    /// Connections of it that may still break.
    pub(super) breaks_left: u8,
    pub(super) extending: bool,
    /// It has asked for a downgrade and goes on writing until that is confirmed, where clients do so.
    pub(super) downgrading: bool,
    /// Ticks since the present round began; not counted beyond the validity.
    pub(super) elapsed: u8,
    /// Ticks of validity left.
    pub(super) left: u8,
    /// Attempts with a lapsed hold that is not released yet, a bit each.
    pub(super) lapsed: u8,
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let rounds = u8::from(self.extending) | u8::from(self.downgrading) << 1;
        let what = self.phase as u8 | (self.kind as u8) << 4;
        hasher.write_u64(u64::from_le_bytes([
            what,
            self.attempts,
            self.extensions_left,
            rounds,
            self.elapsed,
            self.left,
            self.lapsed,
            self.breaks_left,
        ]));
    }
}

impl Client {
    pub(super) fn new(scope: &Scope, client: usize) -> Self {
        Self {
            phase: Phase::Idle,
            kind: scope.kinds[client],
            attempts: 0,
            extensions_left: scope.extensions[client],
            breaks_left: scope.breaks[client],
            extending: false,
            downgrading: false,
            elapsed: 0,
            left: 0,
            lapsed: 0,
        }
    }

    /// Whether it has a guard of this kind with validity left.
    pub(super) fn is_valid(&self, kind: Kind) -> bool {
        self.phase == Phase::Holding && self.left > 0 && self.kind == kind
    }

    /// The number of the present attempt, or of the one before where there is none.
    pub(super) fn attempt(&self) -> u8 {
        self.attempts.saturating_sub(1)
    }
}

/// Broken promises that a single state does not show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Breach {
    /// A key went from read to write, and a field in it stayed.
    ModeTurned,
    /// The cover of a field fell other than by time.
    LeaseShrank,
}

/// Events that must be possible, so that the model is not vacuous.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Extended,
    /// A hold was put back on a master that had forgotten it.
    Retaken,
    /// A late request of a writer found its field in mode read.
    LateWriter,
    /// An extension told a master of the downgrade that it had missed.
    Healed,
    /// A reader left and brought the key's end nearer.
    Settled,
    /// A master that was in quarantine answered and did not count.
    Quarantined,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) columns: [Column; MASTERS],
    pub(super) clients: [Client; CLIENTS],
    /// Masters that may still restart.
    pub(super) restarts: u8,
    /// A bit each of [`Breach`].
    pub(super) breaches: u8,
    /// Events on the way here, a bit each of [`Event`].
    pub(super) events: Aside<u8>,
}

impl State {
    pub(super) fn breach(&mut self, breach: Breach) {
        self.breaches |= 1 << breach as u8;
    }

    pub(super) fn has_breach(&self, breach: Breach) -> bool {
        self.breaches & 1 << breach as u8 != 0
    }

    pub(super) fn note(&mut self, event: Event) {
        self.events.0 |= 1 << event as u8;
    }

    pub(super) fn has_seen(&self, event: Event) -> bool {
        self.events.0 & 1 << event as u8 != 0
    }

    /// How many guards of a kind have validity left.
    pub(super) fn valid(&self, kind: Kind) -> usize {
        let valid = self.clients.iter().filter(|client| client.is_valid(kind));
        valid.count()
    }

    /// How many of a client's links have such a slot.
    pub(super) fn count(&self, client: usize, which: impl Fn(Slot) -> bool) -> usize {
        self.columns
            .iter()
            .filter(|column| which(column.links[client].slot))
            .count()
    }
}
