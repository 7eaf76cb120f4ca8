//! Redisson's `RLock` on one master.
//!
//! Not shown: the renewal of a hold, which here lives for its lease, and the key by which an unlock
//! that is sent twice is answered twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::channels::Channels;
use super::{Lock, dial, milliseconds, script};

/// Of a lock that was taken without one.
const LEASE: Duration = Duration::from_secs(30);
/// Of a wait that nothing else ends.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

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

/// How soon a word of the server is with the thread that waits for it. Who comes first after a release, and
/// with it each side's share, hangs on this more than on anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As in Java, from one thread to another: about so that a lock and its unlock take 0.43 ms where nobody
    /// else is, and a waiter asks 0.5 ms after a message.
    Java,
    /// At once: the hardest to be beside, since who has had the lock asks again before anybody else can.
    AtOnce,
}

/// Beyond what a task needs here.
const HANDED_OVER: Duration = Duration::from_micros(100);

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
    pace: Pace,
}

impl Client {
    pub async fn connect(url: impl AsRef<str>) -> Self {
        Self::with_pace(url, Pace::Java).await
    }

    pub async fn with_pace(url: impl AsRef<str>, pace: Pace) -> Self {
        let client = redis::Client::open(url.as_ref()).expect("a URL");
        Self {
            process: Arc::new(Process {
                id: Uuid::new_v4(),
                commands: dial(&client).await,
                channels: Channels::connect(&client).await,
                threads: AtomicU64::new(1),
                pace,
            }),
        }
    }

    /// The lock of that name in the hands of a thread of its own: who takes it twice enters twice.
    pub fn lock(&self, name: &str) -> RLock {
        let thread = self.process.threads.fetch_add(1, Ordering::Relaxed);
        RLock {
            process: Arc::clone(&self.process),
            owner: format!("{}:{thread}", self.process.id),
            channel: channel(name),
            name: name.to_owned(),
        }
    }
}

/// Where a name's releases are told. Braces that a name has already decide its place in a cluster.
fn channel(name: &str) -> String {
    if name.contains('{') {
        format!("redisson_lock__channel:{name}")
    } else {
        format!("redisson_lock__channel:{{{name}}}")
    }
}

#[derive(Debug)]
pub struct RLock {
    process: Arc<Process>,
    owner: String,
    name: String,
    channel: String,
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

/// A thread sleeps, since the runtime's own timer goes by milliseconds.
pub(super) async fn handed_over() {
    let sleeping = spawn_blocking(|| thread::sleep(HANDED_OVER));
    sleeping.await.expect("no panic");
}

impl Process {
    async fn handed_over(&self) {
        if self.pace == Pace::Java {
            handed_over().await;
        }
    }
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

    async fn run(&self, command: Cmd) -> RedisResult<Option<i64>> {
        let answer = command.query_async(&mut self.process.commands.clone()).await;
        self.process.handed_over().await;
        answer
    }

    async fn ask(&self) -> Answer {
        let lease = milliseconds(LEASE);
        let command = script(LOCK, &[&self.name], &[&self.owner, &lease]);
        match self.run(command).await {
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
                self.process.handed_over().await;
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

impl Lock for RLock {
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
        let messages = self.process.channels.join(&self.channel).await;
        self.process.handed_over().await;
        let granted = self.ask_until(deadline, &messages).await;
        self.process.channels.leave(&self.channel).await;
        granted.then_some(Held(()))
    }

    async fn unlock(&self, _: Held) -> bool {
        let keys = [self.name.as_str(), &self.channel];
        let lease = milliseconds(LEASE);
        let command = script(UNLOCK, &keys, &[&self.owner, &lease]);
        matches!(self.run(command).await, Ok(Some(_)))
    }
}
