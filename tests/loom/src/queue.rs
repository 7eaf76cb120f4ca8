//! The line of tasks.

#[path = "../../../src/queue/ahead.rs"]
mod ahead;
#[path = "../../../src/queue/line.rs"]
mod line;

pub(crate) use ahead::Holding;
pub(crate) use line::{Given, InLine, Joined, LineRef, Lines, Seat, Standing, Successor, Turn, Wanted};
