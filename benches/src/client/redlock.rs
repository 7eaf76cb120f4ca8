//! `redlock`: a new connection for every command, one node after the other, on a thread that it blocks.

use std::sync::Arc;

use anyhow::Result;
use redlock::{Lock, RedLock};
use tokio::task::spawn_blocking;

use super::Settings;

#[derive(Clone)]
pub struct Redlock {
    manager: Arc<RedLock>,
    lease_ms: usize,
}

/// A lock of theirs borrows its manager; this one can go from thread to thread.
pub struct RedlockHeld {
    resource: Vec<u8>,
    value: Vec<u8>,
    validity_time: usize,
}

impl Redlock {
    pub fn connect(urls: &[String], settings: Settings) -> Self {
        let mut manager = RedLock::new(urls.iter().map(String::as_str).collect());
        // It also pauses after its last attempt, for less than this many milliseconds.
        manager.set_retry(1, 1);
        Self {
            manager: Arc::new(manager),
            lease_ms: settings.lease.as_millis() as usize,
        }
    }

    pub async fn acquire(&self, name: &str) -> Result<Option<RedlockHeld>> {
        let (manager, name, lease_ms) = (Arc::clone(&self.manager), name.to_owned(), self.lease_ms);
        spawn_blocking(move || {
            let lock = manager.lock(name.as_bytes(), lease_ms)?;
            Ok(lock.map(|lock| RedlockHeld {
                resource: lock.resource,
                value: lock.val,
                validity_time: lock.validity_time,
            }))
        })
        .await?
    }

    pub async fn release(&self, held: RedlockHeld) -> Result<()> {
        let manager = Arc::clone(&self.manager);
        spawn_blocking(move || {
            manager.unlock(&Lock {
                resource: held.resource,
                val: held.value,
                validity_time: held.validity_time,
                lock_manager: &manager,
            });
        })
        .await?;
        Ok(())
    }
}
