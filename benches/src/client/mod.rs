//! All contenders that are measured, behind one set of verbs.

mod fred_lock;
mod go_redsync;
mod limit;
mod ours;
mod redlock;
mod redsync;
mod rslock;

use std::time::Duration;

use anyhow::{Context, Result};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

pub use ours::{masters, take};

/// Contender that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Who {
    /// This crate without fencing, as the other crates are.
    Ours,
    /// This crate as it is by default.
    Fenced,
    /// The bare program: no library can be much faster.
    Limit,
    Rslock,
    DistributedLockRedis,
    Redlock,
    Redsync,
    /// The commands that go-redsync sends to one master.
    GoRedsync,
}

impl Who {
    /// In the order in which they take turns over any number of masters.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Limit,
        Self::Fenced,
        Self::Rslock,
        Self::DistributedLockRedis,
        Self::Redlock,
        Self::Redsync,
    ];
    pub const PEERS: [Self; 4] = [
        Self::Rslock,
        Self::DistributedLockRedis,
        Self::Redlock,
        Self::Redsync,
    ];

    pub fn is_peer(self) -> bool {
        Self::PEERS.contains(&self)
    }

    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Fenced)
    }

    /// How its figures begin in a line.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Ours | Self::Fenced => "ours",
            Self::Limit => "limit",
            Self::Rslock => "peer_rslock",
            Self::DistributedLockRedis => "peer_distributed_lock_redis",
            Self::Redlock => "peer_redlock",
            Self::Redsync => "peer_redsync",
            Self::GoRedsync => "go_redsync",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Ours => "multilock",
            Self::Fenced => "multilock, fenced",
            Self::Limit => "the limit",
            Self::Rslock => "rslock",
            Self::DistributedLockRedis => "distributed-lock-redis",
            Self::Redlock => "redlock",
            Self::Redsync => "redsync",
            Self::GoRedsync => "go-redsync's commands",
        }
    }

    /// The longest pause between two attempts at a name that another client holds. Each peer did best with it where
    /// every holder stays for a millisecond. A shorter pause costs more in lost attempts than it gains.
    pub fn longest_pause(self) -> Duration {
        Duration::from_millis(match self {
            Self::Rslock => 50,
            Self::DistributedLockRedis => 10,
            _ => 20,
        })
    }
}

/// Settings of a scenario.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub lease: Duration,
    /// Of this crate only; the other crates have no such setting.
    pub node_timeout: Duration,
    /// Of the peers only; [`Who::longest_pause`] where none is set.
    pub longest_pause: Option<Duration>,
}

impl Default for Settings {
    /// A deadline that no healthy node misses, however many tasks ask it at once.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            node_timeout: Duration::from_secs(1),
            longest_pause: None,
        }
    }
}

/// One connected client, cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub who: Who,
    kind: Kind,
    longest_pause: Duration,
}

#[derive(Clone)]
enum Kind {
    Ours(ours::Ours),
    Limit(limit::Limit),
    Rslock(rslock::Rslock),
    Fred(fred_lock::FredLock),
    Redlock(redlock::Redlock),
    Redsync(redsync::RedsyncLock),
    GoRedsync(go_redsync::GoRedsync),
}

/// A held lock, which [`Client::release`] gives back.
pub enum Held {
    Ours(multilock::MultiLockGuard),
    Limit(limit::LimitHeld),
    Rslock(::rslock::Lock),
    Fred(distributed_lock_redis::RedisLockHandle),
    Redlock(redlock::RedlockHeld),
    Redsync(::redsync::Lock),
    GoRedsync(go_redsync::GoRedsyncHeld),
}

impl Client {
    pub async fn connect(who: Who, urls: &[String], settings: Settings) -> Result<Self> {
        let kind = match who {
            Who::Ours | Who::Fenced => {
                Kind::Ours(ours::Ours::connect(urls, settings, who == Who::Fenced).await?)
            }
            Who::Limit => Kind::Limit(limit::Limit::connect(urls, settings).await?),
            Who::Rslock => Kind::Rslock(rslock::Rslock::connect(urls, settings)?),
            Who::DistributedLockRedis => Kind::Fred(fred_lock::FredLock::connect(urls, settings).await?),
            Who::Redlock => Kind::Redlock(redlock::Redlock::connect(urls, settings)),
            Who::Redsync => Kind::Redsync(redsync::RedsyncLock::connect(urls, settings)?),
            Who::GoRedsync => Kind::GoRedsync(go_redsync::GoRedsync::connect(urls, settings).await?),
        };
        Ok(Self {
            who,
            kind,
            longest_pause: settings.longest_pause.unwrap_or(who.longest_pause()),
        })
    }

    /// Waits until it holds the name: this crate by itself, the others by trying again.
    pub async fn acquire(&self, name: &str) -> Result<Held> {
        if let Kind::Ours(ours) = &self.kind {
            return ours.acquire(name).await.map(Held::Ours);
        }
        loop {
            if let Some(held) = self.try_acquire(name).await? {
                return Ok(held);
            }
            let pause = rand::rng().random_range(0.0..1.0);
            sleep(self.longest_pause.mul_f64(pause)).await;
        }
    }

    /// One attempt; `None` when it was not granted.
    async fn try_acquire(&self, name: &str) -> Result<Option<Held>> {
        Ok(match &self.kind {
            Kind::Ours(ours) => Some(Held::Ours(ours.acquire(name).await?)),
            Kind::Limit(limit) => limit.acquire(name).await?.map(Held::Limit),
            Kind::Rslock(rslock) => rslock.acquire(name).await?.map(Held::Rslock),
            Kind::Fred(fred) => fred.acquire(name).await?.map(Held::Fred),
            Kind::Redlock(redlock) => redlock.acquire(name).await?.map(Held::Redlock),
            Kind::Redsync(redsync) => redsync.acquire(name).await?.map(Held::Redsync),
            Kind::GoRedsync(redsync) => redsync.acquire(name).await?.map(Held::GoRedsync),
        })
    }

    pub async fn release(&self, held: Held) -> Result<()> {
        match (&self.kind, held) {
            (_, Held::Ours(guard)) => {
                guard.unlock().await?;
            }
            (Kind::Limit(limit), Held::Limit(held)) => limit.release(held).await?,
            (_, Held::Rslock(lock)) => lock.release().await,
            (_, Held::Fred(handle)) => fred_lock::release(handle).await?,
            (Kind::Redlock(redlock), Held::Redlock(held)) => redlock.release(held).await?,
            (Kind::Redsync(redsync), Held::Redsync(held)) => redsync.release(held).await?,
            (Kind::GoRedsync(redsync), Held::GoRedsync(held)) => redsync.release(held).await?,
            _ => anyhow::bail!("released by a client that does not hold it"),
        }
        Ok(())
    }

    /// A pair: acquire and release.
    pub async fn pair(&self, name: &str) -> Result<()> {
        let held = self.acquire(name).await.context(self.who.label())?;
        self.release(held).await.context(self.who.label())
    }

    /// Whether dropping its acquisition means anything: a call that blocks its thread cannot be dropped.
    pub fn blocks(&self) -> bool {
        matches!(self.who, Who::Redlock | Who::Redsync)
    }
}
