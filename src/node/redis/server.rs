//! The real master: a Redis or Valkey server, and the set-up that each connection to it goes through.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, join, join_all, select};
use redis::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::info::Accepted;
use super::introduction::{Introduction, identity};
use super::pipeline::{Driver, Pipe};
use super::questions::ask;
use super::refresh;
use super::setup::{Login, log_in};
use super::socket::{self, Stream};
use super::tls::Tls;
use super::uptime::Uptime;
use super::wire::ServerWire;
use crate::capabilities::Capabilities;
use crate::config::Unknowns;
use crate::credentials::{Credentials, Provider};
use crate::error::{NodeError, Unfit};
use crate::node::{Answer, Connection, Endpoint, Listener, Marker, Peer};
use crate::protocol::fault::{Class, Fault};
use crate::protocol::keys::{CONNECTED, MARKER};
use crate::protocol::{calls, permissions};

/// What it takes to connect to one server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    /// Who tells as whom to log in, in place of the URL.
    pub(crate) credentials: Option<Provider>,
    /// Of an address that is secured.
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) allow_eviction: bool,
    pub(crate) allow_unknown: Unknowns,
    /// Whether its memory is to be marked.
    pub(crate) strict: bool,
    /// How `CLIENT LIST` shows the connections.
    pub(crate) connection_name: Arc<str>,
}

impl Endpoint for Server {
    fn label(&self) -> Arc<str> {
        Arc::clone(&self.address.label)
    }

    fn connect<'a>(
        &'a self,
        predecessor: Option<&'a Peer>,
        listener: Listener,
    ) -> BoxFuture<'a, Result<Connection, NodeError>> {
        self.set_up(predecessor, listener).boxed()
    }
}

/// A socket on which we are logged in. Its bytes move only while something is asked.
pub(super) struct Line {
    pub(super) pipe: Arc<Pipe>,
    pub(super) driver: Driver,
    pub(super) resp3: bool,
    /// What the server calls it, where it says so.
    pub(super) client_id: Option<i64>,
}

impl Line {
    /// Does what needs answers.
    async fn with<T>(&mut self, asking: impl Future<Output = T>) -> T {
        match select(&mut self.driver, pin!(asking)).await {
            Either::Left(((), asking)) => asking.await,
            Either::Right((done, _)) => done,
        }
    }
}

impl Server {
    /// Log in, learn who the server is, refuse one that will not do, end the predecessor of this
    /// connection, load the scripts, see whether what they do is allowed.
    async fn set_up(&self, predecessor: Option<&Peer>, listener: Listener) -> Result<Connection, NodeError> {
        let begun = Instant::now();
        let stream = self.open().await?;
        let credentials = self.ask_for_credentials(begun).await?;
        let mut calls = self
            .log_in(stream, &listener, credentials.as_ref(), |driver| driver)
            .await?;
        // Over RESP2 a connection that has subscribed takes no calls.
        let notices = if calls.resp3 {
            None
        } else {
            Some(self.listen(&listener, credentials.as_ref()).await?)
        };
        let pipe = Arc::clone(&calls.pipe);
        let mut peer = calls.with(self.introduce(&pipe, calls.resp3)).await?;
        let ids = [calls.client_id, notices.as_ref().and_then(|line| line.client_id)];
        peer.client_ids = ids.into_iter().flatten().collect();
        let old = predecessor.filter(|old| old.identity.is_same_run(&peer.identity));
        let ended = calls
            .with(end(&pipe, old.map_or(&[], |old| &old.client_ids)))
            .await;
        peer.capabilities.kill_fence = ended && !peer.client_ids.is_empty();
        calls.with(prepare(&pipe)).await?;
        let refresh = credentials.and_then(|given| self.keep_logged_in(&pipe, given));
        let wire = ServerWire::new(pipe, notices.as_ref().map(|line| Arc::clone(&line.pipe)), refresh);
        // Neither is of use without the other.
        let driver = match notices {
            None => tokio::spawn(calls.driver),
            Some(line) => tokio::spawn(select(calls.driver, line.driver).map(drop)),
        };
        Ok(Connection {
            wire: Box::new(wire),
            driver: AbortOnDropHandle::new(driver),
            peer,
        })
    }

    /// What is valid now, where there is somebody to be asked; for a connection that was begun then.
    pub(super) async fn ask_for_credentials(&self, begun: Instant) -> Result<Option<Credentials>, NodeError> {
        let Some(provider) = &self.credentials else {
            return Ok(None);
        };
        // The rest of the time is for the server, and whoever looks at the clock tells of both as one.
        let end = begun + self.connect_timeout.mul_f64(0.9);
        provider.ask(end).await.map(Some).map_err(NodeError::Unavailable)
    }

    /// Keeps a connection logged in that was set up with what was given. One for messages needs no more than it had: over
    /// RESP2 it takes no AUTH once it has subscribed, and no server ends it when a password changes.
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

    pub(super) async fn open(&self) -> Result<Box<dyn Stream>, NodeError> {
        socket::open(self.address.info.addr(), self.tls.as_ref(), self.connect_timeout)
            .await
            .map_err(|error| NodeError::Unavailable(error.to_string()))
    }

    pub(super) async fn log_in(
        &self,
        stream: Box<dyn Stream>,
        listener: &Listener,
        credentials: Option<&Credentials>,
        dress: impl FnOnce(Driver) -> Driver,
    ) -> Result<Line, NodeError> {
        let (pipe, driver) = Pipe::open(stream, Arc::clone(listener));
        let mut line = Line {
            pipe: Arc::clone(&pipe),
            driver: dress(driver),
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
                    self.address.is_tcp_in_the_clear(),
                )
                .await?,
                client_id(&pipe).await,
            ))
        };
        let logged_in: Result<_, NodeError> = line.with(logging_in).await;
        (line.resp3, line.client_id) = logged_in?;
        Ok(line)
    }

    /// A connection for messages alone. It subscribes at once, or a server that closes what is idle would close it
    /// while nobody waits.
    async fn listen(
        &self,
        listener: &Listener,
        credentials: Option<&Credentials>,
    ) -> Result<Line, NodeError> {
        let stream = self.open().await?;
        let mut line = self
            .log_in(stream, listener, credentials, Driver::for_notices)
            .await?;
        let pipe = Arc::clone(&line.pipe);
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg(CONNECTED);
        // Where that is denied, so are the others, and waiters wake by their timers.
        let _ = line.with(pipe.ask(&subscribe)).await;
        Ok(line)
    }

    pub(super) async fn introduce(&self, pipe: &Pipe, resp3: bool) -> Result<Peer, NodeError> {
        let told = Introduction::hear(pipe).await?;
        let info = told.info();
        info.judge(told.role.as_deref(), self.accepted())?;
        let clock_us = told.clock_us()?;
        let uptime = Uptime::read(&info, clock_us);
        let mut memory = uptime.memory(&info);
        let identity = identity(&info, &uptime);
        let mut marker = None;
        if self.strict {
            let (found, age) = self
                .mark(pipe, identity.server().unwrap_or("?"), clock_us)
                .await?;
            memory.marked(age);
            marker = Some(found);
        }
        Ok(Peer {
            client_ids: Vec::new(),
            memory,
            clock_us,
            marker,
            version: info.fact("redis_version").into(),
            capabilities: Capabilities {
                resp3,
                kill_fence: false,
                uptime_known: uptime.vouched,
                eviction_known: info.evicts().is_some(),
                identity_known: identity.server().is_some(),
            },
            identity,
        })
    }

    /// What is accepted of a server although it may cost a promise.
    pub(super) fn accepted(&self) -> Accepted {
        Accepted {
            eviction: self.allow_eviction,
            unknown: self.allow_unknown,
        }
    }

    /// The mark on the server's memory and its age; made now where this run has none.
    async fn mark(&self, pipe: &Pipe, run_id: &str, clock_us: u64) -> Result<(Marker, Duration), NodeError> {
        if let Some(found) = mark_of(pipe, run_id, clock_us).await? {
            return Ok(found);
        }
        let marker = Marker::new(run_id, clock_us);
        let mut set = redis::cmd("SET");
        set.arg(MARKER).arg(marker.as_str());
        ask(pipe, &set).await?;
        Ok((marker, Duration::ZERO))
    }
}

/// What the server calls this connection, where it says so: an ACL or a service may deny it.
async fn client_id(pipe: &Pipe) -> Option<i64> {
    let mut id = redis::cmd("CLIENT");
    id.arg("ID");
    match pipe.ask(&id).await {
        Ok(Value::Int(id)) => Some(id),
        _ => None,
    }
}

/// The mark that this run has on its memory, and its age.
pub(super) async fn mark_of(
    pipe: &Pipe,
    run_id: &str,
    clock_us: u64,
) -> Result<Option<(Marker, Duration)>, NodeError> {
    let mut get = redis::cmd("GET");
    get.arg(MARKER);
    Ok(match ask(pipe, &get).await? {
        Value::BulkString(bytes) => Marker::found(&String::from_utf8_lossy(&bytes), run_id, clock_us),
        _ => None,
    })
}

/// No connection has this number.
pub(super) const NOBODY: i64 = i64::MAX;

/// Ends other connections of ours, so that what their sockets still hold is not executed after its rollback; whether
/// that can be done. Where it cannot, the fresh owner field of every attempt bounds the harm to an orphan until
/// the end of its lease.
pub(super) async fn end(pipe: &Pipe, client_ids: &[i64]) -> bool {
    let ids = if client_ids.is_empty() {
        &[NOBODY]
    } else {
        client_ids
    };
    let ending = ids.iter().map(|id| {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(*id);
        pipe.ask(&kill)
    });
    let ended = join_all(ending).await;
    ended.iter().all(|answer| matches!(answer, Ok(Value::Int(_))))
}

/// Loads the scripts, and looks whether the server runs what they do.
async fn prepare(pipe: &Pipe) -> Result<(), NodeError> {
    // Where loading is denied, a call meets NOSCRIPT and sends the text.
    let loading = join_all(calls::ALL.map(|script| pipe.ask(&script.load())));
    let (loaded, probed) = join(loading, pipe.ask(&permissions::probe())).await;
    refuse(probed, loaded.iter().any(Result::is_ok))
}

/// Refuses a server that does not run what the scripts do, by what the probe came to and whether any script could be
/// loaded.
pub(super) fn refuse(probed: Answer, loads: bool) -> Result<(), NodeError> {
    let denied = match probed {
        Ok(answer) => permissions::denied(&answer),
        Err(Fault::Server { class, error }) if is_without_scripts(class, &error) && !loads => {
            let error = error.to_string();
            return Err(Unfit::NoScripts { error }.into());
        }
        Err(_) => Vec::new(),
    };
    if denied.is_empty() {
        return Ok(());
    }
    let error = format!("the user may not run {} in a script", denied.join(", "));
    Err(Unfit::Denied { error }.into())
}

/// Whether that is how a server says that it knows no Lua: without EVAL at all, or without the module for it.
fn is_without_scripts(class: Class, error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    let words = ["unknown command", "unsupported command", "scripting engine"];
    class == Class::Unforeseen && words.iter().any(|words| error.contains(words))
}

#[cfg(test)]
mod tests;
