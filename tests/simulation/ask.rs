//! Asking for the lock `a`, leaving it, and taking a name away, with everything noted down.

use std::sync::Arc;
use std::time::Duration;

use multilock::{Owner, Policy};
use tokio::time::timeout;

use crate::client::Seat;
use crate::history::Kind;
use crate::world::{Mine, Terms, World};

/// What the lock is asked for with.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    policy: Policy,
    /// None for the builder's, which is renewed.
    lease: Option<Duration>,
    owner: Option<&'a Owner>,
    /// None to try once.
    wait: Option<Duration>,
    dropped_after: Option<Duration>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new() -> Self {
        Self {
            policy: Policy::RedLock,
            lease: None,
            owner: None,
            wait: None,
            dropped_after: None,
        }
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

    /// The caller loses patience, and drops what it awaits.
    pub(crate) fn dropped_after(self, after: Duration) -> Self {
        Self {
            dropped_after: Some(after),
            ..self
        }
    }

    /// Asks; the guard, if there is one in the end.
    pub(crate) async fn of(self, world: &Arc<World>, seat: &Seat) -> Option<Mine> {
        let (policy, lease, wait) = (self.policy, self.lease, self.wait);
        let op = world.next_op();
        let what = format!("lock a under {policy}, lease {lease:?}, wait {wait:?}");
        let began = world.history.note(Some(seat.place), Kind::Begun { op, what });
        let mut lock = seat.masters().lock("a", policy);
        if let Some(lease) = lease {
            lock = lock.lease(lease);
        }
        if let Some(owner) = self.owner {
            lock = lock.owner(owner);
        }
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
                    needed: policy.needed(world.plan.nodes),
                    fenced: true,
                    min_validity: Duration::ZERO,
                    renews: lease.is_none(),
                    began,
                };
                return Some(world.granted(seat.place, terms, &["a".to_owned()], guard));
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

/// Unlocks, where there is something to unlock.
pub(crate) async fn leave(world: &Arc<World>, client: usize, mine: Option<Mine>) {
    let Some(mine) = mine else { return };
    let hold = mine.hold;
    let what = format!("{:?}", world.give_up(client, mine, "unlock").unlock().await);
    world.history.note(Some(client), Kind::Outcome { hold, what });
    world.look(None);
}

/// Takes a name away from whoever holds it.
pub(crate) async fn force(world: &World, seat: &Seat, name: &str) {
    let op = world.next_op();
    let client = Some(seat.place);
    let what = format!("force {name}");
    world.history.note(client, Kind::Begun { op, what });
    let forced = seat.masters().red_lock(name).force_release().await;
    let confirmed = forced.is_ok();
    let former = forced.map(|forced| forced.former).unwrap_or_default();
    let former: Vec<String> = former.iter().map(ToString::to_string).collect();
    let former = world.history.with(|record| {
        let known = |owner: &String| record.holds.iter().position(|hold| hold.owner == *owner);
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
