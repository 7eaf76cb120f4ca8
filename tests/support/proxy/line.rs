//! How bytes travel in one direction.

use std::time::Duration;

/// The ways through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// The state of one direction, the same for all connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) delay: Duration,
    pub(crate) paused: bool,
}
