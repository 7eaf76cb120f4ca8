//! The commands of redsync and of Redisson's lock, with the lease of the experiment.

use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use multilock_test_support::foreign::{delete_if_mine, quorum, script};
use rand::random_range;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd};
use tokio::time::{Instant, interval, sleep};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

/// Pause between two tries of redsync, at random, as its library has it.
const REDSYNC_PAUSE: Range<Duration> = Duration::from_millis(50)..Duration::from_millis(250);
/// The same of Redisson, in place of the message that wakes its library.
const REDISSON_PAUSE: Range<Duration> = Duration::ZERO..Duration::from_millis(20);

/// Time for an answer, as Redisson's library has it.
const REDISSON_TIMEOUT: Duration = Duration::from_secs(3);

async fn dial(url: &str, timeout: Duration) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(url)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(timeout));
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

async fn pause(between: Range<Duration>) {
    sleep(random_range(between)).await;
}

/// `SET NX PX` on each master; a majority has to answer, and the lease has to last.
pub(crate) struct Redsync {
    masters: Vec<MultiplexedConnection>,
}

impl Redsync {
    /// The timeout of a master is a twentieth of the lease, as in its library.
    pub(crate) async fn connect(urls: &[&str], lease: Duration) -> Result<Self> {
        let masters = join_all(urls.iter().map(|url| dial(url, lease / 20))).await;
        let masters = masters.into_iter().collect::<Result<_>>()?;
        Ok(Self { masters })
    }

    /// Tries once; returns the value of its keys.
    pub(crate) async fn lock(&self, name: &str, lease: Duration) -> Option<String> {
        let (value, asked) = (Uuid::new_v4().to_string(), Instant::now());
        let mut set = redis::cmd("SET");
        set.arg(name)
            .arg(&value)
            .arg("NX")
            .arg("PX")
            .arg(lease.as_millis().to_string());
        let is_granted = self.ask(&set).await >= quorum(self.masters.len());
        if is_granted && asked.elapsed() + lease / 100 < lease {
            return Some(value);
        }
        self.unlock(name, &value).await;
        pause(REDSYNC_PAUSE).await;
        None
    }

    pub(crate) async fn unlock(&self, name: &str, value: &str) {
        self.ask(&delete_if_mine(name, value)).await;
    }

    /// Number of masters that did something.
    async fn ask(&self, command: &Cmd) -> usize {
        let answers = join_all(
            self.masters
                .iter()
                .map(async |master| command.query_async::<bool>(&mut master.clone()).await),
        );
        answers
            .await
            .into_iter()
            .filter(|answer| *answer == Ok(true))
            .count()
    }
}

/// A hash on one master, with a watchdog that renews it at each third of the lease.
pub(crate) struct Redisson {
    master: MultiplexedConnection,
}

/// A hold; its watchdog ends with it.
pub(crate) struct RedissonHold {
    master: MultiplexedConnection,
    name: String,
    owner: String,
    _watchdog: AbortOnDropHandle<()>,
}

impl Redisson {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self {
            master: dial(url, REDISSON_TIMEOUT).await?,
        })
    }

    /// Tries once.
    pub(crate) async fn lock(&self, name: &str, lease: Duration) -> Option<RedissonHold> {
        const LOCK: &str = "
            if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
            redis.call('PEXPIRE', KEYS[1], ARGV[2])
            return 1";
        const RENEW: &str = "
            if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
            return redis.call('PEXPIRE', KEYS[1], ARGV[2])";
        let (owner, milliseconds) = (format!("{}:1", Uuid::new_v4()), lease.as_millis().to_string());
        let lock = script(LOCK, &[name], &[&owner, &milliseconds]);
        if lock.query_async(&mut self.master.clone()).await != Ok(true) {
            pause(REDISSON_PAUSE).await;
            return None;
        }
        let (renew, mut master) = (
            script(RENEW, &[name], &[&owner, &milliseconds]),
            self.master.clone(),
        );
        let watchdog = tokio::spawn(async move {
            let mut turns = interval(lease / 3);
            turns.tick().await;
            loop {
                turns.tick().await;
                if !renew.query_async::<bool>(&mut master).await.unwrap_or(false) {
                    return;
                }
            }
        });
        Some(RedissonHold {
            master: self.master.clone(),
            name: name.to_owned(),
            owner,
            _watchdog: AbortOnDropHandle::new(watchdog),
        })
    }
}

impl RedissonHold {
    pub(crate) async fn unlock(mut self) {
        const UNLOCK: &str = "
            if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
            return redis.call('DEL', KEYS[1])";
        let unlock = script(UNLOCK, &[&self.name], &[&self.owner]);
        // A hold that is not given back ends with its lease.
        let _ = unlock.query_async::<bool>(&mut self.master).await;
    }
}
