//! One master, as the other modules see it.
//!
//! The interface is narrow: an [`Endpoint`] makes a [`Connection`]. Its [`Wire`] carries one script call and
//! brings the reply or a [`Fault`](crate::protocol::fault::Fault), and carries messages the other way. The
//! implementation is a real server or, for tests, a master in memory that runs the same Lua files. Everything
//! above the interface is the same code for both: reconnecting, pending releases, votes.

mod background;
pub(crate) mod channels;
mod connection;
mod deferred;
mod inbox;
mod introduction;
mod keeper;
pub(crate) mod label;
pub(crate) mod messages;
mod pace;
pub(crate) mod recalls;
mod redis;
mod slot;
pub(crate) mod stale_waiters;
pub(crate) mod sync;
pub(crate) mod trust;
pub(crate) mod waiter_state;
pub(crate) mod waiters;
mod withdrawals;

use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::redis::address::{Address, NodeUrl};
pub(crate) use self::redis::examine::Examined;
pub(crate) use self::redis::examine::POOL;
pub(crate) use self::redis::lookup::Lookup;
#[cfg(fuzzing)]
pub(crate) use self::redis::resp::{Search as ReplySearch, first as first_reply};
pub(crate) use self::redis::server::Server;
pub(crate) use self::redis::tls::{CA_FILE, CERT_FILE, KEY_FILE, Tls, TlsFiles};
pub(crate) use connection::{Link, Links};
pub(crate) use deferred::{PendingRelease, needs_retry};
pub(crate) use inbox::{Answer, Inbox, Late, ReplyTo};
pub(crate) use keeper::Keeper;
pub(crate) use slot::{Reached, Slot};
pub(crate) use trust::servers::KnownServers;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::protocol::command::{Request, Script};
use crate::protocol::record::{PROMOTED, Record, is_same_run};

/// Most bytes that may wait for one master:
/// - of calls without an answer; above that, releases are deferred, to be sent in batches,
/// - of deferred releases; above that, the master is sent no call for a new hold.
pub(crate) const BACKLOG: usize = 1 << 20;

/// Address of one master, and the way to connect to it.
pub(crate) trait Endpoint: Send + Sync {
    /// Address of the master, without credentials.
    fn label(&self) -> Arc<str>;

    /// Connects and sets up. Unless the master refuses, the connection listens to `channel` before it is used, so that no
    /// waiter is in a queue there without being reachable. Messages on subscribed channels go to `listener`.
    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        channel: &'a str,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>>;
}

/// Form in which a client names the channels that it listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChannelForm {
    /// One channel.
    Exact,
    /// All channels that a pattern matches.
    Pattern,
}

/// Receives the channel and the text of every message; must not block. A message for a pattern has the pattern in place of
/// the channel.
pub(crate) type Listener = Arc<dyn Fn(ChannelForm, &str, &str) + Send + Sync>;

/// Carries calls in the order in which they are made: a call that has returned has its place behind all
/// earlier calls. No method waits; the master's answer goes to the reply.
pub(crate) trait Wire: Send + Sync {
    /// Sends one script call.
    fn call(&self, request: &Request, by: By, reply: ReplyTo);

    /// Loads a script again.
    fn load(&self, script: &'static Script, reply: ReplyTo);

    /// Subscribes to a channel if `on`, or unsubscribes from it; answered when the master has confirmed.
    fn listen(&self, on: bool, form: ChannelForm, channel: &str, reply: ReplyTo);

    /// Bytes of the calls that have no answer yet.
    fn waiting(&self) -> usize;

    /// Time of the last bytes that were received.
    fn last_received(&self) -> Option<Instant>;
}

/// Form in which a call names its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Sha,
    Source,
}

/// A connection that has been set up.
pub(crate) struct Connection {
    pub(crate) wire: Box<dyn Wire>,
    /// Task that moves its bytes. The task ends when the connection does. If the task is dropped, the
    /// connection ends, and not a byte is written after that.
    pub(crate) driver: AbortOnDropHandle<()>,
    pub(crate) peer: Peer,
}

/// The server at the other end, and this client's connections there.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    /// Server's ids of this client's connections, if the server gives them.
    pub(crate) client_ids: Vec<i64>,
    /// Time before the master was asked for its record.
    pub(crate) asked: Instant,
    /// Record of the master at the connection's set-up.
    pub(crate) record: Option<Record>,
    /// Wall clock of the master at that moment, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// Version by the server's own account.
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Capabilities,
    /// Whether the server denies the channel on which this client's waiters are called.
    pub(crate) calls_denied: bool,
}

/// Identifies one run of one server.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
    /// Id of the data that a promoted replica had taken over; empty if Redis knows of no promotion.
    pub(crate) promoted_from: String,
    /// Whether the ids are those of one process. Some services answer in place of a process.
    pub(crate) is_of_a_process: bool,
}

/// Characters of an id that make it unique.
const TELLING: usize = 16;

impl Identity {
    /// Id of this server, if it has one.
    pub(crate) fn server(&self) -> Option<&str> {
        let ids = [&self.run_id, &self.replication_id];
        ids.into_iter().map(String::as_str).find(|id| !id.is_empty())
    }

    /// Run of the server as in a record; `None` if the server hides it. A promotion makes another run of it: the replica may
    /// have missed writes. The replication id itself changes without a loss, as when a first replica comes.
    pub(crate) fn run(&self) -> Option<String> {
        let part = |id: &str| id.chars().take(TELLING).collect::<String>();
        let run = || match &*self.promoted_from {
            "" => part(&self.run_id),
            from => format!("{}{PROMOTED}{}", part(&self.run_id), part(from)),
        };
        self.is_known().then(run)
    }

    /// Whether a later connection can know that it has reached the same run.
    pub(crate) fn is_known(&self) -> bool {
        self.is_of_a_process && !self.run_id.is_empty()
    }

    /// Whether a server that was met later is certainly in the same run of the same server.
    pub(crate) fn is_same_run(&self, later: &Self) -> bool {
        let runs = self.run().zip(later.run());
        runs.is_some_and(|(run, later)| is_same_run(&run, &later))
    }
}
