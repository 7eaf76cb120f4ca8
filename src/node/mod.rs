//! One master as the rest of the crate sees it.
//!
//! The seam is narrow: a [`Connector`] makes a [`Connection`], whose [`Wire`] carries one script call
//! and brings its reply or a [`Fault`]. A real server stands behind it, or, for tests, a master in
//! memory that runs the same Lua files. Everything above the seam (keeping a connection up, what is
//! owed to a master that is out of reach, votes) is the same code for both.

mod address;
mod fault;
mod link;
mod obligation;
mod server;
mod slot;
mod stream;

use std::sync::Arc;

use redis::Value;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use address::Address;
pub(crate) use fault::{Class, Fault};
pub(crate) use link::{By, Link};
pub(crate) use obligation::Obligation;
pub(crate) use server::Server;
pub(crate) use slot::{Keeping, Roster, Slot, Status};

use crate::error::NodeError;
use crate::script::Request;

/// How to reach one master.
#[derive(Clone, Debug)]
pub(crate) enum Connector {
    Redis(Box<Server>),
    #[cfg(feature = "test-util")]
    Memory(crate::sim::Master),
}

impl Connector {
    pub(crate) fn label(&self) -> Arc<str> {
        match self {
            Self::Redis(server) => Arc::clone(&server.address.label),
            #[cfg(feature = "test-util")]
            Self::Memory(master) => master.label(),
        }
    }

    async fn connect(&self, predecessor: Option<&Peer>) -> Result<Connection, NodeError> {
        match self {
            Self::Redis(server) => server.connect(predecessor).await,
            #[cfg(feature = "test-util")]
            Self::Memory(master) => master.connect(predecessor).await,
        }
    }
}

/// A connection that has been set up.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    /// The task that moves its bytes. It ends when the connection does; dropping it ends the
    /// connection, and not a byte is written after that.
    pub(crate) driver: AbortOnDropHandle<()>,
    pub(crate) peer: Peer,
}

/// Who is at the other end, and who we are there.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    pub(crate) client_id: i64,
}

/// Tells one run of one server from every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) run_id: String,
    pub(crate) replication_id: String,
}

/// Carries calls, in order.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Redis(redis::aio::MultiplexedConnection),
    #[cfg(feature = "test-util")]
    Memory(crate::sim::Wire),
}

impl Wire {
    async fn call(self, request: &Request, by: By) -> Result<Value, Fault> {
        match self {
            Self::Redis(link) => match by {
                By::Sha => server::call(link, &request.command).await,
                By::Source => server::call(link, &request.with_source()).await,
            },
            #[cfg(feature = "test-util")]
            Self::Memory(wire) => wire.call(request, by).await,
        }
    }
}
