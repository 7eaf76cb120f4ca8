//! Redisson's `RFairLock` on one master.
//!
//! Its waiters stand in a list beside the name, each until a time by the clock of its own process. The first one alone may
//! take the lock, and a release is announced to the first one alone, on a channel of its own. Not shown: the renewal of a
//! hold.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Cmd;

pub use super::redisson::Held;
use super::redisson::{self, Asking, LEASE, Pace, Process, tagged};
use super::{Lock, milliseconds, script};

/// Time for which a waiter keeps its place behind the one before it.
const PLACE: Duration = Duration::from_secs(300);

/// Takes waiters with an outdated time from the front of the list.
const DROP_LATE: &str = "
    local name, queue, times, now = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1])
    local head = redis.call('LINDEX', queue, 0)
    while head and tonumber(redis.call('ZSCORE', times, head) or 0) <= now do
        redis.call('ZREM', times, head)
        redis.call('LPOP', queue)
        head = redis.call('LINDEX', queue, 0)
    end";

/// Answers nothing if the lock was taken. Else the waiter stands in the list, and the answer is the time to sleep.
const LOCK: &str = "
    local owner, lease, place = ARGV[2], ARGV[3], tonumber(ARGV[4])
    if redis.call('EXISTS', name) == 0 and (not head or head == owner) then
        redis.call('LPOP', queue)
        redis.call('ZREM', times, owner)
        for _, waiter in ipairs(redis.call('ZRANGE', times, 0, -1)) do
            redis.call('ZINCRBY', times, -place, waiter)
        end
        redis.call('HSET', name, owner, 1)
        redis.call('PEXPIRE', name, lease)
        return false
    end
    if redis.call('HEXISTS', name, owner) == 1 then
        redis.call('HINCRBY', name, owner, 1)
        redis.call('PEXPIRE', name, lease)
        return false
    end
    local its = redis.call('ZSCORE', times, owner)
    if its then return tonumber(its) - place - now end
    local last = redis.call('LINDEX', queue, -1)
    local left = last and tonumber(redis.call('ZSCORE', times, last)) - now or redis.call('PTTL', name)
    if redis.call('ZADD', times, left + place + now, owner) == 1 then redis.call('RPUSH', queue, owner) end
    return left";

/// Answers nothing if the caller does not hold it, else whether it was the last of its holds.
const UNLOCK: &str = "
    local owner, lease, channel = ARGV[2], ARGV[3], ARGV[4]
    local function tell()
        if head then redis.call('PUBLISH', channel .. ':' .. head, '0') end
        return 1
    end
    if redis.call('EXISTS', name) == 0 then return tell() end
    if redis.call('HEXISTS', name, owner) == 0 then return false end
    if redis.call('HINCRBY', name, owner, -1) > 0 then
        redis.call('PEXPIRE', name, lease)
        return 0
    end
    redis.call('DEL', name)
    return tell()";

/// A waiter that gives up leaves its place.
const GIVE_UP: &str = "
    redis.call('ZREM', KEYS[2], ARGV[1])
    return redis.call('LREM', KEYS[1], 0, ARGV[1])";

/// A process of theirs at one master.
#[derive(Clone, Debug)]
pub struct Client {
    process: Arc<Process>,
}

impl Client {
    pub async fn connect(url: impl AsRef<str>) -> Self {
        Self {
            process: Process::connect(url.as_ref(), Pace::Java).await,
        }
    }

    /// The lock of that name in the hands of a thread of its own.
    pub fn lock(&self, name: &str) -> FairLock {
        let tagged = tagged(name);
        FairLock {
            process: Arc::clone(&self.process),
            owner: self.process.thread(),
            channel: format!("redisson_lock__channel:{tagged}"),
            keys: [
                name.to_owned(),
                format!("redisson_lock_queue:{tagged}"),
                format!("redisson_lock_timeout:{tagged}"),
            ],
        }
    }
}

#[derive(Debug)]
pub struct FairLock {
    process: Arc<Process>,
    owner: String,
    channel: String,
    /// Name, list of waiters, and the times until which they stand there.
    keys: [String; 3],
}

fn now_ms() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    milliseconds(now)
}

impl FairLock {
    /// Field of its holder, by which it stands in the list.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn keys(&self) -> [&str; 3] {
        [0, 1, 2].map(|at| self.keys[at].as_str())
    }
}

impl Asking for FairLock {
    fn process(&self) -> &Process {
        &self.process
    }

    fn command(&self) -> Cmd {
        let args = [&now_ms(), &self.owner, &milliseconds(LEASE), &milliseconds(PLACE)];
        let text = format!("{DROP_LATE}{LOCK}");
        script(&text, &self.keys(), &args.map(String::as_str))
    }

    fn give_up(&self) -> Option<Cmd> {
        Some(script(GIVE_UP, &self.keys()[1..], &[&self.owner]))
    }
}

impl Lock for FairLock {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        let channel = format!("{}:{}", self.channel, self.owner);
        redisson::take(self, wait, &channel).await
    }

    async fn unlock(&self, _: Held) -> bool {
        let args = [&now_ms(), &self.owner, &milliseconds(LEASE), &self.channel];
        let text = format!("{DROP_LATE}{UNLOCK}");
        let command = script(&text, &self.keys(), &args.map(String::as_str));
        matches!(self.process.run(command).await, Ok(Some(_)))
    }
}
