//! Redisson's `RReadWriteLock` on one master.
//!
//! The renewal is one step, [`Half::renew`], which its watchdog takes every ten seconds; here a hold lives for its lease.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

pub use super::redisson::Held;
use super::redisson::{self, Asking, LEASE, Pace, Process, tagged};
use super::{Lock, milliseconds, script};

/// Both answer nothing if the lock was taken, else the remaining time to live of the key. A hash without a mode
/// counts as free, even if it has other fields.
const READ: &str = "
    local name, timeout, owner, writer, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2], tonumber(ARGV[3])
    local mode = redis.call('HGET', name, 'mode')
    if not mode then
        redis.call('HSET', name, 'mode', 'read', owner, 1)
        redis.call('SET', timeout .. ':1', 1, 'PX', lease)
        redis.call('PEXPIRE', name, lease)
        return false
    end
    if mode ~= 'read' and redis.call('HEXISTS', name, writer) == 0 then return redis.call('PTTL', name) end
    local entry = redis.call('HINCRBY', name, owner, 1)
    redis.call('SET', timeout .. ':' .. entry, 1, 'PX', lease)
    redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), lease))
    return false";
const WRITE: &str = "
    local name, writer, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
    local mode = redis.call('HGET', name, 'mode')
    if not mode then
        redis.call('HSET', name, 'mode', 'write', writer, 1)
        redis.call('PEXPIRE', name, lease)
        return false
    end
    if mode ~= 'write' or redis.call('HEXISTS', name, writer) == 0 then return redis.call('PTTL', name) end
    redis.call('HINCRBY', name, writer, 1)
    redis.call('PEXPIRE', name, redis.call('PTTL', name) + lease)
    return false";

/// These answer nothing if the caller does not hold it, else whether the key is free, or its mode no longer write.
const READ_UNLOCK: &str = "
    local name, channel, timeouts, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
    local mode = redis.call('HGET', name, 'mode')
    if not mode then redis.call('PUBLISH', channel, '0') return false end
    if redis.call('HEXISTS', name, owner) == 0 then return false end
    local count = redis.call('HINCRBY', name, owner, -1)
    if count == 0 then redis.call('HDEL', name, owner) end
    redis.call('DEL', timeouts .. ':' .. owner .. ':rwlock_timeout:' .. (count + 1))
    if redis.call('HLEN', name) > 1 then
        local longest, entries = 0, redis.call('HGETALL', name)
        for at = 1, #entries, 2 do
            for entry = tonumber(entries[at + 1]) or 0, 1, -1 do
                local its = timeouts .. ':' .. entries[at] .. ':rwlock_timeout:' .. entry
                longest = math.max(longest, redis.call('PTTL', its))
            end
        end
        if longest > 0 then redis.call('PEXPIRE', name, longest) return 0 end
        if mode == 'write' then return 0 end
    end
    redis.call('DEL', name)
    redis.call('PUBLISH', channel, '0')
    return 1";
const WRITE_UNLOCK: &str = "
    local name, channel, writer = KEYS[1], KEYS[2], ARGV[1]
    local mode = redis.call('HGET', name, 'mode')
    if not mode then redis.call('PUBLISH', channel, '1') return false end
    if redis.call('HEXISTS', name, writer) == 0 then return false end
    if redis.call('HINCRBY', name, writer, -1) > 0 then return 0 end
    redis.call('HDEL', name, writer)
    if redis.call('HLEN', name) == 1 then
        redis.call('DEL', name)
        redis.call('PUBLISH', channel, '1')
    else
        redis.call('HSET', name, 'mode', 'read')
    end
    return 1";

/// These set the time to live, also where it was longer.
const READ_RENEW: &str = "
    local name, timeout, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
    local count = tonumber(redis.call('HGET', name, owner) or 0)
    if not count or count < 1 then return 0 end
    for entry = 1, count do redis.call('PEXPIRE', timeout .. ':' .. entry, lease) end
    return redis.call('PEXPIRE', name, lease)";
const WRITE_RENEW: &str = "
    if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// Takes away a hold of its own mode alone.
const FORCE: &str = "
    if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[1] then return 0 end
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[2], ARGV[2])
    return 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
}

/// Commands of a thread, for a test that sends them without waiting.
#[derive(Clone, Debug)]
pub struct Calls {
    name: String,
    channel: String,
    /// With which the names of its readers' time-out keys begin.
    timeouts: String,
    /// As a reader; as a writer it has a word behind that.
    owner: String,
    mode: Mode,
}

impl Calls {
    pub fn new(name: &str, owner: &str, mode: Mode) -> Self {
        let tagged = tagged(name);
        Self {
            name: name.to_owned(),
            channel: format!("redisson_rwlock:{tagged}"),
            timeouts: tagged,
            owner: owner.to_owned(),
            mode,
        }
    }

    /// The field that stands for the holder.
    pub fn field(&self) -> String {
        match self.mode {
            Mode::Read => self.owner.clone(),
            Mode::Write => format!("{}:write", self.owner),
        }
    }

    /// The time-out key of one of its entries, without its number.
    fn timeout(&self) -> String {
        format!("{}:{}:rwlock_timeout", self.timeouts, self.owner)
    }

    pub fn lock(&self, lease: Duration) -> Cmd {
        let lease = milliseconds(lease);
        let writer = format!("{}:write", self.owner);
        match self.mode {
            Mode::Read => script(
                READ,
                &[&self.name, &self.timeout()],
                &[&self.owner, &writer, &lease],
            ),
            Mode::Write => script(WRITE, &[&self.name], &[&writer, &lease]),
        }
    }

    pub fn unlock(&self) -> Cmd {
        let (name, channel) = (self.name.as_str(), self.channel.as_str());
        match self.mode {
            Mode::Read => script(READ_UNLOCK, &[name, channel, &self.timeouts], &[&self.owner]),
            Mode::Write => script(WRITE_UNLOCK, &[name, channel], &[&self.field()]),
        }
    }

    pub fn renew(&self) -> Cmd {
        let lease = milliseconds(LEASE);
        match self.mode {
            Mode::Read => script(READ_RENEW, &[&self.name, &self.timeout()], &[&self.owner, &lease]),
            Mode::Write => script(WRITE_RENEW, &[&self.name], &[&self.field(), &lease]),
        }
    }

    pub fn force(&self) -> Cmd {
        let (mode, message) = match self.mode {
            Mode::Read => ("read", "0"),
            Mode::Write => ("write", "1"),
        };
        script(FORCE, &[&self.name, &self.channel], &[mode, message])
    }
}

/// A process of theirs at one master.
#[derive(Clone, Debug)]
pub struct Client {
    process: Arc<Process>,
}

impl Client {
    pub async fn connect(url: impl AsRef<str>) -> Self {
        Self {
            process: Process::connect(url.as_ref(), Pace::AtOnce).await,
        }
    }

    /// The two locks of a name in the hands of a thread of its own: to read, and to write.
    pub fn lock(&self, name: &str) -> (Half, Half) {
        let owner = self.process.thread();
        let half = |mode| Half {
            process: Arc::clone(&self.process),
            calls: Calls::new(name, &owner, mode),
            lease: LEASE,
        };
        (half(Mode::Read), half(Mode::Write))
    }

    pub fn read(&self, name: &str) -> Half {
        self.lock(name).0
    }

    pub fn write(&self, name: &str) -> Half {
        self.lock(name).1
    }
}

/// One of the two locks.
#[derive(Clone, Debug)]
pub struct Half {
    process: Arc<Process>,
    calls: Calls,
    lease: Duration,
}

impl Half {
    /// The field that stands for its holder.
    pub fn field(&self) -> String {
        self.calls.field()
    }

    /// With another lease than the watchdog's.
    #[must_use]
    pub fn leasing(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// One step of its watchdog; whether it still held.
    pub async fn renew(&self) -> bool {
        matches!(self.process.run(self.calls.renew()).await, Ok(Some(1)))
    }

    /// Takes the lock from its holder. Returns whether there was one.
    pub async fn force(&self) -> bool {
        matches!(self.process.run(self.calls.force()).await, Ok(Some(1)))
    }
}

impl Asking for Half {
    fn process(&self) -> &Process {
        &self.process
    }

    fn command(&self) -> Cmd {
        self.calls.lock(self.lease)
    }
}

impl Lock for Half {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        redisson::take(self, wait, &self.calls.channel).await
    }

    async fn unlock(&self, _: Held) -> bool {
        matches!(self.process.run(self.calls.unlock()).await, Ok(Some(_)))
    }
}
