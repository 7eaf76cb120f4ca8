//! The line of tasks.

#[path = "../../../src/queue/line.rs"]
mod line;

pub(crate) use line::{Given, InLine, LineRef, Lines, Standing, Successor, Turn, Wanted};
