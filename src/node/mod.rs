//! One master as the rest of the crate sees it.
//!
//! The seam is narrow: an [`Endpoint`] makes a [`Connection`], whose [`Wire`] carries one script call
//! and brings its reply or a [`Fault`](crate::protocol::fault::Fault), and carries messages
//! the other way. A real server stands behind it, or, for tests, a master in memory that runs the
//! same Lua files. Everything above the seam (keeping a connection up, what is owed to a master
//! that is out of reach, votes) is the same code for both.

pub(crate) mod channels;
mod charter;
mod connection;
pub(crate) mod courtesy;
mod deferred;
mod inbox;
mod keeper;
pub(crate) mod label;
mod leaving;
mod pace;
mod redis;
mod slot;
pub(crate) mod sync;
pub(crate) mod trust;
pub(crate) mod waiters;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::redis::address::{Address, NodeUrl};
pub(crate) use self::redis::client_list::{ClientLine, POOL};
pub(crate) use self::redis::examine::Examined;
pub(crate) use self::redis::questions;
#[cfg(fuzzing)]
pub(crate) use self::redis::resp::first as first_reply;
pub(crate) use self::redis::server::Server;
pub(crate) use self::redis::session::Session;
pub(crate) use self::redis::tls::{CA_FILE, CERT_FILE, KEY_FILE, Tls, TlsFiles};
pub(crate) use connection::{Link, Links};
pub(crate) use deferred::{DeferredRelease, is_done};
pub(crate) use inbox::{Answer, Inbox, Late, ReplyTo};
pub(crate) use keeper::{Keeper, KeeperContext};
pub(crate) use slot::{Reached, Slot};
pub(crate) use trust::marker::Marker;
pub(crate) use trust::servers::KnownServers;

use crate::capabilities::Capabilities;
use crate::error::NodeError;
use crate::protocol::command::{Request, Script};

/// How to reach one master.
pub(crate) trait Endpoint: fmt::Debug + Send + Sync {
    /// The master's address, without credentials.
    fn label(&self) -> Arc<str>;

    /// Connects and sets up. Messages that arrive on subscribed channels go to `listener`.
    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
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
    pub(crate) memory: Memory,
    /// Its wall clock at the connection's set-up, in microseconds since 1970.
    pub(crate) clock_us: u64,
    /// What its memory is marked with, where that was asked for.
    pub(crate) marker: Option<Marker>,
    /// What it calls its version.
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Capabilities,
}

/// For how long a server has been a master that remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// By what it tells.
    pub(crate) told: Duration,
    /// Whether that can be relied upon. Where it cannot, because it was a replica meanwhile or its uptime may not
    /// be that of its process, it counts for no longer than this client has known it.
    pub(crate) vouched: bool,
    /// Whether it counts from the first mark on a memory that is older (`strict`).
    pub(crate) newly_marked: bool,
}

/// A server that was started gets its mark so soon.
const MARKED_WITHIN: Duration = Duration::from_secs(10);

impl Memory {
    /// Takes in that the memory was marked so long ago. Nothing shows that it was not wiped before.
    pub(crate) fn marked(&mut self, age: Duration) {
        self.newly_marked = age.saturating_add(MARKED_WITHIN) < self.told;
        self.told = self.told.min(age);
    }
}

/// Tells one run of one server from every other.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
    /// When it was started, in seconds of its own clock: the same at every look, but for what is rounded off. `None`
    /// for one that does not tell, of which nobody knows at a second look whether it was started anew.
    pub(crate) started_s: Option<u64>,
}

/// What is rounded off differently at two looks: the uptime, the clock, and the time between the two.
const ROUNDED_OFF_S: u64 = 2;

impl Identity {
    /// What tells this server from every other, if anything does.
    pub(crate) fn server(&self) -> Option<&str> {
        let ids = [&self.run_id, &self.replication_id];
        ids.into_iter().map(String::as_str).find(|id| !id.is_empty())
    }

    /// Whether it is certain that this is the same run of the same server.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        let starts = self.started_s.zip(other.started_s);
        self.server().is_some()
            && self.run_id == other.run_id
            && self.replication_id == other.replication_id
            && starts.is_some_and(|(one, two)| one.abs_diff(two) <= ROUNDED_OFF_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_is_much_younger_than_the_server_is_the_first_one() {
        let seconds = Duration::from_secs;
        let marked = |started, age| {
            let mut memory = Memory {
                told: started,
                vouched: true,
                newly_marked: false,
            };
            memory.marked(age);
            (memory.told, memory.newly_marked)
        };
        assert_eq!(marked(seconds(60), seconds(5)), (seconds(5), true));
        assert_eq!(marked(seconds(60), seconds(58)), (seconds(58), false));
        assert_eq!(marked(seconds(3), seconds(0)), (seconds(0), false));
        // A clock that was set back since.
        assert_eq!(marked(seconds(60), seconds(90)), (seconds(60), false));
        assert_eq!(marked(Duration::MAX, Duration::MAX), (Duration::MAX, false));
    }
}
