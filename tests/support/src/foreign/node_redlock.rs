//! node-redlock 5 over N masters: as [`redsync`](super::redsync), but what it got in one try it keeps until
//! the next, where it does not know it again.

use std::time::Duration;

use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Lock, ask_all, delete_if_mine, dial_all, milliseconds, pause, quorum, script};

/// The library has none of its own; this is what its examples ask for, and a little more.
const LEASE: Duration = Duration::from_secs(10);
/// Before it gives up what it has.
const TRIES: u32 = 11;
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(300));

/// A key that is there is somebody else's, whatever its value.
const TAKE: &str = "
    if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1";

/// A process of theirs.
#[derive(Clone, Debug)]
pub struct Client {
    masters: Vec<MultiplexedConnection>,
}

impl Client {
    pub async fn connect<S: AsRef<str>>(urls: impl IntoIterator<Item = S>) -> Self {
        let masters = dial_all(urls).await;
        Self { masters }
    }

    pub fn lock(&self, name: &str) -> RedLock {
        RedLock {
            masters: self.masters.clone(),
            name: name.to_owned(),
        }
    }
}

#[derive(Debug)]
pub struct RedLock {
    masters: Vec<MultiplexedConnection>,
    name: String,
}

/// The value of its keys.
#[derive(Debug)]
pub struct Held(String);

impl RedLock {
    /// One acquire of theirs, which has so many tries and until then gives nothing back.
    async fn acquire(&self, deadline: Option<Instant>) -> Option<Held> {
        let value = Uuid::new_v4().to_string();
        let command = script(TAKE, &[&self.name], &[&value, &milliseconds(LEASE)]);
        if self.ask(&command, deadline).await {
            return Some(Held(value));
        }
        ask_all(&self.masters, &delete_if_mine(&self.name, &value)).await;
        None
    }

    /// Only what is granted in one try counts together.
    async fn ask(&self, command: &Cmd, deadline: Option<Instant>) -> bool {
        for number in 1..=TRIES {
            if ask_all(&self.masters, command).await >= quorum(self.masters.len()) {
                return true;
            }
            if number == TRIES || !pause(PAUSE, deadline).await {
                break;
            }
        }
        false
    }
}

impl Lock for RedLock {
    type Held = Held;

    /// Without a wait as a caller that begins anew after each failure.
    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        loop {
            if let Some(held) = self.acquire(deadline).await {
                return Some(held);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return None;
            }
        }
    }

    async fn unlock(&self, held: Held) -> bool {
        let deleted = ask_all(&self.masters, &delete_if_mine(&self.name, &held.0)).await;
        deleted >= quorum(self.masters.len())
    }
}
