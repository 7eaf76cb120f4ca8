//! This crate.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use multilock::{Masters, MastersBuilder, MultiLock, MultiLockGuard, Quarantine};

use super::Settings;

#[derive(Clone)]
pub struct Ours {
    masters: Masters,
    fenced: bool,
}

/// Some scenarios hold without a renewal for this long. The same for all, as the masters are.
const LONGEST: Duration = Duration::from_secs(600);

/// The masters of a bench have just been started and forget nothing.
pub fn masters(urls: &[String], settings: Settings) -> MastersBuilder {
    Masters::builder()
        .nodes(urls)
        .for_tests(LONGEST)
        .lease(settings.lease)
        .node_timeout(settings.node_timeout)
        .quarantine(Quarantine::Off)
}

impl Ours {
    pub async fn connect(urls: &[String], settings: Settings, fenced: bool) -> Result<Self> {
        let masters = masters(urls, settings).connect().await?;
        Ok(Self { masters, fenced })
    }

    pub async fn acquire(&self, name: &str) -> Result<MultiLockGuard> {
        let lock = self.masters.red_lock(name).fenced(self.fenced);
        Ok(lock.lock().await?)
    }
}

/// Takes very many locks, a hundred at once.
pub async fn take(holds: usize, lock: impl Fn(usize) -> MultiLock) -> Result<Vec<MultiLockGuard>> {
    let mut guards = Vec::with_capacity(holds);
    while guards.len() < holds {
        let some = guards.len()..holds.min(guards.len() + 100);
        let locks: Vec<_> = some.map(&lock).collect();
        guards.extend(try_join_all(locks.iter().map(MultiLock::lock)).await?);
    }
    Ok(guards)
}
