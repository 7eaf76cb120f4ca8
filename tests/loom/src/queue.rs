//! The line of tasks.

#[path = "../../../src/queue/ahead.rs"]
mod ahead;
#[path = "../../../src/queue/line.rs"]
mod line;

pub(crate) use ahead::Holding;
pub(crate) use line::{
    Delivery, Joined, LineOptions, LinePosition, LineRef, Lines, Mailbox, NextInLine, QueueEntry, Turn,
};
