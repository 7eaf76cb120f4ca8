//! What masters tell when they are examined.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::values::master_set::MasterSet;

/// What one master told, or why it could not be asked: [`MastersBuilder::examine`](crate::MastersBuilder::examine).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// The master's address, without credentials.
    pub node: Arc<str>,
    /// What it told; or why there was nothing to be heard: it could not be reached, did not let the user in, or denies
    /// `INFO` or `TIME`.
    pub server: Result<ServerFacts, NodeError>,
}

/// What a server tells of itself, whether it will do as a master or not.
///
/// ```no_run
/// # use multilock::ServerFacts;
/// # fn show(facts: &ServerFacts) {
/// if let Some(refusal) = &facts.refusal {
///     println!("no master: {refusal}");
/// }
/// for denied in &facts.denied {
///     println!("{} is denied: {:?}", denied.name, denied.why);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Why [`connect`](crate::MastersBuilder::connect) would not use it, if so. Of several reasons the first one that it would
    /// come upon.
    pub refusal: Option<NodeError>,
    /// The server's version, as it tells it; empty where it does not.
    pub version: Arc<str>,
    /// What it says that it is: `master`, `slave`.
    pub role: Option<String>,
    /// Which run of the server it is: another one after each start.
    pub run_id: Option<String>,
    /// Which data it has: the same on a replica of it.
    pub replication_id: Option<String>,
    /// Set that it is in, by its record; `None` where nothing is recorded, or the user may not read it.
    pub set: Option<MasterSet>,
    /// For how long its memory counts, by its record; `None` where nothing is recorded by this run of the server.
    pub remembers: Option<Duration>,
    /// For how much longer it would have no vote for a client that was connected now, with this builder's settings: it is new
    /// to its set, or was started or wiped not long ago. Zero where it would have one.
    pub quarantine: Duration,
    /// How far its wall clock is ahead of this host's, in microseconds; negative where it is behind. No better than
    /// half of `round_trip`.
    pub clock_offset_us: i64,
    /// What the quickest of a few answers took, beside which the clock was read.
    pub round_trip: Duration,
    /// What it can do of what not every server can.
    pub capabilities: Capabilities,
    /// Its `maxmemory`, in bytes; zero for no limit.
    pub max_memory: Option<u64>,
    /// Its `maxmemory-policy`.
    pub eviction_policy: Option<String>,
    /// Whether it writes an append-only file.
    pub append_only: Option<bool>,
    /// Its `appendfsync`, where the user may read that (`CONFIG GET`).
    pub append_fsync: Option<String>,
    /// Commands that the user may not run.
    pub denied: Vec<DeniedCommand>,
    /// The connections of this crate's clients; `None` where the user may not read them (`CLIENT LIST`).
    pub clients: Option<Vec<ClientConnection>>,
}

/// A command that the user may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeniedCommand {
    /// As an ACL names it: `evalsha`, `client|kill`.
    pub name: String,
    /// What of it is denied.
    pub why: Denial,
    /// Whether no lock can be granted without it. Without another one something is missing that can be done without.
    pub is_needed: bool,
}

/// What of a command is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The command itself.
    Command,
    /// The command, where a script runs it.
    InScript,
    /// A key that it needs: one of `multilock_*`.
    Key,
    /// A channel that it needs: one of `multilock:*`.
    Channel,
}

/// A connection of a client of this crate to a master, by its name in `CLIENT LIST`:
/// `multilock:<id of the pool>:<number of masters>`. Connections to other databases of the server are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientConnection {
    /// The id of the client's pool of connections, the same on each of its masters. It is no part of who holds.
    pub pool: String,
    /// How many masters the client lists.
    pub masters: usize,
    /// Where it comes from.
    pub address: String,
    /// For how long it has been there, in whole seconds.
    pub age: Duration,
    /// For how long nothing was sent over it, in whole seconds.
    pub idle: Duration,
}
