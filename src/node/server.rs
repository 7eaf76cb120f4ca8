//! The real master: a Redis or Valkey server, and the set-up that each connection to it goes through.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use redis::aio::{MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult, Value,
};
use tokio_util::task::AbortOnDropHandle;

use super::address::Address;
use super::fault::{Class, Fault};
use super::{By, Connection, Identity, Listener, Marker, Node, Peer, Wire, stream};
use crate::error::{NodeError, Unfit};
use crate::name::MARKER;
use crate::script::{self, Request, Script};

/// The oldest version that knows HELLO; scripts replicate by effect since 5.0.
const OLDEST: (u32, u32) = (6, 0);
const OLDEST_NAME: &str = "6.0";

/// Commands that may wait for the socket before callers have to: far above what a process has in
/// flight to one server, so that sending is a matter of one poll.
const PIPELINE_DEPTH: usize = 16_384;

/// What it takes to connect to one server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    pub(crate) allow_eviction: bool,
    /// Whether its memory is to be marked.
    pub(crate) strict: bool,
}

impl Node for Server {
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
    /// connection, load the scripts.
    async fn set_up(&self, predecessor: Option<&Peer>, listener: Listener) -> Result<Connection, NodeError> {
        let (mut link, driver) = match self.log_in(Some(listener)).await {
            // Without RESP3 no notices arrive, and waiters wake by their timers.
            Err(error) if speaks_no_resp3(&error) => self.log_in(None).await,
            result => result,
        }
        .map_err(|error| refused_or_unavailable(&error))?;
        let peer = self.introduce(&mut link).await?;
        if let Some(old) = predecessor.filter(|old| old.identity == peer.identity) {
            // What the old socket still holds must not be executed after its rollback. An ACL may
            // deny this; the fresh owner field of every attempt then bounds the harm to an orphan
            // until the end of its lease.
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(old.client_id);
            let _ = link.send_packed_command(&kill).await;
        }
        for script in script::ALL {
            // Where loading is denied, a call meets NOSCRIPT and sends the text.
            let _ = link.send_packed_command(&script.load()).await;
        }
        Ok(Connection {
            wire: Box::new(ServerWire(link)),
            driver,
            peer,
        })
    }

    async fn log_in(
        &self,
        listener: Option<Listener>,
    ) -> RedisResult<(MultiplexedConnection, AbortOnDropHandle<()>)> {
        let info = &self.address.info;
        let stream = stream::open(info.addr(), self.connect_timeout).await?;
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(if listener.is_some() {
                ProtocolVersion::RESP3
            } else {
                ProtocolVersion::RESP2
            })
            .set_lib_name("multilock", env!("CARGO_PKG_VERSION"));
        let mut config = AsyncConnectionConfig::new()
            .set_pipeline_buffer_size(PIPELINE_DEPTH)
            // Every call has a deadline of its own.
            .set_response_timeout(None);
        if let Some(listener) = listener {
            config = config.set_push_sender(move |push: PushInfo| {
                if let (PushKind::Message, Some(Value::BulkString(channel))) = (push.kind, push.data.first())
                {
                    listener(&String::from_utf8_lossy(channel));
                }
                Ok::<(), SendError>(())
            });
        }
        let (link, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        Ok((link, AbortOnDropHandle::new(tokio::spawn(driver))))
    }

    async fn introduce(&self, link: &mut MultiplexedConnection) -> Result<Peer, NodeError> {
        let mut id = redis::cmd("CLIENT");
        id.arg("ID");
        let client_id = match ask(link, &id).await? {
            Value::Int(id) => id,
            other => return Err(unexpected("CLIENT ID", &other)),
        };
        let info = match ask(link, &redis::cmd("INFO")).await? {
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::VerbatimString { text, .. } => text,
            other => return Err(unexpected("INFO", &other)),
        };
        let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
        let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
        self.judge(&fact)?;
        let clock_us = match ask(link, &redis::cmd("TIME")).await? {
            Value::Array(parts) => microseconds(&parts).unwrap_or(0),
            other => return Err(unexpected("TIME", &other)),
        };
        let mut memory = memory(fact);
        let mut marker = None;
        if self.strict {
            let (found, age) = self.mark(link, fact("run_id"), clock_us).await?;
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
        })
    }

    /// The mark on the server's memory and its age; made now where this run has none.
    async fn mark(
        &self,
        link: &mut MultiplexedConnection,
        run_id: &str,
        clock_us: u64,
    ) -> Result<(Marker, Duration), NodeError> {
        let mut get = redis::cmd("GET");
        get.arg(MARKER);
        if let Value::BulkString(bytes) = ask(link, &get).await?
            && let Some(found) = Marker::found(&String::from_utf8_lossy(&bytes), run_id, clock_us)
        {
            return Ok(found);
        }
        let marker = Marker::new(run_id, clock_us);
        let mut set = redis::cmd("SET");
        set.arg(MARKER).arg(marker.as_str());
        ask(link, &set).await?;
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

async fn ask(link: &mut MultiplexedConnection, command: &redis::Cmd) -> Result<Value, NodeError> {
    let value = link
        .send_packed_command(command)
        .await
        .map_err(|error| refused_or_unavailable(&error))?;
    Fault::check(value).map_err(|fault| match fault {
        Fault::Server {
            class: Class::Denied,
            error,
        } => Unfit::Denied {
            error: error.to_string(),
        }
        .into(),
        Fault::Server { error, .. } => NodeError::Unavailable(error.to_string()),
        other => NodeError::Unavailable(other.vote().to_string()),
    })
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

fn refused_or_unavailable(error: &RedisError) -> NodeError {
    let denied = error.kind() == ErrorKind::AuthenticationFailed
        || Fault::from_error(error).class() == Some(Class::Denied);
    if denied {
        Unfit::Denied {
            error: error.to_string(),
        }
        .into()
    } else {
        NodeError::Unavailable(error.to_string())
    }
}

/// Whether the server does not know HELLO, as opposed to not letting us in.
fn speaks_no_resp3(error: &RedisError) -> bool {
    let detail = error.detail().unwrap_or_default();
    error.kind() == ErrorKind::RESP3NotSupported
        || (detail.starts_with("unknown command") && detail.to_ascii_uppercase().contains("HELLO"))
}

fn at_least(version: &str, (major, minor): (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next()) >= (major, minor)
}

/// Calls over a real connection.
#[derive(Debug)]
struct ServerWire(MultiplexedConnection);

impl Wire for ServerWire {
    fn call(&self, request: &Arc<Request>, by: By) -> BoxFuture<'static, Result<Value, Fault>> {
        let (mut link, request) = (self.0.clone(), Arc::clone(request));
        Box::pin(async move {
            let reply = match by {
                By::Sha => link.send_packed_command(&request.command).await,
                By::Source => link.send_packed_command(&request.with_source()).await,
            };
            reply
                .map_err(|error| Fault::from_error(&error))
                .and_then(Fault::check)
        })
    }

    fn load(&self, script: &'static Script) -> BoxFuture<'static, Result<(), Fault>> {
        let mut link = self.0.clone();
        Box::pin(async move {
            let loaded = link.send_packed_command(&script.load()).await;
            loaded
                .map_err(|error| Fault::from_error(&error))
                .and_then(Fault::check)
                .map(|_| ())
        })
    }

    fn subscribe(&self, channels: &[String]) -> BoxFuture<'static, Result<(), Fault>> {
        let (mut link, channels) = (self.0.clone(), channels.to_vec());
        Box::pin(async move {
            link.subscribe(channels)
                .await
                .map_err(|error| Fault::from_error(&error))
        })
    }

    fn unsubscribe(&self, channels: &[String]) -> BoxFuture<'static, Result<(), Fault>> {
        let (mut link, channels) = (self.0.clone(), channels.to_vec());
        Box::pin(async move {
            link.unsubscribe(channels)
                .await
                .map_err(|error| Fault::from_error(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(allow_eviction: bool, facts: &[(&str, &'static str)]) -> Result<(), String> {
        let server = Server {
            address: Address::parse("redis://localhost").expect("a URL"),
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
