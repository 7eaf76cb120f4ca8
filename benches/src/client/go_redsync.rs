//! The commands that go-redsync sends to one master, over one connection. Its other work is done in Go, and is left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo};

use super::Settings;

const RELEASE: &str = "
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then return redis.call('DEL', KEYS[1]) end
if value == false then return -1 end
return 0";

#[derive(Clone)]
pub struct GoRedsync {
    master: MultiplexedConnection,
    release: Arc<str>,
    id: u64,
    attempts: Arc<AtomicU64>,
    lease_ms: u64,
}

pub struct GoRedsyncHeld {
    name: String,
    value: String,
}

impl GoRedsync {
    pub async fn connect(urls: &[String], settings: Settings) -> Result<Self> {
        ensure!(urls.len() == 1, "it stands in for go-redsync on one master");
        let info = urls[0]
            .as_str()
            .into_connection_info()?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut master = Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut load = redis::cmd("SCRIPT");
        let release: String = load.arg("LOAD").arg(RELEASE).query_async(&mut master).await?;
        Ok(Self {
            master,
            release: release.into(),
            id: rand::random(),
            attempts: Arc::default(),
            lease_ms: u64::try_from(settings.lease.as_millis())?,
        })
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<GoRedsyncHeld>> {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        let value = format!("{:016x}{attempt:08x}", self.id);
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&value).arg("NX").arg("PX").arg(self.lease_ms);
        let granted: Option<String> = set.query_async(&mut self.master.clone()).await?;
        Ok(granted.map(|_| GoRedsyncHeld {
            name: name.to_owned(),
            value,
        }))
    }

    pub async fn release(&self, held: GoRedsyncHeld) -> Result<()> {
        let mut release = redis::cmd("EVALSHA");
        release
            .arg(&*self.release)
            .arg(1)
            .arg(&held.name)
            .arg(&held.value);
        let deleted: i64 = release.query_async(&mut self.master.clone()).await?;
        ensure!(deleted == 1, "it was not held any more");
        Ok(())
    }
}
