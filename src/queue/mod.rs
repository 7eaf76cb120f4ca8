//! The line of a process: one contender per client, set of names and terms.
//!
//! Tasks of one process that want the same names on the same terms stand in a line, by their tickets; only its front
//! one stands in the queues on the masters. The turn stays with whoever holds, so behind a local holder nobody asks
//! at all. The hold passes to the next in line where it may (`hold::handoff`), and nothing is sent. Else its release
//! carries the next in line along: the masters put it into their queues with its ticket, and call another process only
//! if that comes first. The next one asks over the same connections, right behind the release.
//!
//! Tasks that read get what they want together. So they ask each by itself until one of them is refused; then those who
//! come stand behind that one, and all of them ask as soon as it is let in.
//!
//! Tasks on different terms have lines of their own: one that cannot win, for want of a master or because it wants
//! more than there is, is in nobody's way who could; and what passes on was granted on the terms of who gets it.

pub(crate) mod ahead;
pub(crate) mod entry;
pub(crate) mod line;

pub(crate) use self::ahead::{Holding, InFront};
pub(crate) use self::line::{
    Given, Joined, LineRef, LineTicket, Lines, NextInLine, QueueEntry, Seat, Turn, Wanted,
};
