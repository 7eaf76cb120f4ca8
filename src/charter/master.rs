//! A session with one master, and what it stores.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::error::NodeError;
use crate::node::{Peer, Server, Session, questions};
use crate::protocol::keys::{CHARTER, MASTERS};
use crate::stored_charter::NodeCharter;

pub(super) struct Master {
    pub(super) label: Arc<str>,
    server: Server,
    session: Result<Session, NodeError>,
}

/// What a master stores.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// As it stands there.
    pub(super) text: String,
    pub(super) charter: NodeCharter,
}

impl Master {
    pub(super) async fn open(server: Server) -> Self {
        Self {
            label: Arc::clone(&server.address.label),
            session: server.session().await,
            server,
        }
    }

    /// A session in place of one that may have ended.
    pub(super) async fn open_again(&self) -> Self {
        Self::open(self.server.clone()).await
    }

    pub(super) fn session(&self) -> Result<&Session, NodeError> {
        self.session.as_ref().map_err(NodeError::clone)
    }

    /// What the connection is called there.
    pub(super) fn name(&self) -> &str {
        &self.server.connection_name
    }

    /// What the server calls the connection, where it says so.
    pub(super) fn client_id(&self) -> Option<i64> {
        self.session.as_ref().ok()?.client_id
    }

    pub(super) async fn answer(&self, command: &Cmd) -> Result<Value, NodeError> {
        self.session()?.answer(command, self.server.connect_timeout).await
    }

    pub(super) async fn introduction(&self) -> Result<Peer, NodeError> {
        self.session()?.introduction(&self.server).await
    }

    /// For how long an answer is waited for.
    pub(super) fn patience(&self) -> Duration {
        self.server.connect_timeout
    }

    /// What its clock shows, in microseconds since 1970.
    pub(super) async fn clock_us(&self) -> Result<u64, NodeError> {
        questions::clock_us(&self.answer(&redis::cmd("TIME")).await?)
    }

    pub(super) async fn stored(&self) -> Result<Stored, NodeError> {
        let text = self.text_under(CHARTER).await?;
        let masters = self.text_under(MASTERS).await?;
        Ok(Stored {
            charter: NodeCharter::parse(&text, &masters),
            text,
        })
    }

    /// What stands under a key; nothing where there is none.
    pub(super) async fn text_under(&self, key: &str) -> Result<String, NodeError> {
        match self.answer(&questions::get(key)).await? {
            Value::Nil => Ok(String::new()),
            other => questions::text(&other).ok_or_else(|| questions::unexpected("GET", &other)),
        }
    }
}
