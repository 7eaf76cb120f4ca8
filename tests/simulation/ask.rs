//! Asking for a lock, leaving it, and taking a name away, with everything noted down.

use std::sync::Arc;
use std::time::Duration;

use multilock::{Owner, Policy, UnlockError, Unlocked};
use tokio::time::timeout;

use crate::client::Seat;
use crate::guard::{Lock, LockKind};
use crate::history::Kind;
use crate::world::{Mine, Terms, World};

/// Options of one request for a lock.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    names: &'static [&'static str],
    kind: LockKind,
    policy: Policy,
    /// None for the builder's, which is renewed.
    lease: Option<Duration>,
    owner: Option<&'a Owner>,
    /// None to try once.
    wait: Option<Duration>,
    fair: bool,
    min_validity: Duration,
    max_hold: Option<Duration>,
    at_least: Duration,
    dropped_after: Option<Duration>,
}

impl<'a> Ask<'a> {
    /// For the lock `a`.
    pub(crate) fn new() -> Self {
        Self {
            names: &["a"],
            kind: LockKind::Plain,
            policy: Policy::RedLock,
            lease: None,
            owner: None,
            wait: None,
            fair: false,
            min_validity: Duration::ZERO,
            max_hold: None,
            at_least: Duration::ZERO,
            dropped_after: None,
        }
    }

    pub(crate) fn names(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    pub(crate) fn read(self) -> Self {
        let kind = LockKind::Read;
        Self { kind, ..self }
    }

    pub(crate) fn write(self) -> Self {
        let kind = LockKind::Write;
        Self { kind, ..self }
    }

    pub(crate) fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    pub(crate) fn lease(self, lease: Duration) -> Self {
        Self {
            lease: Some(lease),
            ..self
        }
    }

    pub(crate) fn owner(self, owner: &'a Owner) -> Self {
        Self {
            owner: Some(owner),
            ..self
        }
    }

    pub(crate) fn wait(self, wait: Duration) -> Self {
        Self {
            wait: Some(wait),
            ..self
        }
    }

    pub(crate) fn fair(self) -> Self {
        Self { fair: true, ..self }
    }

    pub(crate) fn min_validity(self, min_validity: Duration) -> Self {
        Self { min_validity, ..self }
    }

    pub(crate) fn max_hold(self, max_hold: Duration) -> Self {
        Self {
            max_hold: Some(max_hold),
            ..self
        }
    }

    pub(crate) fn at_least(self, at_least: Duration) -> Self {
        Self { at_least, ..self }
    }

    /// The caller loses patience, and drops the call after this time.
    pub(crate) fn dropped_after(self, after: Duration) -> Self {
        Self {
            dropped_after: Some(after),
            ..self
        }
    }

    /// Asks; the guard, if there is one in the end.
    pub(crate) async fn of(self, world: &Arc<World>, seat: &Seat) -> Option<Mine> {
        let (policy, lease, wait) = (self.policy, self.lease, self.wait);
        let names: Vec<String> = self.names.iter().map(|name| (*name).to_owned()).collect();
        let op = world.next_op();
        let what = format!(
            "lock {} ({:?}) under {policy}, lease {lease:?}, wait {wait:?}",
            names.join("+"),
            self.kind
        );
        let began = world.history.note(Some(seat.place), Kind::Begun { op, what });
        let mut lock = seat.masters().lock(names.clone(), policy);
        lock = lock.min_validity(self.min_validity).at_least(self.at_least);
        if let Some(lease) = lease {
            lock = lock.lease(lease);
        }
        if let Some(owner) = self.owner {
            lock = lock.owner(owner);
        }
        if let Some(max_hold) = self.max_hold {
            lock = lock.max_hold(max_hold);
        }
        if self.fair {
            lock = lock.fair();
        }
        let lock = Lock::of(lock, self.kind);
        let asking = async {
            match wait {
                Some(wait) => lock.wait(wait).lock().await,
                None => lock.try_lock().await,
            }
        };
        let answer = match self.dropped_after {
            Some(after) => timeout(after, asking).await.ok(),
            None => Some(asking.await),
        };
        let unheld = match answer {
            Some(Ok(guard)) => {
                let terms = Terms {
                    op,
                    kind: self.kind,
                    needed: policy.needed(world.plan.nodes),
                    fenced: true,
                    min_validity: self.min_validity,
                    renews: lease.is_none() && self.max_hold.is_none(),
                    at_least: self.at_least,
                    began,
                };
                return Some(world.granted(seat.place, terms, &names, guard));
            }
            Some(Err(error)) => Kind::Refused {
                op,
                why: error.to_string(),
            },
            None => Kind::Cancelled { op },
        };
        world.history.note(Some(seat.place), unheld);
        None
    }
}

/// Unlocks the guard, if there is one. Returns the result of unlocking.
pub(crate) async fn leave(
    world: &Arc<World>,
    client: usize,
    mine: Option<Mine>,
) -> Option<Result<Unlocked, UnlockError>> {
    let mine = mine?;
    let hold = mine.hold;
    let unlocked = world.give_up(client, mine, "unlock").unlock().await;
    let what = format!("{unlocked:?}");
    world.history.note(Some(client), Kind::Outcome { hold, what });
    world.look(None);
    Some(unlocked)
}

/// Takes a name away from its holders.
pub(crate) async fn force(world: &World, seat: &Seat, name: &str) {
    let op = world.next_op();
    let client = Some(seat.place);
    let what = format!("force {name}");
    world.history.note(client, Kind::Begun { op, what });
    let forced = seat.masters().red_lock(name).force_release().await;
    let confirmed = forced.is_ok();
    let former = forced.map(|forced| forced.former).unwrap_or_default();
    let former: Vec<String> = former
        .iter()
        .map(|holder| holder.redacted_owner().to_string())
        .collect();
    let former = world.history.with(|record| {
        let known = |owner: &String| record.holds.iter().rposition(|hold| hold.owner == *owner);
        former.iter().filter_map(known).collect()
    });
    let name = name.to_owned();
    let forced = Kind::Forced {
        op,
        name,
        former,
        confirmed,
    };
    world.history.note(client, forced);
}
