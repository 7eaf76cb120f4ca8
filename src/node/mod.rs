//! One master as the rest of the crate sees it.
//!
//! The seam is narrow: an [`Endpoint`] makes a [`Connection`], whose [`Wire`] carries one script call
//! and brings its reply or a [`Fault`](crate::protocol::fault::Fault), and carries messages
//! the other way. A real server stands behind it, or, for tests, a master in memory that runs the
//! same Lua files. Everything above the seam (keeping a connection up, what is owed to a master
//! that is out of reach, votes) is the same code for both.

pub(crate) mod channels;
mod connection;
mod deferred;
mod inbox;
mod introduction;
mod keeper;
pub(crate) mod label;
mod leaving;
mod pace;
mod redis;
mod slot;
pub(crate) mod sync;
pub(crate) mod trust;
pub(crate) mod waiters;

use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::redis::address::{Address, NodeUrl};
pub(crate) use self::redis::client_list::POOL;
pub(crate) use self::redis::examine::Examined;
#[cfg(fuzzing)]
pub(crate) use self::redis::resp::first as first_reply;
pub(crate) use self::redis::server::Server;
pub(crate) use self::redis::tls::{CA_FILE, CERT_FILE, KEY_FILE, Tls, TlsFiles};
pub(crate) use connection::{Link, Links};
pub(crate) use deferred::{PendingRelease, is_done};
pub(crate) use inbox::{Answer, Inbox, Late, ReplyTo};
pub(crate) use keeper::{Keeper, KeeperContext};
pub(crate) use slot::{Reached, Slot};
pub(crate) use trust::servers::KnownServers;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::protocol::command::{Request, Script};
use crate::protocol::record::Record;

/// Bytes that may wait for one master: of calls without an answer, above which releases are kept back, to be sent together;
/// and of releases that are kept back, above which the master is asked for no new hold.
pub(crate) const BACKLOG: usize = 1 << 20;

/// How to reach one master.
pub(crate) trait Endpoint: fmt::Debug + Send + Sync {
    /// The master's address, without credentials.
    fn label(&self) -> Arc<str>;

    /// Connects and sets up. The connection listens to `channel` before it is used, so that nobody stands in a queue there
    /// who could not be called. Messages that arrive on subscribed channels go to `listener`.
    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        channel: &'a str,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>>;
}

/// Is told the channel of every message, and what it says; must not block.
pub(crate) type Listener = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Carries calls, in the order in which they are made: when a call returns, it has its place behind
/// all that came before. Nothing here waits; what a master says goes to the reply.
pub(crate) trait Wire: fmt::Debug + Send + Sync {
    /// One script call.
    fn call(&self, request: &Request, by: By, reply: ReplyTo);

    /// Makes the master know a script again.
    fn load(&self, script: &'static Script, reply: ReplyTo);

    /// Asks for the messages of some channels; answered when the master has confirmed them all.
    fn subscribe(&self, channels: &[String], reply: ReplyTo);

    /// Asks for them no longer.
    fn unsubscribe(&self, channels: &[String], reply: ReplyTo);

    /// Bytes of the calls that have no answer yet.
    fn waiting(&self) -> usize;

    /// When anything was received last.
    fn heard(&self) -> Option<Instant>;
}

/// How a script is named in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Sha,
    Source,
}

/// A connection that has been set up.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Box<dyn Wire>,
    /// The task that moves its bytes. It ends when the connection does; dropping it ends the
    /// connection, and not a byte is written after that.
    pub(crate) driver: AbortOnDropHandle<()>,
    pub(crate) peer: Peer,
}

/// Who is at the other end, and who we are there.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    /// What it calls our connections to it, where it says so.
    pub(crate) client_ids: Vec<i64>,
    /// What it had recorded at the connection's set-up.
    pub(crate) record: Option<Record>,
    /// Its wall clock at that moment, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// What it calls its version.
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Capabilities,
    /// Whether it denies us the channel on which our waiters are called.
    pub(crate) calls_denied: bool,
}

/// Tells one run of one server from every other.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
    /// Whether the ids are those of one process: some services answer in the place of one.
    pub(crate) is_of_a_process: bool,
}

/// Characters of an id that tell it from every other.
const TELLING: usize = 16;

impl Identity {
    /// What tells this server from every other, if anything does.
    pub(crate) fn server(&self) -> Option<&str> {
        let ids = [&self.run_id, &self.replication_id];
        ids.into_iter().map(String::as_str).find(|id| !id.is_empty())
    }

    /// Which run of the server this is, as a record has it; `None` where the server hides that. A promoted replica has
    /// another replication id than before, and has not remembered what it was not told.
    pub(crate) fn run(&self) -> Option<String> {
        let part = |id: &str| {
            id.chars()
                .take(TELLING)
                .filter(|c| !c.is_whitespace())
                .collect::<String>()
        };
        let run = || format!("{}-{}", part(&self.run_id), part(&self.replication_id));
        (self.is_of_a_process && !self.run_id.is_empty()).then(run)
    }

    /// Whether it is certain that this is the same run of the same server.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        let is_known = self.is_of_a_process && other.is_of_a_process && self.server().is_some();
        is_known && self.run_id == other.run_id && self.replication_id == other.replication_id
    }
}
