//! `redsync`: a new connection for every command, one node after the other, on a thread that it blocks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use redsync::{Lock, RedisInstance, Redsync, RedsyncBuilder, RedsyncError};
use tokio::task::spawn_blocking;

use super::Settings;

#[derive(Clone)]
pub struct RedsyncLock {
    manager: Arc<Redsync<RedisInstance>>,
    lease: Duration,
}

impl RedsyncLock {
    pub fn connect(urls: &[String], settings: Settings) -> Result<Self> {
        let nodes: Result<Vec<_>, _> = urls.iter().map(|url| RedisInstance::new(url.as_str())).collect();
        let manager = RedsyncBuilder::new(nodes.map_err(|error| told(&error))?)
            .retry_count(1)
            .build();
        Ok(Self {
            manager: Arc::new(manager),
            lease: settings.lease,
        })
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<Lock>> {
        let (manager, name, lease) = (Arc::clone(&self.manager), name.to_owned(), self.lease);
        match spawn_blocking(move || manager.lock(&name, lease)).await? {
            Ok(lock) => Ok(Some(lock)),
            Err(RedsyncError::LockRetriesExceeded(_)) => Ok(None),
            Err(error) => Err(told(&error)),
        }
    }

    pub async fn release(&self, lock: Lock) -> Result<()> {
        let manager = Arc::clone(&self.manager);
        spawn_blocking(move || manager.unlock(&lock))
            .await?
            .map_err(|error| told(&error))
    }
}

/// Its errors do not cross threads.
fn told(error: &RedsyncError) -> anyhow::Error {
    anyhow!("{error}")
}
