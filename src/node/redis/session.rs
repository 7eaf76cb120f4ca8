//! A connection apart from those that locks use, for questions to a server as it is, whether it will do as a master or not.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pipeline::Pipe;
use super::questions::{ask, in_time};
use super::server::Server;
use crate::error::NodeError;
use crate::node::{Listener, Peer};
use crate::protocol::fault::Fault;

/// Logged in, and nothing more: nothing was judged, marked or loaded, and no other connection was ended. It ends with
/// this value.
pub(crate) struct Session {
    pub(super) pipe: Arc<Pipe>,
    _driver: AbortOnDropHandle<()>,
    /// Whether the server speaks RESP3.
    pub(crate) resp3: bool,
    /// What the server calls the connection, where it says so.
    pub(crate) client_id: Option<i64>,
}

impl Server {
    /// Opens a session, in the connect timeout.
    pub(crate) async fn session(&self) -> Result<Session, NodeError> {
        in_time(self.connect_timeout, self.log_in_apart()).await
    }

    async fn log_in_apart(&self) -> Result<Session, NodeError> {
        let begun = Instant::now();
        let stream = self.open().await?;
        let credentials = self.ask_for_credentials(begun).await?;
        let listener: Listener = Arc::new(|_, _| {});
        let line = self
            .log_in(stream, &listener, credentials.as_ref(), |driver| driver)
            .await?;
        Ok(Session {
            pipe: line.pipe,
            _driver: AbortOnDropHandle::new(tokio::spawn(line.driver)),
            resp3: line.resp3,
            client_id: line.client_id,
        })
    }
}

impl Session {
    /// The server's answer, however long it takes.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        self.pipe.ask(command).await
    }

    /// The same within so long, and what an error says of the server.
    pub(crate) async fn answer(&self, command: &Cmd, within: Duration) -> Result<Value, NodeError> {
        in_time(within, ask(&self.pipe, command)).await
    }

    /// Who the server is, and for how long it has remembered; refused, where it will not do as a master.
    pub(crate) async fn introduction(&self, server: &Server) -> Result<Peer, NodeError> {
        in_time(server.connect_timeout, server.introduce(&self.pipe, self.resp3)).await
    }
}
