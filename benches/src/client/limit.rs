//! The limit: a lock that consists of its two rounds alone.
//!
//! It has one connection per node, and sends one EVALSHA per node with the reentrant script that Redisson made common. It
//! goes on at a majority of answers. The release does the same, and announces nothing, as this crate's by default. It
//! has no deadline, renews nothing and keeps no books. It does not wait for the last answers, but does not drop their
//! futures either. Otherwise the client library would drop the commands that are not sent yet, and leave a lock behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Value};

use tokio::task::unconstrained;

use super::Settings;

const ACQUIRE: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

const RELEASE: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 0
end
redis.call('del', KEYS[1])
return 1";

/// Room for all commands that are ever under way at once. With it, a command has its place in line once it has been
/// polled, so a release comes after its acquire.
const ROOM: usize = 1 << 16;

#[derive(Clone)]
pub struct Limit {
    nodes: Arc<[MultiplexedConnection]>,
    acquire: Arc<str>,
    release: Arc<str>,
    id: u64,
    attempts: Arc<AtomicU64>,
    lease_ms: u64,
}

pub struct LimitHeld {
    name: String,
    owner: String,
    stragglers: Stragglers,
}

type Stragglers = BoxFuture<'static, ()>;

impl Limit {
    pub async fn connect(urls: &[String], settings: Settings) -> Result<Self> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(ROOM);
        let (mut nodes, mut acquire, mut release) = (Vec::new(), String::new(), String::new());
        for url in urls {
            let info = url
                .as_str()
                .into_connection_info()?
                .set_tcp_settings(TcpSettings::default().set_nodelay(true));
            let mut node = Client::open(info)?
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            for (script, hash) in [(ACQUIRE, &mut acquire), (RELEASE, &mut release)] {
                *hash = redis::cmd("SCRIPT")
                    .arg("LOAD")
                    .arg(script)
                    .query_async(&mut node)
                    .await?;
            }
            nodes.push(node);
        }
        Ok(Self {
            nodes: nodes.into(),
            acquire: acquire.into(),
            release: release.into(),
            id: rand::random(),
            attempts: Arc::default(),
            lease_ms: u64::try_from(settings.lease.as_millis())?,
        })
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<LimitHeld>> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{:016x}:{attempt}", self.id);
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.acquire).arg(1).arg(name);
        command.arg(self.lease_ms).arg(&owner);
        let (granted, stragglers) = self.round(command, &Value::Nil).await;
        let held = LimitHeld {
            name: name.to_owned(),
            owner,
            stragglers,
        };
        if granted {
            return Ok(Some(held));
        }
        self.give_back(held).await;
        Ok(None)
    }

    pub async fn release(&self, held: LimitHeld) -> Result<()> {
        let released = self.give_back(held).await;
        released
            .then_some(())
            .context("the limit's release was not confirmed")
    }

    async fn give_back(&self, held: LimitHeld) -> bool {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*self.release).arg(1).arg(&held.name);
        command.arg(self.lease_ms).arg(&held.owner);
        let (released, stragglers) = self.round(command, &Value::Int(1)).await;
        tokio::spawn(async move {
            held.stragglers.await;
            stragglers.await;
        });
        released
    }

    /// Returns whether a majority gave the wanted answer, as soon as it is certain, and the answers that are still to come.
    async fn round(&self, command: Cmd, wanted: &Value) -> (bool, Stragglers) {
        let command = Arc::new(command);
        let needed = self.nodes.len() / 2 + 1;
        let mut answers: FuturesUnordered<_> = self
            .nodes
            .iter()
            .cloned()
            .map(|mut node| {
                let command = Arc::clone(&command);
                // Otherwise a task that has used up its turn would yield before the command has its place in line.
                unconstrained(async move { node.send_packed_command(&command).await })
            })
            .collect();
        let (mut yes, mut no) = (0, 0);
        while let Some(answer) = answers.next().await {
            if answer.is_ok_and(|value| value == *wanted) {
                yes += 1;
            } else {
                no += 1;
            }
            if yes == needed || no > self.nodes.len() - needed {
                break;
            }
        }
        let stragglers = async move { while answers.next().await.is_some() {} };
        (yes == needed, stragglers.boxed())
    }
}
