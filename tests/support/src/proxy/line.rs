//! How bytes travel in one direction.

use std::time::Duration;

/// The ways through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// The state of one direction, the same for all connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    pub delay: Duration,
    pub paused: bool,
}
