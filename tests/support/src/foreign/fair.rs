//! Redisson's `RFairLock` on one master.
//!
//! Its waiters stand in a list beside the name, each until a time by the clock of its own process. The first one alone may
//! take the lock, and a release is announced to the first one alone, on a channel of its own. Not shown: the renewal of a
//! hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::channels::Channels;
use super::rlock::handed_over;
use super::{Lock, dial, milliseconds, script};

/// Lease of a lock that was taken without one.
const LEASE: Duration = Duration::from_secs(30);
/// Time for which a waiter keeps its place behind the one before it.
const PLACE: Duration = Duration::from_secs(300);
/// Wait that nothing else ends.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

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

    /// The lock of that name in the hands of a thread of its own.
    pub fn lock(&self, name: &str) -> FairLock {
        let thread = self.process.threads.fetch_add(1, Ordering::Relaxed);
        let tagged = if name.contains('{') {
            name.to_owned()
        } else {
            format!("{{{name}}}")
        };
        FairLock {
            process: Arc::clone(&self.process),
            owner: format!("{}:{thread}", self.process.id),
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

#[derive(Debug)]
pub struct Held(());

enum Answer {
    Granted,
    /// Time to sleep, or no end.
    Refused(Option<Duration>),
    /// The library throws: a key has another type, or the master does not answer.
    Failed,
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

    async fn run(&self, command: Cmd) -> RedisResult<Option<i64>> {
        let answer = command.query_async(&mut self.process.commands.clone()).await;
        handed_over().await;
        answer
    }

    fn keys(&self) -> [&str; 3] {
        [0, 1, 2].map(|at| self.keys[at].as_str())
    }

    async fn ask(&self) -> Answer {
        let args = [&now_ms(), &self.owner, &milliseconds(LEASE), &milliseconds(PLACE)];
        let text = format!("{DROP_LATE}{LOCK}");
        match self
            .run(script(&text, &self.keys(), &args.map(String::as_str)))
            .await
        {
            Ok(None) => Answer::Granted,
            Ok(Some(left)) => Answer::Refused(u64::try_from(left).ok().map(Duration::from_millis)),
            Err(_) => Answer::Failed,
        }
    }

    /// Asks and sleeps in turn: until a message on its channel, or the end of the time that it was told.
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
                handed_over().await;
            }
        }
    }
}

/// Rest of a wait.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(FOR_EVER, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    })
}

impl Lock for FairLock {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        match self.ask().await {
            Answer::Granted => return Some(Held(())),
            Answer::Failed => return None,
            Answer::Refused(_) => {}
        }
        let channel = format!("{}:{}", self.channel, self.owner);
        let messages = self.process.channels.join(&channel).await;
        handed_over().await;
        let granted = self.ask_until(deadline, &messages).await;
        self.process.channels.leave(&channel).await;
        if !granted {
            let _ = self.run(script(GIVE_UP, &self.keys()[1..], &[&self.owner])).await;
        }
        granted.then_some(Held(()))
    }

    async fn unlock(&self, _: Held) -> bool {
        let args = [&now_ms(), &self.owner, &milliseconds(LEASE), &self.channel];
        let text = format!("{DROP_LATE}{UNLOCK}");
        let command = script(&text, &self.keys(), &args.map(String::as_str));
        matches!(self.run(command).await, Ok(Some(_)))
    }
}
