//! Redisson's `RReadWriteLock` on one master.
//!
//! The renewal is one step, [`Half::renew`], which its watchdog takes every ten seconds; here a hold lives for its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::channels::Channels;
use super::{Lock, dial, milliseconds, script};

/// Of a lock that was taken without one, and of every renewal.
pub const WATCHDOG: Duration = Duration::from_secs(30);
/// Of a wait that nothing else ends.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// These answer nothing if the lock was taken, else how long the key has to live. A hash without a mode is taken as if
/// it were free, whatever else is in it.
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

/// Only what is held in its own mode.
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

/// What a thread sends, for who sends it without waiting.
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
        let tagged = if name.contains('{') {
            name.to_owned()
        } else {
            format!("{{{name}}}")
        };
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
        let lease = milliseconds(WATCHDOG);
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

#[derive(Debug)]
struct Process {
    id: Uuid,
    commands: MultiplexedConnection,
    channels: Channels,
    threads: AtomicU64,
}

impl Client {
    pub async fn connect(url: impl AsRef<str>) -> Self {
        let client = redis::Client::open(url.as_ref()).expect("a URL");
        Self {
            process: Arc::new(Process {
                id: Uuid::new_v4(),
                commands: dial(&client).await,
                channels: Channels::connect(&client).await,
                threads: AtomicU64::new(1),
            }),
        }
    }

    /// The two locks of a name in the hands of a thread of its own: to read, and to write.
    pub fn lock(&self, name: &str) -> (Half, Half) {
        let thread = self.process.threads.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{}:{thread}", self.process.id);
        let half = |mode| Half {
            process: Arc::clone(&self.process),
            calls: Calls::new(name, &owner, mode),
            lease: WATCHDOG,
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

#[derive(Debug)]
pub struct Held(());

enum Answer {
    Granted,
    /// Held by somebody who has so long to live, or for ever.
    Refused(Option<Duration>),
    /// Where the library throws: the key is no hash, or the master does not answer.
    Failed,
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
        matches!(self.run(self.calls.renew()).await, Ok(Some(1)))
    }

    /// Takes it from whoever holds; whether anybody did.
    pub async fn force(&self) -> bool {
        matches!(self.run(self.calls.force()).await, Ok(Some(1)))
    }

    async fn run(&self, command: Cmd) -> RedisResult<Option<i64>> {
        command.query_async(&mut self.process.commands.clone()).await
    }

    async fn ask(&self) -> Answer {
        match self.run(self.calls.lock(self.lease)).await {
            Ok(None) => Answer::Granted,
            Ok(Some(left)) => Answer::Refused(u64::try_from(left).ok().map(Duration::from_millis)),
            Err(_) => Answer::Failed,
        }
    }

    /// Asks and sleeps in turn: until a message that is for this waiter, or the end of the hold it was told of.
    async fn ask_until(&self, deadline: Option<Instant>, messages: &Semaphore) -> bool {
        loop {
            let wait = left(deadline);
            if wait.is_zero() {
                return false;
            }
            let sleep = match self.ask().await {
                Answer::Granted => return true,
                Answer::Failed => return false,
                Answer::Refused(held_for) => held_for.unwrap_or(FOR_EVER).min(left(deadline)),
            };
            if let Ok(permit) = timeout(sleep, messages.acquire()).await {
                permit.expect("never closed").forget();
            }
        }
    }
}

/// How long a wait goes on.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(FOR_EVER, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    })
}

impl Lock for Half {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        match self.ask().await {
            Answer::Granted => return Some(Held(())),
            Answer::Failed => return None,
            Answer::Refused(_) => {}
        }
        if left(deadline).is_zero() {
            return None;
        }
        let channel = &self.calls.channel;
        let messages = self.process.channels.join(channel).await;
        let granted = self.ask_until(deadline, &messages).await;
        self.process.channels.leave(channel).await;
        granted.then_some(Held(()))
    }

    async fn unlock(&self, _: Held) -> bool {
        matches!(self.run(self.calls.unlock()).await, Ok(Some(_)))
    }
}
