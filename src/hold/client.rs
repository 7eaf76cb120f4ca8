//! A client: its masters, its holds and its waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::events::Survey;
use crate::hold::grant::Hold;
use crate::hold::idle::IdleGrants;
use crate::hold::last_seats::LastSeats;
use crate::hold::schedule::Schedule;
use crate::hold::tokens::Tokens;
use crate::masters::status::Status;
use crate::protocol::field::{Field, Letters};
use crate::queue::Lines;
use crate::round::clocks::Clocks;
use crate::round::pool::Pool;
use crate::values::names::Names;
use crate::values::token::FencingToken;

/// Longest time by which a ticket may be ahead of the masters' clocks, in microseconds. A ticket from wrong
/// clocks is drawn again. Otherwise its waiter would be the last one for as long as they were ahead.
pub(crate) const NEAR_US: u64 = 1_000_000;

/// Shared part of [`Masters`](crate::Masters).
pub(crate) struct ClientCore {
    pub(crate) pool: Arc<Pool>,
    next_field: AtomicU64,
    /// Ticket of the waiter that began last.
    last_ticket: AtomicU64,
    pub(crate) tokens: Tokens,
    pub(crate) lines: Arc<Lines<Hold>>,
    pub(crate) schedule: Arc<Schedule>,
    /// Grants that stay with the client while nobody holds them.
    pub(crate) idle: IdleGrants,
    pub(crate) seats: LastSeats,
    /// Holds that closing releases.
    pub(crate) released: Releasing,
    /// Number of holds that closing leaves locked for a while.
    pub(crate) kept: AtomicU64,
    /// Whether a hold that has ended left its names locked for a while. People look up its client's label then, also after
    /// the client is closed.
    pub(crate) leaves_locked: AtomicBool,
    /// Status of the masters for watchers, and whether the task that publishes it has been started.
    pub(super) published: watch::Sender<Status>,
    pub(super) is_watched: AtomicBool,
}

/// Holds that closing releases: for each the number of masters that have done so, and the number that is
/// needed.
#[derive(Debug, Default)]
pub(crate) struct Releasing(Mutex<Vec<(Arc<AtomicUsize>, usize)>>);

impl ClientCore {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        let schedule = Arc::new(Schedule::new(pool.config.drift_factor));
        let known = known(&pool, 0, 0);
        Self {
            next_field: AtomicU64::new(1),
            tokens: Tokens::default(),
            lines: Arc::new(Lines::new()),
            last_ticket: AtomicU64::new(0),
            idle: IdleGrants::new(Arc::clone(&pool), Arc::clone(&schedule)),
            seats: LastSeats::default(),
            pool,
            schedule,
            released: Releasing::default(),
            kept: AtomicU64::new(0),
            leaves_locked: AtomicBool::new(false),
            published: watch::Sender::new(known),
            is_watched: AtomicBool::new(false),
        }
    }

    /// Current status of the masters.
    pub(crate) fn status(&self) -> Status {
        known(&self.pool, self.schedule.survey().holds, self.idle.count())
    }

    /// The status, and a survey of the holds.
    pub(super) fn survey(&self) -> (Status, Survey) {
        let survey = Survey {
            idle: self.idle.count(),
            ..self.schedule.survey()
        };
        (known(&self.pool, survey.holds, survey.idle), survey)
    }

    /// Makes a field that no hold of any client ever had before.
    pub(crate) fn fresh_field(&self, letters: Letters) -> Field {
        Field {
            client: self.pool.id,
            number: self.next_field.fetch_add(1, Ordering::Relaxed),
            letters,
        }
    }

    /// Draws a ticket by the masters' clocks, after all that this client has drawn. `clock_us` is their
    /// median, so a single clock can mislead it only until the others outvote that clock.
    pub(crate) fn draw_ticket(&self, clock_us: u64) -> u64 {
        let draw = |last: u64| {
            let is_near = last <= clock_us.saturating_add(NEAR_US);
            Some(if is_near { clock_us.max(last + 1) } else { clock_us })
        };
        let drawn = self
            .last_ticket
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, draw);
        drawn.ok().and_then(draw).unwrap_or(clock_us)
    }

    /// Proposes a token for these names, at least `least_us`: above all known fences of the names, and above all
    /// fences that a master with a vote may have forgotten.
    pub(crate) fn propose_token(&self, names: &Names, clocks: &Clocks, least_us: u64) -> FencingToken {
        // Without a connected master the token is never used.
        let clock_us = clocks.median_us.unwrap_or_else(|| self.pool.clock.wall_us());
        self.tokens
            .propose(names, clock_us, clocks.floor_us.max(least_us))
    }
}

fn known(pool: &Pool, holds: usize, idle: usize) -> Status {
    Status {
        nodes: pool.slots.iter().map(|slot| slot.status(pool.clock)).collect(),
        holds,
        idle,
        waiters: pool.topics.waiters.len(),
        closed: pool.is_closed(),
    }
}

impl Releasing {
    /// Adds a hold that `off` masters do not have. Returns the counter of the masters that have released it.
    pub(crate) fn add(&self, off: usize, needed: usize) -> Arc<AtomicUsize> {
        let confirmed = Arc::new(AtomicUsize::new(off));
        let mut holds = self.0.lock();
        holds.push((Arc::clone(&confirmed), needed));
        confirmed
    }

    /// Number of holds that enough masters have released for their names to be free, and number of all.
    pub(crate) fn count(&self) -> (usize, usize) {
        let holds = self.0.lock();
        let is_free =
            |(confirmed, needed): &&(Arc<AtomicUsize>, usize)| confirmed.load(Ordering::Relaxed) >= *needed;
        (holds.iter().filter(is_free).count(), holds.len())
    }
}
