//! A connection apart from those of locks, for questions to a server, whether it can be a master or not.

use std::sync::Arc;

use redis::{Cmd, Value};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pipeline::Pipe;
use super::questions::in_time;
use super::server::Server;
use crate::error::NodeError;
use crate::node::Listener;
use crate::protocol::fault::Fault;

/// A connection that is logged in and nothing more: it judges, marks and loads nothing, and ends no other
/// connection. It ends when this value is dropped.
pub(crate) struct Session {
    pub(super) pipe: Arc<Pipe>,
    _driver: AbortOnDropHandle<()>,
    /// Whether the server speaks RESP3.
    pub(super) resp3: bool,
    /// Server's id of the connection, if the server gives it.
    pub(super) client_id: Option<i64>,
}

impl Server {
    /// Opens a session within the connect timeout.
    pub(crate) async fn session(&self) -> Result<Session, NodeError> {
        in_time(self.connect_timeout, self.log_in_apart()).await
    }

    async fn log_in_apart(&self) -> Result<Session, NodeError> {
        let begun = Instant::now();
        let stream = self.open().await?;
        let credentials = self.ask_for_credentials(begun).await?;
        let listener: Listener = Arc::new(|_, _, _| {});
        let logging_in = self.log_in(stream, &listener, credentials.as_ref(), true);
        let socket = logging_in.await?;
        Ok(Session {
            pipe: socket.pipe,
            _driver: AbortOnDropHandle::new(tokio::spawn(socket.driver)),
            resp3: socket.resp3,
            client_id: socket.client_id,
        })
    }
}

impl Session {
    /// Sends a command and waits for the answer, without a time limit.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        self.pipe.ask(command).await
    }
}
