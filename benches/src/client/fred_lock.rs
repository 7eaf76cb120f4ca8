//! `distributed-lock-redis`: one connection per node, a task per node and command.

use std::sync::Arc;

use anyhow::{Context, Result};
use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider, RedisLockProviderBuilder};
use fred::prelude::{ClientLike, ConnectionConfig, RedisClient, RedisConfig, TcpConfig};

use super::Settings;

#[derive(Clone)]
pub struct FredLock {
    provider: Arc<RedisLockProvider>,
}

impl FredLock {
    pub async fn connect(urls: &[String], settings: Settings) -> Result<Self> {
        let mut builder = RedisLockProviderBuilder::new()
            .expiry(settings.lease)
            .min_validity(settings.lease * 9 / 10)
            .extension_cadence(settings.lease / 3);
        for url in urls {
            let connection = ConnectionConfig {
                tcp: TcpConfig {
                    nodelay: Some(true),
                    ..TcpConfig::default()
                },
                ..ConnectionConfig::default()
            };
            let client = RedisClient::new(RedisConfig::from_url(url)?, None, Some(connection), None);
            client.connect();
            client.wait_for_connect().await?;
            builder = builder.client(client);
        }
        let provider = builder.build().await.context("distributed-lock-redis")?;
        Ok(Self {
            provider: Arc::new(provider),
        })
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<RedisLockHandle>> {
        Ok(self.provider.create_lock(name).try_acquire().await?)
    }
}

pub async fn release(handle: RedisLockHandle) -> Result<()> {
    Ok(handle.release().await?)
}
