//! What a server can do of what not every server can.

/// What a master can do, as its connection found out when it was set up. What is missing shortens what may be trusted,
/// or takes away a convenience; nothing here is needed by every lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// It speaks RESP3, so that notices come over the connection that carries the calls.
    pub resp3: bool,
    /// A connection can end its predecessor by `CLIENT KILL`, so that what the old one still holds is never executed.
    pub kill_fence: bool,
    /// It tells for how long its process has run, so that one that was started long ago has a vote at once.
    pub uptime_known: bool,
    /// It tells whether it evicts keys when its memory is full.
    pub eviction_known: bool,
}

impl Capabilities {
    /// Of a server that can do everything.
    pub(crate) const ALL: Self = Self {
        resp3: true,
        kill_fence: true,
        uptime_known: true,
        eviction_known: true,
    };
}
