//! Redisson's `RedissonMultiLock` and `RedissonRedLock`: a list of `RLock`s, one of each master.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::rlock::{self, Pace, RLock};
use super::{Lock, quorum};

/// Of a `lock()` without a wait, for each master; half of it at least.
const WAIT_A_MASTER: Duration = Duration::from_millis(1500);

/// A process of theirs: to each master it is another client.
#[derive(Clone, Debug)]
pub struct Client {
    masters: Vec<rlock::Client>,
}

impl Client {
    pub async fn connect<S: AsRef<str>>(urls: impl IntoIterator<Item = S>) -> Self {
        Self::with_pace(urls, Pace::Java).await
    }

    pub async fn with_pace<S: AsRef<str>>(urls: impl IntoIterator<Item = S>, pace: Pace) -> Self {
        let connect = |url| rlock::Client::with_pace(url, pace);
        let masters = join_all(urls.into_iter().map(connect)).await;
        Self { masters }
    }

    /// Needs every master. In the hands of a thread of its own.
    pub fn multi_lock(&self, name: &str) -> LockList {
        self.list(name, Kind::MultiLock)
    }

    /// Needs a majority. In the hands of a thread of its own.
    pub fn red_lock(&self, name: &str) -> LockList {
        self.list(name, Kind::RedLock)
    }

    fn list(&self, name: &str, kind: Kind) -> LockList {
        let locks = self.masters.iter().map(|master| master.lock(name));
        LockList {
            locks: locks.collect(),
            kind,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    MultiLock,
    RedLock,
}

#[derive(Debug)]
pub struct LockList {
    locks: Vec<RLock>,
    kind: Kind,
}

/// Which of the list's locks, by their places.
#[derive(Debug)]
pub struct Held(Vec<(usize, rlock::Held)>);

impl LockList {
    /// The fields that stand for its holder, master by master.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(RLock::owner)
    }

    /// Number of masters that may be without a grant.
    fn may_fail(&self) -> usize {
        match self.kind {
            Kind::MultiLock => 0,
            Kind::RedLock => self.locks.len() - quorum(self.locks.len()),
        }
    }

    /// The longest wait for one master.
    fn share(&self, wait: Duration) -> Duration {
        match self.kind {
            Kind::MultiLock => wait,
            Kind::RedLock => {
                let masters = u32::try_from(self.locks.len()).expect("a few masters");
                (wait / masters).max(Duration::from_millis(1))
            }
        }
    }

    /// Takes the masters one after the other. A hold is kept while the next master is awaited. When too many masters
    /// have failed, all holds are given back, and the list begins again.
    async fn try_for(&self, wait: Duration) -> Option<Held> {
        let deadline = Instant::now() + wait;
        let share = self.share(wait);
        let (mut held, mut failed, mut place) = (Held(Vec::new()), 0, 0);
        while let Some(lock) = self.locks.get(place) {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(one) = lock.lock(Some(share.min(left))).await {
                held.0.push((place, one));
            } else if self.locks.len() - held.0.len() == self.may_fail() {
                // Enough without this one, and the rest are not asked.
                return Some(held);
            } else {
                failed += 1;
            }
            place += 1;
            if failed > self.may_fail() {
                self.give_back(&mut held).await;
                (failed, place) = (0, 0);
            }
            if Instant::now() >= deadline {
                self.give_back(&mut held).await;
                return None;
            }
        }
        Some(held)
    }

    /// Sends the releases one after the other, as one thread does, and awaits them together. So the last master is
    /// free later than the first one. A client that wants all masters, and hears of the first, does not find them
    /// free. Returns the number of locks that were still held.
    async fn give_back(&self, held: &mut Held) -> usize {
        let unlocking = held
            .0
            .drain(..)
            .enumerate()
            .map(|(nth, (place, one))| async move {
                for _ in 0..nth {
                    self.locks[place].handed_over().await;
                }
                self.locks[place].unlock(one).await
            });
        let done = join_all(unlocking).await.into_iter().filter(|held| *held);
        done.count()
    }
}

impl Lock for LockList {
    type Held = Held;

    async fn lock(&self, wait: Option<Duration>) -> Option<Held> {
        if let Some(wait) = wait {
            return self.try_for(wait).await;
        }
        let masters = u32::try_from(self.locks.len()).expect("a few masters");
        let wait = rand::random_range(WAIT_A_MASTER / 2 * masters..WAIT_A_MASTER * masters);
        loop {
            if let Some(held) = self.try_for(wait).await {
                return Some(held);
            }
        }
    }

    async fn unlock(&self, mut held: Held) -> bool {
        self.give_back(&mut held).await + self.may_fail() >= self.locks.len()
    }
}
