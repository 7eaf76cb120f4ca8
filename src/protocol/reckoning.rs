//! The longest lease of anybody, as far as this client knows: quarantine, revocation marks and doubt
//! about a clock are as long as that, and not as long as this client's own leases.
//!
//! Leases of up to 30 s need no agreement: every client reckons with them. Longer ones are agreed upon
//! first, by a key on the masters, the charter: it says how long a lease anybody may come to ask for, and
//! which one all masters have stored, which is then *in force*. A master refuses the vote to a client
//! that reckons with less than is stored there; the client takes the value over and asks again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::config::{Config, MAX_LEASE, Quarantine};
use crate::time::validity::outlived;

/// What clients have agreed upon, as it is stored on every master. It is only ever raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The longest lease that anybody may come to ask for; zero where none needs to be agreed upon.
    pub(crate) longest: Duration,
    /// The longest lease that may be asked for, because every master has stored it.
    pub(crate) in_force: Duration,
}

impl Agreed {
    fn raise(&mut self, other: Self) {
        self.longest = self.longest.max(other.longest);
        self.in_force = self.in_force.max(other.in_force);
    }

    fn covers(self, other: Self) -> bool {
        self.longest >= other.longest && self.in_force >= other.in_force
    }
}

/// What a client reckons with. It is only ever raised.
#[derive(Debug)]
pub(crate) struct Reckoning {
    quarantine: Quarantine,
    drift_factor: f64,
    /// The longest lease that needs no agreement.
    free: Duration,
    longest_ms: AtomicU64,
    /// Kept apart, because it is asked for with every vote.
    quarantine_us: AtomicU64,
    in_force_ms: AtomicU64,
    charter: Mutex<Charter>,
    news: Notify,
}

/// What is known of the agreement.
#[derive(Debug)]
struct Charter {
    agreed: Agreed,
    /// What every master has stored, as it told on the connection that stands.
    stored: Vec<Option<Agreed>>,
}

impl Reckoning {
    pub(crate) fn new(config: &Config, nodes: usize) -> Self {
        let wanted = config.longest_lease();
        let longest = if wanted > config.lease_without_charter {
            wanted
        } else {
            Duration::ZERO
        };
        let agreed = Agreed {
            longest,
            in_force: Duration::ZERO,
        };
        let reckoning = Self {
            quarantine: config.quarantine,
            drift_factor: config.drift_factor,
            free: config.lease_without_charter,
            longest_ms: AtomicU64::new(0),
            quarantine_us: AtomicU64::new(0),
            in_force_ms: AtomicU64::new(0),
            charter: Mutex::new(Charter {
                agreed,
                stored: vec![None; nodes],
            }),
            news: Notify::new(),
        };
        reckoning.reckon_with(config.reckoned_lease());
        reckoning
    }

    /// The longest lease that anybody may have.
    pub(crate) fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.longest_ms.load(Ordering::Acquire))
    }

    /// How long a master's memory must reach back for its votes to count.
    pub(crate) fn quarantine(&self) -> Duration {
        Duration::from_micros(self.quarantine_us.load(Ordering::Acquire))
    }

    /// The time after which nothing is alive any more that a master may have forgotten now.
    pub(crate) fn outlived(&self) -> Duration {
        outlived(self.longest_lease(), self.drift_factor)
    }

    /// What a master is told: who has no quarantine rests on no reckoning, and is refused by none.
    pub(crate) fn told(&self) -> Duration {
        if self.takes_part() {
            self.longest_lease()
        } else {
            MAX_LEASE
        }
    }

    /// Whether this client agrees with others on leases. Its masters keep everything otherwise, or are thrown away.
    pub(crate) fn takes_part(&self) -> bool {
        self.quarantine != Quarantine::Off
    }

    /// Whether a lease may be asked for.
    pub(crate) fn allows(&self, lease: Duration) -> bool {
        lease <= self.free
            || lease <= Duration::from_millis(self.in_force_ms.load(Ordering::Acquire))
            || !self.takes_part()
    }

    /// Whether a master has stored that leases of this length may be asked for.
    pub(crate) fn is_confirmed(&self, node: usize, lease: Duration) -> bool {
        self.charter().stored[node].is_some_and(|stored| stored.longest >= lease)
    }

    /// What a master is to store, where that is more than it has, or where it has not told what it has. A client that takes no
    /// part asks for no lease to be stored.
    pub(crate) fn missing(&self, node: usize) -> Option<Agreed> {
        let charter = self.charter();
        let agreed = if self.takes_part() {
            charter.agreed
        } else {
            Agreed::default()
        };
        let is_stored = charter.stored[node].is_some_and(|stored| stored.covers(agreed));
        (!is_stored).then_some(agreed)
    }

    /// Takes in what a master has stored.
    pub(crate) fn stored(&self, node: usize, stored: Agreed) {
        let mut charter = self.charter();
        charter.stored[node] = Some(stored);
        let everywhere = charter
            .stored
            .iter()
            .map(|stored| stored.map(|stored| stored.longest));
        let in_force = everywhere.min().flatten().unwrap_or_default();
        charter.agreed.raise(stored);
        charter.agreed.raise(Agreed {
            longest: in_force,
            in_force,
        });
        let agreed = charter.agreed;
        drop(charter);
        self.reckon_with(agreed.longest);
        self.in_force_ms
            .fetch_max(whole_ms(agreed.in_force), Ordering::AcqRel);
        self.news.notify_waiters();
    }

    /// A master's connection has ended: what it stores from now on is not known.
    pub(crate) fn out_of_sight(&self, node: usize) {
        self.charter().stored[node] = None;
    }

    /// Takes in that somebody may have leases of this length.
    pub(crate) fn learn(&self, lease: Duration) {
        self.charter().agreed.raise(Agreed {
            longest: lease,
            in_force: Duration::ZERO,
        });
        self.reckon_with(lease);
        self.news.notify_waiters();
    }

    /// Resolves when there may be more to store, from the moment it is enabled.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    fn reckon_with(&self, lease: Duration) {
        self.longest_ms.fetch_max(whole_ms(lease), Ordering::AcqRel);
        let quarantine = match self.quarantine {
            Quarantine::Auto => self.outlived(),
            Quarantine::For(quarantine) => quarantine.max(self.outlived()),
            Quarantine::Off => Duration::ZERO,
        };
        let us = u64::try_from(quarantine.as_micros()).unwrap_or(u64::MAX);
        self.quarantine_us.fetch_max(us, Ordering::AcqRel);
    }

    fn charter(&self) -> MutexGuard<'_, Charter> {
        self.charter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole_ms(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
