//! Results of an examination of masters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::values::master_set::MasterSet;

/// Facts of one master, or the reason why there are none:
/// [`MastersBuilder::examine`](crate::MastersBuilder::examine).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Examination {
    /// Address of the master, without credentials.
    pub node: Arc<str>,
    /// Facts that the server reports. An error if it could not be reached, did not let the user in, or denies
    /// `INFO` or `TIME`.
    pub server: Result<ServerFacts, NodeError>,
}

/// A server's facts about itself, whether it can be a master or not.
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
    /// Reason why [`connect`](crate::MastersBuilder::connect) would not use the server, if there is one; of several,
    /// the first that `connect` would find.
    pub refusal: Option<NodeError>,
    /// Reason why the server takes no writes now, and so grants nothing: its memory or its disk is full, or it misses replicas
    /// that it is to have. `None` if it takes writes.
    pub writes_refused: Option<String>,
    /// Server's version by its own report; empty if the server reports none.
    pub version: Arc<str>,
    /// Role that the server reports: `master`, `slave`.
    pub role: Option<String>,
    /// Id of the server's run; each start has another one.
    pub run_id: Option<String>,
    /// Id of the server's data; a replica of the server has the same.
    pub replication_id: Option<String>,
    /// Addresses of the master's name that lead to other servers than this one. All addresses of a name must lead to one server.
    pub other_servers: Vec<SocketAddr>,
    /// Set of the master, by its record; `None` if it has no record, or the user may not read it.
    pub set: Option<MasterSet>,
    /// Time for which the server's memory counts, by its record; `None` if this run of the server has none.
    pub remembers: Option<Duration>,
    /// Time for which the server would have no vote for a client that connects now, with this builder's settings: it
    /// is new to its set, or was started or wiped not long ago. Zero if it would have a vote.
    pub quarantine: Duration,
    /// Time by which the server's wall clock is ahead of this host's, in microseconds; negative if it is behind. No
    /// more exact than half of `round_trip`.
    pub clock_offset_us: i64,
    /// Round trip of the quickest of a few answers, with which the clock was read.
    pub round_trip: Duration,
    /// Capabilities that not every server has.
    pub capabilities: Capabilities,
    /// The server's `maxmemory`, in bytes; zero for no limit.
    pub max_memory: Option<u64>,
    /// The server's `maxmemory-policy`.
    pub eviction_policy: Option<String>,
    /// Whether the server writes an append-only file.
    pub append_only: Option<bool>,
    /// The server's `appendfsync`, if the user may read that (`CONFIG GET`).
    pub append_fsync: Option<String>,
    /// Whether the server leaves `appendfsync` out while it saves a snapshot or rewrites its append-only file
    /// (`no-appendfsync-on-rewrite`), if the user may read that (`CONFIG GET`).
    pub no_fsync_on_rewrite: Option<bool>,
    /// Whether the user `default` may write keys. Servers from before 2026 check their append-only file against this user,
    /// also if it is off: without the permission a restart drops what scripts have written. `None` if the user may not
    /// ask (`ACL DRYRUN`, from Redis 7.0 on).
    pub default_user_writes: Option<bool>,
    /// Commands that the user may not run.
    pub denied: Vec<DeniedCommand>,
    /// Connections of this crate's clients; `None` if the user may not read them (`CLIENT LIST`).
    pub clients: Option<Vec<ClientConnection>>,
    /// Number of Redisson's channels to which clients listen now: waiters of Redisson's, perhaps for the same names, which
    /// clients without [`beside_redisson`](crate::MastersBuilder::beside_redisson) do not wake. `None` if this builder
    /// has that option, or if the user may not ask (`PUBSUB CHANNELS`).
    pub redisson_channels: Option<usize>,
}

/// A command that the user may not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeniedCommand {
    /// Name of the command in an ACL: `evalsha`, `client|kill`.
    pub name: String,
    /// Denied part of the command.
    pub why: Denial,
    /// Whether no lock can be granted without the command. Without any other command the client lacks a capability
    /// that it can do without.
    pub is_needed: bool,
}

/// Denied part of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// The command itself.
    Command,
    /// The command inside a script.
    InScript,
    /// A key that the command needs: one of `multilock_*`.
    Key,
    /// A channel that the command needs: one of `multilock:*`.
    Channel,
}

/// A connection of a client of this crate to a master, by its name in `CLIENT LIST`:
/// `multilock:<id of the pool>:<number of masters>`. Connections to other databases of the server are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientConnection {
    /// Id of the client's pool of connections, the same on each of its masters. It is not part of an owner.
    pub pool: String,
    /// Number of masters that the client lists.
    pub masters: usize,
    /// Address that the connection comes from.
    pub address: String,
    /// Time since the connection was made, in whole seconds.
    pub age: Duration,
    /// Time since bytes were sent over the connection, in whole seconds.
    pub idle: Duration,
}
