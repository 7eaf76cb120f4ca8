//! node-redlock 5 over N masters. It differs from [`redsync`](super::redsync) in one point: it keeps the grants of
//! one try until the next. There it does not recognise them.

use std::time::Duration;

use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Lock, ask_all, delete_if_mine, dial_all, milliseconds, pause, quorum, script};

/// The library has no default. This is a little more than the lease of its examples.
const LEASE: Duration = Duration::from_secs(10);
/// Number of tries before it gives up its grants.
const TRIES: u32 = 11;
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(300));

/// An existing key counts as another client's, with any value.
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
    /// One acquire of theirs. It has [`TRIES`] tries, and gives nothing back before the last has failed.
    async fn acquire(&self, deadline: Option<Instant>) -> Option<Held> {
        let value = Uuid::new_v4().to_string();
        let command = script(TAKE, &[&self.name], &[&value, &milliseconds(LEASE)]);
        if self.ask(&command, deadline).await {
            return Some(Held(value));
        }
        ask_all(&self.masters, &delete_if_mine(&self.name, &value)).await;
        None
    }

    /// Only the grants of one try count together.
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

    /// Without a wait, like a caller that begins again after each failure.
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
