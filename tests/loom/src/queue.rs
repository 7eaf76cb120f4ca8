//! The line of tasks.

#[path = "../../../src/queue/ahead.rs"]
mod ahead;
#[path = "../../../src/queue/line.rs"]
mod line;

pub(crate) use ahead::Holding;
pub(crate) use line::{
    Given, Joined, LineRef, LineTicket, Lines, NextInLine, QueueEntry, Seat, Turn, Wanted,
};
