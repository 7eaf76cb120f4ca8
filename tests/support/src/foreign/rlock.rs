//! Redisson's `RLock` on one master.
//!
//! Not shown: the renewal of a hold, which here lives for its lease, and the key by which an unlock
//! that is sent twice is answered twice.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::redisson::{self, Asking, LEASE, Process, tagged};
pub use super::redisson::{Held, Pace};
use super::{Lock, milliseconds, script};

/// Answers nothing if the lock was taken, else how long it has to live.
const LOCK: &str = "
    local name, owner, lease = KEYS[1], ARGV[1], ARGV[2]
    local held = redis.call('EXISTS', name) == 1
    if held and redis.call('HEXISTS', name, owner) == 0 then return redis.call('PTTL', name) end
    redis.call('HINCRBY', name, owner, 1)
    redis.call('PEXPIRE', name, lease)
    return false";

/// Answers nothing if the caller does not hold it, else whether it was the last of its holds.
const UNLOCK: &str = "
    local name, channel, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
    if redis.call('HEXISTS', name, owner) == 0 then return false end
    if redis.call('HINCRBY', name, owner, -1) > 0 then
        redis.call('PEXPIRE', name, lease)
        return 0
    end
    redis.call('DEL', name)
    redis.call('PUBLISH', channel, '0')
    return 1";

/// A process of theirs at one master.
#[derive(Clone, Debug)]
pub struct Client {
    process: Arc<Process>,
}

impl Client {
    pub async fn connect(url: impl AsRef<str>) -> Self {
        Self::with_pace(url, Pace::Java).await
    }

    pub async fn with_pace(url: impl AsRef<str>, pace: Pace) -> Self {
        Self {
            process: Process::connect(url.as_ref(), pace).await,
        }
    }

    /// The lock of that name for a thread of its own. A thread that takes it twice enters twice.
    pub fn lock(&self, name: &str) -> RLock {
        RLock {
            process: Arc::clone(&self.process),
            owner: self.process.thread(),
            channel: format!("redisson_lock__channel:{}", tagged(name)),
            name: name.to_owned(),
        }
    }
}

#[derive(Debug)]
pub struct RLock {
    process: Arc<Process>,
    owner: String,
    name: String,
    channel: String,
}

impl RLock {
    /// The field that stands for its holder.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Time that its thread takes from one call to the next.
    pub(super) async fn handed_over(&self) {
        self.process.handed_over().await;
    }
}

impl Asking for RLock {
    fn process(&self) -> &Process {
        &self.process
    }

    fn command(&self) -> Cmd {
        let lease = milliseconds(LEASE);
        script(LOCK, &[&self.name], &[&self.owner, &lease])
    }
}

impl Lock for RLock {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        redisson::take(self, wait, &self.channel).await
    }

    async fn unlock(&self, _: Held) -> bool {
        let keys = [self.name.as_str(), &self.channel];
        let lease = milliseconds(LEASE);
        let command = script(UNLOCK, &keys, &[&self.owner, &lease]);
        matches!(self.process.run(command).await, Ok(Some(_)))
    }
}
