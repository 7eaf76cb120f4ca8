//! `rslock`: one connection per node, one round at once, waits for every node.

use std::time::Duration;

use anyhow::Result;
use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo};
use rslock::{Lock, LockError, LockManager};

use super::Settings;

#[derive(Clone)]
pub struct Rslock {
    manager: LockManager,
    lease: Duration,
}

impl Rslock {
    pub fn connect(urls: &[String], settings: Settings) -> Result<Self> {
        let mut clients = Vec::new();
        for url in urls {
            // At its best: by default a second command waits for the acknowledgement of the first.
            let info = url
                .as_str()
                .into_connection_info()?
                .set_tcp_settings(TcpSettings::default().set_nodelay(true));
            clients.push(Client::open(info)?);
        }
        let mut manager = LockManager::from_clients(clients);
        manager.set_retry(1, Duration::from_millis(50));
        Ok(Self {
            manager,
            lease: settings.lease,
        })
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<Lock>> {
        match self.manager.lock(name.as_bytes(), self.lease).await {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Unavailable) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
