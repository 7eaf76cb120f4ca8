//! The state of everything: three nodes, their links to the clients, and the clients.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::client::Client;
use crate::link::Link;
use crate::node::Node;

/// How many nodes there are.
pub(crate) const NODES: usize = 3;

/// How many clients there are.
pub(crate) const CLIENTS: usize = 2;

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) columns: [Column; NODES],
    pub(crate) clients: [Client; CLIENTS],
    /// Faults that may still come.
    pub(crate) breaks: u8,
    pub(crate) restarts: u8,
    /// The owner that an operator is forcing out, or has forced out.
    pub(crate) forced: Option<Owner>,
    /// Ticks since the beginning, where tokens come from clocks.
    pub(crate) now: u8,
    /// The tokens that were handed out, a bit each.
    pub(crate) issued: u64,
    /// Promises that the last step broke, a bit each of [`Breach`].
    pub(crate) breaches: u16,
    /// Events on the way here, a bit each of [`Event`].
    pub(crate) events: Aside<u16>,
    /// The clients with an attempt that a holder refused, a bit each.
    pub(crate) refused: Aside<u8>,
}

/// One node with the links to it: everything that carries its number, so that nodes can change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Column {
    pub(crate) node: Node,
    pub(crate) links: [Link; CLIENTS],
}

/// The owner field of a client's attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u8);

impl Owner {
    const MOST: u8 = 4;

    pub(crate) fn new(client: usize, attempt: u8) -> Self {
        assert!(attempt < Self::MOST);
        Self(u8::try_from(client).unwrap_or(0) * Self::MOST + attempt)
    }

    pub(crate) fn client(self) -> usize {
        usize::from(self.0 / Self::MOST)
    }

    pub(crate) fn attempt(self) -> u8 {
        self.0 % Self::MOST
    }

    pub(crate) fn bit(self) -> u8 {
        1 << self.0
    }
}

/// Broken promises that a single state does not show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Breach {
    TokenTwice,
    TokenFell,
    Revived,
    TtlShrank,
    /// A hold was handed out or prolonged although its time was over.
    TooLate,
    /// A hold was handed out while the one before it in its grant was valid.
    Overlap,
    ReleasedTwice,
    /// A node where the attempt holds did not accept its raised token.
    RaiseRefused,
    /// An extension counted more forgetful nodes than its quorum tolerates.
    Forgetful,
}

/// Events that must be possible, so that the model is not vacuous.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Granted,
    /// A client that was refused by a holder won later.
    RivalWon,
    RolledBack,
    Extended,
    /// A node that had forgotten the hold counted in its extension.
    RetakeCounted,
    Lapsed,
    Raised,
    Reentered,
    Forced,
    /// A late request came out of an abandoned socket.
    LateArrival,
    /// A node that was in quarantine answered and did not count.
    Quarantined,
    PassedOn,
    /// An extension was confirmed between two holds of a grant.
    ExtendedBetween,
}

impl State {
    pub(crate) fn breach(&mut self, breach: Breach) {
        self.breaches |= 1 << breach as u16;
    }

    pub(crate) fn has_breach(&self, breach: Breach) -> bool {
        self.breaches & 1 << breach as u16 != 0
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.events.0 |= 1 << event as u16;
    }

    pub(crate) fn has_seen(&self, event: Event) -> bool {
        self.events.0 & 1 << event as u16 != 0
    }

    /// The largest token that was handed out; 0 if none was.
    pub(crate) fn last_issued(&self) -> u8 {
        self.issued
            .checked_ilog2()
            .and_then(|bit| u8::try_from(bit).ok())
            .unwrap_or(0)
    }
}

/// Something a state carries along that does not tell it from others: states that differ only in it
/// are explored once, with the value of the shortest way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aside<T>(pub(crate) T);

impl<T> PartialEq for Aside<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Aside<T> {}

impl<T> PartialOrd for Aside<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Aside<T> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

impl<T> Hash for Aside<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
