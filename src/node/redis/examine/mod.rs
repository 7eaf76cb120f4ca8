//! Examines a server over a session of its own, whether it can be a master or not. The examination marks or
//! ends nothing there, and leaves nothing behind.

mod access;
mod clients;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{FutureExt, join_all};
use redis::{ConnectionAddr, Value};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::clients::POOL;
use super::lookup::Lookup;
use super::pipeline::Pipe;
use super::questions::{ask, clock_us, in_time};
use super::server::{NOBODY, Server, end, refuse};
use super::server_answers::{ServerAnswers, capabilities, identity};
use crate::admin::examination::{ClientConnection, ServerFacts};
use crate::error::NodeError;
use crate::node::{Identity, Listener};
use crate::protocol::text::text;
use crate::protocol::{calls, permissions};
use crate::time::clock::Clock;

/// Number of readings of the clock; the quickest answer counts.
const READINGS: usize = 5;

/// Factor of the connect timeout for all questions together. A connection is several round trips itself, and
/// has one timeout.
const QUESTIONS: u32 = 8;

/// Facts of one server, and the identity that is judged together with the other masters.
pub(crate) struct Examined {
    /// Facts of the server. The quarantine among them is not computed yet.
    pub(crate) facts: ServerFacts,
    pub(crate) identity: Identity,
}

/// A connection apart from those of locks. It is logged in and nothing more: it judges, marks and loads nothing, and ends no
/// other connection. It ends when this value is dropped.
struct Session {
    pipe: Arc<Pipe>,
    _driver: AbortOnDropHandle<()>,
    /// Whether the server speaks RESP3.
    resp3: bool,
    /// Server's id of the connection, if the server gives it.
    client_id: Option<i64>,
}

impl Server {
    /// Reads all facts, for a client with or without the option `beside_redisson`.
    pub(crate) async fn examine(&self, beside_redisson: bool) -> Result<Examined, NodeError> {
        let session = self.session().await?;
        let within = self.connect_timeout * QUESTIONS;
        let mut examined = in_time(within, self.question(&session, beside_redisson).boxed()).await?;
        examined.facts.other_servers = self.other_servers(&examined.identity).await;
        Ok(examined)
    }

    /// Addresses of the host that lead to another server than this one. An address that does not answer, or a server that
    /// hides its process, is not among them.
    pub(super) async fn other_servers(&self, examined: &Identity) -> Vec<SocketAddr> {
        let (ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }) =
            self.address.info.addr()
        else {
            return Vec::new();
        };
        let found = self.lookup.addresses(host, *port, self.connect_timeout).await;
        let addresses = found.ok().filter(|addresses| addresses.len() > 1);
        let asking = addresses.into_iter().flatten().map(|address| async move {
            let lookup = Lookup::default();
            lookup.finds(vec![address]).await;
            let session = Self {
                lookup,
                ..self.clone()
            }
            .session()
            .await
            .ok()?;
            let asking = ServerAnswers::read(&session.pipe);
            let answers = in_time(self.connect_timeout, asking).await.ok()?;
            let other = identity(&answers.info());
            let are_known = examined.is_known() && other.is_known();
            (are_known && other.run_id != examined.run_id).then_some(address)
        });
        join_all(asking).await.into_iter().flatten().collect()
    }

    /// Lists the connections of this crate's clients.
    pub(crate) async fn clients(&self) -> Result<Vec<ClientConnection>, NodeError> {
        let session = self.session().await?;
        in_time(self.connect_timeout, self.list_clients(&session.pipe).boxed()).await
    }

    /// Opens a session within the connect timeout.
    async fn session(&self) -> Result<Session, NodeError> {
        in_time(self.connect_timeout, self.log_in_apart()).await
    }

    async fn log_in_apart(&self) -> Result<Session, NodeError> {
        let begun = Instant::now();
        let stream = self.open(None).await?;
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

    async fn list_clients(&self, pipe: &Pipe) -> Result<Vec<ClientConnection>, NodeError> {
        let list = ask(pipe, redis::cmd("CLIENT").arg("LIST")).await?;
        let db = self.address.info.redis_settings().db();
        Ok(clients::read(&text(&list).unwrap_or_default(), db))
    }

    async fn question(&self, session: &Session, beside_redisson: bool) -> Result<Examined, NodeError> {
        let pipe = &session.pipe;
        let answers = ServerAnswers::read(pipe).await?;
        let (info, record) = (answers.info(), answers.record());
        let fit = info.judge(answers.role.as_deref(), self.accepted);
        // A Sentinel has no TIME, and that is not what is wrong with it.
        let clock_us = answers.clock_us();
        let clock_us = clock_us.map_err(|error| fit.clone().err().unwrap_or(error))?;
        let identity = identity(&info);
        let run = identity.run();
        let can_end = end(pipe, &[NOBODY]).await && session.client_id.is_some();
        let (clock_offset_us, round_trip) = read_clock(pipe).await?;
        let probed = pipe.ask(&permissions::probe()).await;
        let in_scripts = probed.as_ref().map(permissions::denied).unwrap_or_default();
        let denied = access::denied(pipe, &self.connection_name, &in_scripts, beside_redisson).await;
        let loads = pipe.ask(&calls::ALL[0].load()).await.is_ok();
        let settings = settings(pipe).await;
        let remembered = record.as_ref().ok().and_then(Option::as_ref);
        let fact = |name: &str| info.get(name).map(str::to_owned);
        let enabled = |name: &str| settings.get(name).map(|value| value == "yes");
        let append_only = info.get("aof_enabled").map(|enabled| enabled == "1");
        let facts = ServerFacts {
            writes_refused: probed.as_ref().ok().and_then(permissions::refuses_writes),
            version: info.fact("redis_version").into(),
            role: answers.role.clone(),
            run_id: fact("run_id"),
            replication_id: fact("master_replid"),
            other_servers: Vec::new(),
            set: remembered.map(|record| record.set),
            remembers: remembered.and_then(|record| record.age(run.as_deref(), clock_us)),
            quarantine: Duration::ZERO,
            clock_offset_us,
            round_trip,
            capabilities: capabilities(&info, &identity, session.resp3, can_end && identity.is_known()),
            max_memory: info.number("maxmemory"),
            eviction_policy: fact("maxmemory_policy"),
            append_only: append_only.or(enabled("appendonly")),
            append_fsync: settings.get("appendfsync").cloned(),
            no_fsync_on_rewrite: enabled("no-appendfsync-on-rewrite"),
            default_user_writes: default_user_writes(pipe).await,
            denied,
            clients: self.list_clients(pipe).await.ok(),
            redisson_channels: if beside_redisson {
                None
            } else {
                redisson_channels(pipe).await
            },
            refusal: fit
                .and_then(|()| record.map(drop))
                .and_then(|()| refuse(probed, loads))
                .err(),
        };
        Ok(Examined { facts, identity })
    }
}

/// Settings that may be denied without harm to locks.
async fn settings(pipe: &Pipe) -> HashMap<String, String> {
    let settings = pipe.ask(redis::cmd("CONFIG").arg("GET").arg("*append*")).await;
    settings
        .ok()
        .and_then(|answer| redis::from_redis_value(answer).ok())
        .unwrap_or_default()
}

/// Whether the user `default` may write a key of locks; `None` if the server does not report it.
async fn default_user_writes(pipe: &Pipe) -> Option<bool> {
    let words = ["DRYRUN", "default", "HSET", "multilock_set", "field", "value"];
    let answer = pipe.ask(redis::cmd("ACL").arg(&words)).await.ok()?;
    // Otherwise the answer is a text with the denied permission.
    Some(answer == Value::Okay)
}

/// Number of Redisson's channels to which clients listen; `None` if the server does not report it.
async fn redisson_channels(pipe: &Pipe) -> Option<usize> {
    match pipe
        .ask(redis::cmd("PUBSUB").arg("CHANNELS").arg("redisson_*"))
        .await
    {
        Ok(Value::Array(channels)) => Some(channels.len()),
        _ => None,
    }
}

/// Offset of the server's clock against this host's, in microseconds, and the round trip of the reading. A
/// positive offset means that the server is ahead.
async fn read_clock(pipe: &Pipe) -> Result<(i64, Duration), NodeError> {
    let mut best: Option<(i64, Duration)> = None;
    for _ in 0..READINGS {
        let (sent, sent_us) = (Clock::Host.now(), Clock::Host.wall_us());
        let shown = clock_us(&ask(pipe, &redis::cmd("TIME")).await?)?;
        let took = Clock::Host.now().since(sent);
        if best.is_none_or(|(_, quickest)| took < quickest) {
            let half = u64::try_from(took.as_micros() / 2).unwrap_or(u64::MAX);
            let here = sent_us.saturating_add(half);
            let offset = i128::from(shown) - i128::from(here);
            best = Some((i64::try_from(offset).unwrap_or(i64::MAX), took));
        }
    }
    Ok(best.unwrap_or_default())
}
