//! go-redsync over N masters: all at once, given back at once, and again after a while.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::time::Instant;
use uuid::Uuid;

use super::{Lock, ask_all, delete_if_mine, dial_all, milliseconds, pause, quorum};

/// Of a lock that was made without options.
const LEASE: Duration = Duration::from_secs(8);
const DRIFT: Duration = Duration::from_millis(80);
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

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

    pub fn lock(&self, name: &str) -> Mutex {
        Mutex {
            masters: self.masters.clone(),
            name: name.to_owned(),
        }
    }
}

#[derive(Debug)]
pub struct Mutex {
    masters: Vec<MultiplexedConnection>,
    name: String,
}

/// The value of its keys.
#[derive(Debug)]
pub struct Held(String);

impl Mutex {
    async fn ask(&self) -> Option<Held> {
        let begun = Instant::now();
        let value = Uuid::new_v4().to_string();
        let mut command = redis::cmd("SET");
        command.arg(&self.name).arg(&value);
        command.arg("NX").arg("PX").arg(milliseconds(LEASE));
        let granted = ask_all(&self.masters, &command).await;
        if granted >= quorum(self.masters.len()) && begun.elapsed() + DRIFT < LEASE {
            return Some(Held(value));
        }
        ask_all(&self.masters, &delete_if_mine(&self.name, &value)).await;
        None
    }
}

impl Lock for Mutex {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        let deadline = wait.map(|wait| Instant::now() + wait);
        loop {
            if let Some(held) = self.ask().await {
                return Some(held);
            }
            if !pause(PAUSE, deadline).await {
                return None;
            }
        }
    }

    async fn unlock(&self, held: Held) -> bool {
        let deleted = ask_all(&self.masters, &delete_if_mine(&self.name, &held.0)).await;
        deleted >= quorum(self.masters.len())
    }
}
