//! A real master: a Redis or Valkey server, and the set-up of each connection to it.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, join, join_all, select};
use redis::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::lookup::Lookup;
use super::pipeline::{Driver, Pipe};
use super::questions::{denied, judge};
use super::refresh;
use super::server_answers::{ServerAnswers, capabilities, identity};
use super::setup::{Login, log_in};
use super::socket::{self, Stream};
use super::tls::Tls;
use super::wire::ServerWire;
use crate::error::{NodeError, Unfit};
use crate::masters::config::AcceptedRisks;
use crate::masters::credentials::{Credentials, Provider};
use crate::node::{Answer, Connection, Endpoint, Listener, Peer};
use crate::protocol::fault::{Fault, FaultClass, is_unknown_command};
use crate::protocol::{calls, permissions};

/// Settings for connections to one server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) lookup: Lookup,
    /// Provider of the login, in place of the URL.
    pub(crate) credentials: Option<Provider>,
    /// TLS, for an address that uses it.
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) accepted: AcceptedRisks,
    /// Name of the connections in `CLIENT LIST`.
    pub(crate) connection_name: Arc<str>,
}

impl Endpoint for Server {
    fn label(&self) -> Arc<str> {
        Arc::clone(&self.address.label)
    }

    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        channel: &'a str,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        self.set_up(predecessor, channel, listener).boxed()
    }
}

/// A socket that is logged in. Its bytes move only while a question is asked.
pub(super) struct LoggedInSocket {
    pub(super) pipe: Arc<Pipe>,
    pub(super) driver: Driver,
    pub(super) resp3: bool,
    /// Server's id of the connection, if the server gives it.
    pub(super) client_id: Option<i64>,
}

impl LoggedInSocket {
    /// Runs questions, and moves the bytes meanwhile.
    async fn with<T>(&mut self, asking: impl Future<Output = T>) -> T {
        match select(&mut self.driver, pin!(asking)).await {
            Either::Left(((), asking)) => asking.await,
            Either::Right((done, _)) => done,
        }
    }
}

impl Server {
    /// Sets a connection up, step by step:
    /// - log in,
    /// - read the server's facts, and refuse a server that cannot be a master,
    /// - end the predecessor of this connection,
    /// - listen to the client's channel,
    /// - load the scripts, and check that their commands are allowed.
    async fn set_up(
        &self,
        predecessor: Option<&Peer>,
        channel: &str,
        listener: Listener,
    ) -> Result<Connection, NodeError> {
        let (begun, failed) = (Instant::now(), self.lookup.failed());
        let stream = self.open(failed).await?;
        let credentials = self.ask_for_credentials(begun).await?;
        let may_need_tls = predecessor.is_none();
        let logging_in = self.log_in(stream, &listener, credentials.as_ref(), may_need_tls);
        let mut calls = logging_in.await?;
        // Over RESP2 a connection that has subscribed takes no calls.
        let mut notices = if calls.resp3 {
            None
        } else {
            Some(
                self.open_for_notices(failed, &listener, credentials.as_ref())
                    .await?,
            )
        };
        let pipe = Arc::clone(&calls.pipe);
        let mut peer = calls.with(self.introduce(&pipe, calls.resp3)).await?;
        let ids = [
            calls.client_id,
            notices.as_ref().and_then(|socket| socket.client_id),
        ];
        peer.client_ids = ids.into_iter().flatten().collect();
        let old = predecessor.filter(|old| old.identity.is_same_run(&peer.identity));
        let ended = calls
            .with(end(&pipe, old.map_or(&[], |old| &old.client_ids)))
            .await;
        peer.capabilities.kill_fence = ended && !peer.client_ids.is_empty() && peer.identity.is_known();
        let prepared = match &mut notices {
            None => calls.with(join(prepare(&pipe), listen(&pipe, channel))).await,
            Some(socket) => {
                let notices = Arc::clone(&socket.pipe);
                (
                    calls.with(prepare(&pipe)).await,
                    socket.with(listen(&notices, channel)).await,
                )
            }
        };
        prepared.0?;
        peer.calls_denied = prepared.1?;
        let wire = ServerWire {
            notices: notices.as_ref().map(|socket| Arc::clone(&socket.pipe)),
            _refresh: credentials.and_then(|given| self.keep_logged_in(&pipe, given)),
            calls: pipe,
        };
        // Each of the two connections is useless without the other.
        let driver = match notices {
            None => tokio::spawn(calls.driver),
            Some(socket) => tokio::spawn(select(calls.driver, socket.driver).map(drop)),
        };
        self.lookup.set_failed(failed);
        Ok(Connection {
            wire: Box::new(wire),
            driver: AbortOnDropHandle::new(driver),
            peer,
        })
    }

    /// Asks the provider, if there is one, for the credentials of a connection that was begun at `begun`.
    pub(super) async fn ask_for_credentials(&self, begun: Instant) -> Result<Option<Credentials>, NodeError> {
        let Some(provider) = &self.credentials else {
            return Ok(None);
        };
        // The server has the remaining time. The connect timeout covers both, so its error would not show
        // which one was slow.
        let end = begun + self.connect_timeout.mul_f64(0.9);
        provider.ask(end).await.map(Some).map_err(NodeError::Unavailable)
    }

    /// Keeps a connection logged in that was set up with `given`. A connection for messages stays as it is:
    /// over RESP2 it takes no AUTH once it has subscribed, and no server ends it when a password changes.
    fn keep_logged_in(&self, pipe: &Arc<Pipe>, given: Credentials) -> Option<AbortOnDropHandle<()>> {
        let provider = self.credentials.clone()?;
        let keeping = refresh::keep_logged_in(
            Arc::clone(pipe),
            self.address.clone(),
            provider,
            given,
            self.connect_timeout,
        );
        Some(AbortOnDropHandle::new(tokio::spawn(keeping)))
    }

    /// Opens a stream, if it can to another address than the one that has `failed`.
    pub(super) async fn open(&self, failed: Option<SocketAddr>) -> Result<Box<dyn Stream>, NodeError> {
        let (address, tls) = (self.address.info.addr(), self.tls.as_ref());
        socket::open(address, &self.lookup, failed, tls, self.connect_timeout)
            .await
            .map_err(|error| NodeError::Unavailable(error.to_string()))
    }

    /// Logs in. `may_need_tls` unless the server was in use without TLS before.
    pub(super) async fn log_in(
        &self,
        stream: Box<dyn Stream>,
        listener: &Listener,
        credentials: Option<&Credentials>,
        may_need_tls: bool,
    ) -> Result<LoggedInSocket, NodeError> {
        let (pipe, driver) = Pipe::open(stream, Arc::clone(listener));
        let mut socket = LoggedInSocket {
            pipe: Arc::clone(&pipe),
            driver,
            resp3: false,
            client_id: None,
        };
        let login = Login::new(self.address.info.redis_settings(), credentials);
        let logging_in = async {
            Ok((
                log_in(
                    &pipe,
                    &login,
                    &self.connection_name,
                    may_need_tls && self.address.is_tcp_in_the_clear(),
                )
                .await?,
                client_id(&pipe).await,
            ))
        };
        let logged_in: Result<_, NodeError> = socket.with(logging_in).await;
        (socket.resp3, socket.client_id) = logged_in?;
        Ok(socket)
    }

    /// Opens a connection for messages alone.
    async fn open_for_notices(
        &self,
        failed: Option<SocketAddr>,
        listener: &Listener,
        credentials: Option<&Credentials>,
    ) -> Result<LoggedInSocket, NodeError> {
        let stream = self.open(failed).await?;
        let mut socket = self.log_in(stream, listener, credentials, false).await?;
        socket.driver.takes_notices_in_arrays();
        Ok(socket)
    }

    pub(super) async fn introduce(&self, pipe: &Pipe, resp3: bool) -> Result<Peer, NodeError> {
        let asked = Instant::now();
        let answers = ServerAnswers::read(pipe).await?;
        let info = answers.info();
        info.judge(answers.role.as_deref(), self.accepted)?;
        let (clock_us, record) = (answers.clock_us()?, answers.record()?);
        let identity = identity(&info);
        Ok(Peer {
            client_ids: Vec::new(),
            asked,
            record,
            clock_us,
            version: info.fact("redis_version").into(),
            calls_denied: false,
            capabilities: capabilities(&info, &identity, resp3, false),
            identity,
        })
    }
}

/// Subscribes to the channel on which waiters are called. Returns whether the server refuses that, by an ACL or because it
/// has no such command; waiters then wake by their timers. An error that passes, such as BUSY, is no refusal: the connection
/// would never listen.
async fn listen(pipe: &Pipe, channel: &str) -> Result<bool, NodeError> {
    match pipe.ask(redis::cmd("SUBSCRIBE").arg(channel)).await {
        Ok(_) => Ok(false),
        Err(fault) if matches!(fault.class(), None | Some(FaultClass::Passing)) => Err(judge(fault)),
        Err(_) => Ok(true),
    }
}

/// Server's id of this connection. An ACL or a service may deny it.
async fn client_id(pipe: &Pipe) -> Option<i64> {
    match pipe.ask(redis::cmd("CLIENT").arg("ID")).await {
        Ok(Value::Int(id)) => Some(id),
        _ => None,
    }
}

/// Id that no connection has.
pub(super) const NOBODY: i64 = i64::MAX;

/// Ends other connections of this client, so that the bytes in their sockets are not executed after their
/// rollback. Returns whether that is possible. If not, the fresh owner field of each attempt limits the harm
/// to an orphan until the end of its lease.
pub(super) async fn end(pipe: &Pipe, client_ids: &[i64]) -> bool {
    let ids = if client_ids.is_empty() {
        &[NOBODY]
    } else {
        client_ids
    };
    let ending = ids
        .iter()
        .map(|id| pipe.ask(redis::cmd("CLIENT").arg("KILL").arg("ID").arg(*id)));
    let ended = join_all(ending).await;
    ended.iter().all(|answer| matches!(answer, Ok(Value::Int(_))))
}

/// Loads the scripts, and checks that the server runs their commands.
async fn prepare(pipe: &Pipe) -> Result<(), NodeError> {
    // If loading is denied, a call is answered NOSCRIPT, and the client sends the text.
    let loading = join_all(calls::ALL.map(|script| pipe.ask(&script.load())));
    let (loaded, probed) = join(loading, pipe.ask(&permissions::probe())).await;
    refuse(probed, loaded.iter().any(Result::is_ok))
}

/// Refuses a server that does not run the scripts' commands, by the result of the probe and by whether any
/// script was loaded.
pub(super) fn refuse(probed: Answer, loads: bool) -> Result<(), NodeError> {
    let lacking = match probed {
        Ok(answer) => permissions::denied(&answer),
        Err(Fault::Server(class, error)) if is_without_scripts(class, &error) && !loads => {
            let error = error.to_string();
            return Err(Unfit::NoScripts { error }.into());
        }
        Err(Fault::Server(FaultClass::Denied, error)) if !loads => return Err(denied(&error)),
        Err(_) => Vec::new(),
    };
    if lacking.is_empty() {
        return Ok(());
    }
    Err(denied(&format!(
        "the user may not run {} in a script",
        lacking.join(", ")
    )))
}

/// Whether the error shows a server without Lua: without EVAL, or without the module for it.
fn is_without_scripts(class: FaultClass, error: &str) -> bool {
    let has_no_engine = || error.to_ascii_lowercase().contains("scripting engine");
    class == FaultClass::Unforeseen && (is_unknown_command(error) || has_no_engine())
}

#[cfg(test)]
mod tests;
