//! A client: its masters, and what it holds and waits for on them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use uuid::Uuid;

use crate::hold::schedule::Schedule;
use crate::protocol::field::Field;
use crate::queue::Queues;
use crate::round::pool::Pool;
use crate::token::{FencingToken, Tokens};

/// The shared part of [`Masters`](crate::Masters).
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pool: Arc<Pool>,
    /// The client's half of every owner field.
    pub(crate) id: Uuid,
    next_field: AtomicU64,
    pub(crate) tokens: Tokens,
    pub(crate) queues: Arc<Queues>,
    pub(crate) schedule: Arc<Schedule>,
    /// The holds that closing releases.
    pub(crate) released: Releasing,
}

/// The holds that are released by closing: the masters that have done so, and how many it takes.
#[derive(Debug, Default)]
pub(crate) struct Releasing(Mutex<Vec<(Arc<AtomicUsize>, usize)>>);

impl Client {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            id: pool.chance.uuid(),
            pool,
            next_field: AtomicU64::new(1),
            tokens: Tokens::default(),
            queues: Arc::default(),
            schedule: Arc::new(Schedule::new()),
            released: Releasing::default(),
        }
    }

    /// A field that no hold of any client ever had before.
    pub(crate) fn fresh_field(&self) -> Field {
        Field {
            client: self.id,
            number: self.next_field.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A token above all that this client knows of, and all that a master with a vote may have
    /// forgotten.
    pub(crate) fn propose_token(&self) -> FencingToken {
        let now = Instant::now();
        let voting = self
            .pool
            .slots
            .iter()
            .filter_map(|slot| slot.link().ok())
            .filter(|link| link.quarantine(now).is_zero());
        let floor = voting
            .map(|link| link.floor().saturating_add(1))
            .max()
            .unwrap_or(0);
        FencingToken(self.tokens.propose(floor.max(self.pool.clock.wall_us())))
    }
}

impl Releasing {
    /// Another hold, which so many masters do not have; counts those that have released it.
    pub(crate) fn add(&self, off: usize, needed: usize) -> Arc<AtomicUsize> {
        let confirmed = Arc::new(AtomicUsize::new(off));
        let mut holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holds.push((Arc::clone(&confirmed), needed));
        confirmed
    }

    /// How many of them so many masters have released that their names are free, and how many there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        let holds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free =
            |(confirmed, needed): &&(Arc<AtomicUsize>, usize)| confirmed.load(Ordering::Relaxed) >= *needed;
        (holds.iter().filter(is_free).count(), holds.len())
    }
}
