//! The state: masters with a holder and a queue each, waiters, and the messages between them.

use std::hash::{Hash, Hasher};

pub(super) const MASTERS: usize = 3;
pub(super) const WAITERS: usize = 3;

/// Message of a waiter to a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Acquire,
    /// With a new ticket.
    AcquireAnew,
    /// Standing in no queue for the name that it could have.
    AcquireNarrowly,
    RollBack,
    RollBackQuietly,
    RollBackNarrowly,
    Release,
    Leave,
}

const VERBS: [Verb; 8] = [
    Verb::Acquire,
    Verb::AcquireAnew,
    Verb::AcquireNarrowly,
    Verb::RollBack,
    Verb::RollBackQuietly,
    Verb::RollBackNarrowly,
    Verb::Release,
    Verb::Leave,
];

/// The messages from a waiter to a master: first in, first out, four bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line(u64);

impl Line {
    pub(super) fn push(&mut self, verb: Verb) {
        let used = u64::BITS - self.0.leading_zeros();
        let shift = used.next_multiple_of(4);
        assert!(shift < u64::BITS, "a line is as long as it can be");
        self.0 |= (verb as u64 + 1) << shift;
    }

    pub(super) fn pop(&mut self) -> Option<Verb> {
        let first = self.first();
        self.0 >>= 4;
        first
    }

    pub(super) fn first(self) -> Option<Verb> {
        self.iter().next()
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Verb> {
        (0..u64::BITS)
            .step_by(4)
            .map(move |shift| (self.0 >> shift & 15) as usize)
            .take_while(|code| *code > 0)
            .map(|code| VERBS[code - 1])
    }

    /// Whether a later round's acquire is behind the message that was taken out last.
    pub(super) fn has_acquire(self) -> bool {
        let acquires = |verb| matches!(verb, Verb::Acquire | Verb::AcquireAnew | Verb::AcquireNarrowly);
        self.iter().any(acquires)
    }

    pub(super) fn has_leave(self) -> bool {
        self.iter().any(|verb| verb == Verb::Leave)
    }
}

/// A master's part in a round that is not decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    /// There is no such round.
    #[default]
    Nothing,
    Asked,
    Granted,
    Refused,
}

/// The link between a waiter and a master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) line: Line,
    /// Calls of the waiter that are on their way.
    pub(super) calls: u8,
    pub(super) said: Said,
    /// Granted last time, or called since the acquire was sent.
    pub(super) open: bool,
    /// Has answered an acquire. Kept only where the order is looked at.
    pub(super) answered: bool,
}

// Hashed in one go: hashing is most of the cost of an exploration.
impl Hash for Link {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let rest = [
            self.calls,
            self.said as u8,
            u8::from(self.open),
            u8::from(self.answered),
        ];
        hasher.write_u64(self.line.0);
        hasher.write_u32(u32::from_le_bytes(rest));
    }
}

/// One master. In its queue every ticket is a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Master {
    pub(super) holder: Option<u8>,
    pub(super) queue: u8,
    /// Another client holds a second name of the oldest waiter here for ever.
    pub(super) shut: bool,
    /// A client holds the name here that calls nobody when it lets go.
    pub(super) foreign: bool,
    pub(super) links: [Link; WAITERS],
}

impl Hash for Master {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let holder = self.holder.map_or(0, |ticket| ticket + 1);
        let (shut, foreign) = (u8::from(self.shut), u8::from(self.foreign));
        hasher.write_u32(u32::from_le_bytes([holder, self.queue, shut, foreign]));
        self.links.hash(hasher);
    }
}

/// The tickets that waiters draw first, and the tickets of later rounds where one is not enough.
pub(super) const TICKETS: [u8; WAITERS] = [0, 1, 2];
pub(super) const TICKETS_ANEW: [u8; WAITERS] = [3, 4, 5];

pub(super) fn waiter_of(ticket: u8) -> usize {
    usize::from(ticket) % WAITERS
}

impl Master {
    pub(super) fn is_free(&self) -> bool {
        self.holder.is_none() && !self.foreign
    }

    pub(super) fn head(&self) -> Option<u8> {
        (0..8).find(|ticket| self.queue & 1 << ticket != 0)
    }

    pub(super) fn is_ahead_of(&self, ticket: u8) -> bool {
        self.head().is_some_and(|head| head < ticket)
    }

    pub(super) fn has_queued(&self, waiter: usize) -> bool {
        self.queue & tickets_of(waiter) != 0
    }

    pub(super) fn queue_up(&mut self, ticket: u8) {
        self.dequeue(waiter_of(ticket));
        self.queue |= 1 << ticket;
    }

    /// Whether it was in the queue.
    pub(super) fn dequeue(&mut self, waiter: usize) -> bool {
        let stood = self.has_queued(waiter);
        self.queue &= !tickets_of(waiter);
        stood
    }

    pub(super) fn is_held_by(&self, waiter: usize) -> bool {
        self.holder.is_some_and(|ticket| waiter_of(ticket) == waiter)
    }

    /// Removes the waiter's hold and tells its ticket.
    pub(super) fn free(&mut self, waiter: usize) -> Option<u8> {
        self.holder.take_if(|ticket| waiter_of(*ticket) == waiter)
    }
}

fn tickets_of(waiter: usize) -> u8 {
    1 << waiter | 1 << (waiter + WAITERS)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// A round is under way.
    Asking,
    /// The last round was lost.
    Waiting,
    /// It has had the lock.
    Done,
    /// It has given up.
    Gone,
}

/// One waiter. The first one is the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) phase: Phase,
    /// Rounds that it may still begin without having been called.
    pub(super) again: u8,
    /// Older waiters that were placed when its round began, a bit each.
    pub(super) after: u8,
    /// Stands in no queue for the name that it could have.
    pub(super) narrow: bool,
}

impl Waiter {
    pub(super) fn waits(self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting)
    }

    pub(super) fn has_ended(self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Gone)
    }
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) masters: [Master; MASTERS],
    pub(super) waiters: [Waiter; WAITERS],
    /// Rounds that were begun, by all of them together.
    pub(super) rounds: u8,
    /// Somebody may still give up.
    pub(super) may_give_up: bool,
    /// A placed waiter was overtaken.
    pub(super) overtaken: bool,
}

impl State {
    /// How many of a waiter's links are so.
    pub(super) fn count(&self, waiter: usize, so: impl Fn(&Link) -> bool) -> usize {
        self.masters
            .iter()
            .filter(|master| so(&master.links[waiter]))
            .count()
    }
}
