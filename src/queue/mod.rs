//! The line of a process: one contender for each client, set of names and options.
//!
//! Tasks of one process that want the same names with the same options wait in a line, in the order of their tickets.
//! Only the front task is in the queues on the masters. The turn stays with the holder, so behind a local
//! holder no task asks at all.
//!
//! - If it is allowed, the hold is handed on to the next task in line (`hold::handoff`), and nothing is sent.
//! - Otherwise the release takes the next task along: the masters put it into their queues with its ticket,
//!   and call another process only if that comes first. The next task asks over the same connections, right
//!   behind the release.
//!
//! Readers can hold together. So each of them asks by itself until one is refused. Then later readers wait behind the
//! refused one, and all of them ask as soon as it is admitted.
//!
//! Tasks with other options have lines of their own. A task may be unable to win because a master is missing
//! or it needs too much. Such a task must not be in the way of the others. And a hold that is handed on was
//! granted with the options of its next owner.

pub(crate) mod ahead;
pub(crate) mod entry;
pub(crate) mod line;

pub(crate) use self::ahead::{Holding, InFront};
pub(crate) use self::line::{
    Delivery, Joined, LineOptions, LinePosition, LineRef, Lines, Mailbox, NextInLine, QueueEntry, Turn,
};
