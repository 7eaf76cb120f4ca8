//! The real master: a Redis or Valkey server, and the set-up that each connection to it goes through.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join, join_all};
use redis::Value;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::pipeline::Pipe;
use super::refresh;
use super::setup::{Login, ask, log_in};
use super::socket;
use super::tls::Tls;
use crate::capabilities::Capabilities;
use crate::credentials::{Credentials, Provider};
use crate::error::{NodeError, Unfit};
use crate::node::{By, Connection, Endpoint, Identity, Listener, Marker, Peer, ReplyTo, Wire};
use crate::protocol::command::{Request, Script};
use crate::protocol::fault::Fault;
use crate::protocol::keys::MARKER;
use crate::protocol::{calls, permissions};

/// The oldest version that knows HELLO; scripts replicate by effect since 5.0.
const OLDEST: (u32, u32) = (6, 0);
const OLDEST_NAME: &str = "6.0";

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
    /// Whether its memory is to be marked.
    pub(crate) strict: bool,
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

impl Server {
    /// Log in, learn who the server is, refuse one that will not do, end the predecessor of this
    /// connection, load the scripts, see whether what they do is allowed.
    async fn set_up(&self, predecessor: Option<&Peer>, listener: Listener) -> Result<Connection, NodeError> {
        let begun = Instant::now();
        let info = &self.address.info;
        let stream = socket::open(info.addr(), self.tls.as_ref(), self.connect_timeout)
            .await
            .map_err(|error| NodeError::Unavailable(error.to_string()))?;
        let credentials = self.ask_for_credentials(begun).await?;
        let (pipe, driver) = Pipe::start(stream, listener);
        let resp3 = log_in(&pipe, &Login::new(info.redis_settings(), credentials.as_ref())).await?;
        let peer = self.introduce(&pipe, resp3).await?;
        if let Some(old) = predecessor.filter(|old| old.identity == peer.identity) {
            // What the old socket still holds must not be executed after its rollback. An ACL may
            // deny this; the fresh owner field of every attempt then bounds the harm to an orphan
            // until the end of its lease.
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(old.client_id);
            let _ = pipe.ask(&kill).await;
        }
        // Where loading is denied, a call meets NOSCRIPT and sends the text.
        let loading = join_all(calls::ALL.map(|script| pipe.ask(&script.load())));
        let (_, probed) = join(loading, pipe.ask(&permissions::probe())).await;
        let denied = probed
            .map(|answer| permissions::denied(&answer))
            .unwrap_or_default();
        if !denied.is_empty() {
            let error = format!("the user may not run {} in a script", denied.join(", "));
            return Err(Unfit::Denied { error }.into());
        }
        Ok(Connection {
            wire: Box::new(ServerWire {
                _refresh: credentials.and_then(|given| self.keep_logged_in(&pipe, given)),
                pipe,
                resp3,
            }),
            driver,
            peer,
        })
    }

    /// What is valid now, where there is somebody to be asked; for a connection that was begun then.
    async fn ask_for_credentials(&self, begun: Instant) -> Result<Option<Credentials>, NodeError> {
        let Some(provider) = &self.credentials else {
            return Ok(None);
        };
        // The rest of the time is for the server, and whoever looks at the clock tells of both as one.
        let end = begun + self.connect_timeout.mul_f64(0.9);
        provider.ask(end).await.map(Some).map_err(NodeError::Unavailable)
    }

    /// Keeps a connection logged in that was set up with what was given.
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

    async fn introduce(&self, pipe: &Pipe, resp3: bool) -> Result<Peer, NodeError> {
        let mut id = redis::cmd("CLIENT");
        id.arg("ID");
        let client_id = match ask(pipe, &id).await? {
            Value::Int(id) => id,
            other => return Err(unexpected("CLIENT ID", &other)),
        };
        let info = match ask(pipe, &redis::cmd("INFO")).await? {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::VerbatimString { text, .. } => text,
            other => return Err(unexpected("INFO", &other)),
        };
        let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
        let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
        self.judge(&fact)?;
        let clock_us = match ask(pipe, &redis::cmd("TIME")).await? {
            Value::Array(parts) => microseconds(&parts).unwrap_or(0),
            other => return Err(unexpected("TIME", &other)),
        };
        let mut memory = memory(fact);
        let mut marker = None;
        if self.strict {
            let (found, age) = self.mark(pipe, fact("run_id"), clock_us).await?;
            memory = memory.map(|memory| memory.min(age));
            marker = Some(found);
        }
        Ok(Peer {
            identity: Identity {
                run_id: fact("run_id").to_owned(),
                replication_id: fact("master_replid").to_owned(),
            },
            client_id,
            memory,
            clock_us,
            marker,
            version: fact("redis_version").into(),
            capabilities: Capabilities {
                resp3,
                ..Capabilities::ALL
            },
        })
    }

    /// The mark on the server's memory and its age; made now where this run has none.
    async fn mark(&self, pipe: &Pipe, run_id: &str, clock_us: u64) -> Result<(Marker, Duration), NodeError> {
        let mut get = redis::cmd("GET");
        get.arg(MARKER);
        if let Value::BulkString(bytes) = ask(pipe, &get).await?
            && let Some(found) = Marker::found(&String::from_utf8_lossy(&bytes), run_id, clock_us)
        {
            return Ok(found);
        }
        let marker = Marker::new(run_id, clock_us);
        let mut set = redis::cmd("SET");
        set.arg(MARKER).arg(marker.as_str());
        ask(pipe, &set).await?;
        Ok((marker, Duration::ZERO))
    }

    /// Refuses a server that cannot be one of the masters, by what its INFO says.
    fn judge<'a>(&self, fact: &impl Fn(&str) -> &'a str) -> Result<(), NodeError> {
        let version = fact("redis_version");
        if !at_least(version, OLDEST) {
            return Err(Unfit::TooOld {
                version: version.to_owned(),
                needed: OLDEST_NAME,
            }
            .into());
        }
        if fact("cluster_enabled") == "1" {
            return Err(Unfit::Cluster.into());
        }
        if fact("loading") == "1" {
            return Err(NodeError::Unavailable("loading its data set".into()));
        }
        if fact("role") != "master" {
            return Err(Unfit::Replica.into());
        }
        let policy = fact("maxmemory_policy");
        if !self.allow_eviction && fact("maxmemory") != "0" && policy != "noeviction" {
            return Err(Unfit::Evicts {
                policy: policy.to_owned(),
            }
            .into());
        }
        Ok(())
    }
}

/// How long the server has had its memory: since its start, unless it was a replica meanwhile, which
/// its second replication id shows.
fn memory<'a>(fact: impl Fn(&str) -> &'a str) -> Option<Duration> {
    let promoted = fact("master_replid2").bytes().any(|digit| digit != b'0');
    let uptime = fact("uptime_in_seconds")
        .parse()
        .map_or(Duration::ZERO, Duration::from_secs);
    (!promoted).then_some(uptime)
}

/// The answer to TIME: seconds and microseconds.
fn microseconds(parts: &[Value]) -> Option<u64> {
    let digits = |part: &Value| match part {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    digits(parts.first()?)?
        .checked_mul(1_000_000)?
        .checked_add(digits(parts.get(1)?)?)
}

fn unexpected(command: &str, value: &Value) -> NodeError {
    NodeError::Unavailable(format!("unexpected answer to {command}: {value:?}"))
}

fn at_least(version: &str, (major, minor): (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next()) >= (major, minor)
}

/// Calls over a real connection.
#[derive(Debug)]
struct ServerWire {
    pipe: Arc<Pipe>,
    /// Without RESP3 no notices arrive, and waiters wake by their timers.
    resp3: bool,
    /// Ends with the connection.
    _refresh: Option<AbortOnDropHandle<()>>,
}

impl ServerWire {
    fn listen(&self, verb: &str, channels: &[String], reply: ReplyTo) {
        if !self.resp3 {
            reply.give(Err(Fault::NotSent("the server speaks no RESP3".into())));
            return;
        }
        let mut command = redis::cmd(verb);
        command.arg(channels);
        self.pipe
            .send(&command.get_packed_command(), channels.len(), reply);
    }
}

impl Wire for ServerWire {
    fn call(&self, request: &Request, by: By, reply: ReplyTo) {
        match by {
            By::Sha => self.pipe.send(request.packed(), 1, reply),
            By::Source => self.pipe.send(&request.with_source(), 1, reply),
        }
    }

    fn load(&self, script: &'static Script, reply: ReplyTo) {
        self.pipe.send(&script.load().get_packed_command(), 1, reply);
    }

    fn subscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen("SUBSCRIBE", channels, reply);
    }

    fn unsubscribe(&self, channels: &[String], reply: ReplyTo) {
        self.listen("UNSUBSCRIBE", channels, reply);
    }

    fn waiting(&self) -> usize {
        self.pipe.waiting()
    }

    fn heard(&self) -> Option<Instant> {
        self.pipe.heard()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeUrl;

    fn judge(allow_eviction: bool, facts: &[(&str, &'static str)]) -> Result<(), String> {
        let server = Server {
            address: NodeUrl::new("redis://localhost").parse(1).expect("a URL"),
            credentials: None,
            tls: None,
            connect_timeout: Duration::from_secs(1),
            allow_eviction,
            strict: false,
        };
        let healthy = [
            ("redis_version", "7.0.15"),
            ("role", "master"),
            ("maxmemory", "0"),
        ];
        let facts: HashMap<&str, &'static str> = healthy.iter().chain(facts).copied().collect();
        server
            .judge(&|name: &str| facts.get(name).copied().unwrap_or_default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn only_an_independent_master_will_do() {
        assert_eq!(judge(false, &[]), Ok(()));
        let refused = |facts: &[(&str, &'static str)]| judge(false, facts).expect_err("refused");
        assert_eq!(refused(&[("role", "slave")]), "it is a replica, not a master");
        assert!(refused(&[("cluster_enabled", "1")]).contains("Redis Cluster"));
        assert_eq!(
            refused(&[("redis_version", "5.0.14")]),
            "its version 5.0.14 is older than 6.0"
        );
        assert_eq!(refused(&[("loading", "1")]), "loading its data set");
        let evicting = [("maxmemory", "100000"), ("maxmemory_policy", "allkeys-lru")];
        assert!(refused(&evicting).contains("allkeys-lru"));
        assert_eq!(judge(true, &evicting), Ok(()));
        assert_eq!(
            judge(false, &[("maxmemory", "1"), ("maxmemory_policy", "noeviction")]),
            Ok(())
        );
    }
}
