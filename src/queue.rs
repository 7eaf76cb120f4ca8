//! One contender per process and name.
//!
//! Tasks of one process that want the same names stand in a line; only its head asks the masters. The
//! turn stays with whoever holds, so behind a local holder nobody asks at all; when it releases, the
//! next in line asks over the same connections, right behind the release.
//!
//! That would let one process keep a name for ever. So a line counts how often it passed a name on
//! among its own tasks, and when others are listening for a release it steps back after
//! [`MOST_IN_A_ROW`] and waits until its turn comes again (see [`rota`](crate::rota)).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::listening::{Heard, Listening};
use crate::name::Names;
use crate::rota::Rota;

/// Grants that a process may pass on to its own tasks while another process waits.
const MOST_IN_A_ROW: u32 = 2;

/// The shortest time left to others.
const STEP_BACK: Duration = Duration::from_millis(5);

/// The lines of one process.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Each with how many stand in it.
    lines: Mutex<HashMap<Names, (Arc<Line>, usize)>>,
}

#[derive(Debug)]
struct Line {
    names: Names,
    /// One permit; first come, first served.
    turn: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Shared by all who stand in line, one after the other.
    listening: Option<Arc<Listening>>,
    in_a_row: u32,
    rota: Rota,
    /// What had been heard when the last turn was over.
    since: Option<Heard>,
    /// Of the last attempt.
    round_trip: Duration,
    /// Whether somebody else listened to the last release, by what is known of it so far, and to the
    /// one before it.
    others_wait: bool,
    others_waited: bool,
    /// Processes that listened to the last release, or had the names; and those of the one before it.
    sharers: u32,
    shared: u32,
}

impl State {
    fn others_wait(&self) -> bool {
        self.others_wait || self.others_waited
    }

    /// The turn goes to others.
    fn pass(&mut self) {
        let turn = std::mem::take(&mut self.in_a_row);
        if turn > 0 {
            self.since = self.listening.as_ref().map(|listening| listening.heard());
            let sharers = self.sharers.max(self.shared);
            self.rota.pass(turn, sharers, self.patience());
        }
    }

    /// The time in which somebody who hears of a release surely asks.
    fn patience(&self) -> Duration {
        STEP_BACK.max(self.round_trip * 4)
    }
}

/// A place in a line. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct Place {
    lines: Arc<Lines>,
    line: Arc<Line>,
}

/// The head of a line. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn {
    place: Place,
}

impl Lines {
    /// Joins the end of the line for `names`.
    pub(crate) fn join(self: &Arc<Self>, names: &Names) -> Place {
        let mut lines = self.lines();
        let (line, standing) = lines
            .entry(names.clone())
            .or_insert_with(|| (Arc::new(Line::new(names.clone())), 0));
        *standing += 1;
        Place {
            lines: Arc::clone(self),
            line: Arc::clone(line),
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Names, (Arc<Line>, usize)>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The turn, if nobody is ahead.
    pub(crate) fn try_turn(self) -> Result<Turn, Self> {
        // Given back by the turn.
        let first = self.line.turn.try_acquire().map(SemaphorePermit::forget);
        if first.is_ok() {
            Ok(Turn { place: self })
        } else {
            Err(self)
        }
    }

    /// Waits until everybody ahead has had the turn.
    pub(crate) async fn turn(self) -> Turn {
        match self.line.turn.acquire().await {
            // Given back by the turn.
            Ok(permit) => permit.forget(),
            // A semaphore that nobody closes does not fail.
            Err(_) => std::future::pending().await,
        }
        Turn { place: self }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.lines.lines();
        let Some((_, standing)) = lines.get_mut(&self.line.names) else {
            return;
        };
        *standing -= 1;
        let empty = (*standing == 0).then(|| lines.remove(&self.line.names));
        // What a line listened with takes locks of its own when it falls.
        drop(lines);
        drop(empty);
    }
}

impl Turn {
    /// What the line listens with, if it does.
    pub(crate) fn listening(&self) -> Option<Arc<Listening>> {
        self.state().listening.clone()
    }

    pub(crate) fn listen_with(&self, listening: Arc<Listening>) {
        self.state().listening = Some(listening);
    }

    /// Whether this process has had the names so often in a row that others come first.
    pub(crate) fn must_step_back(&self) -> bool {
        let mut state = self.state();
        let others_first = state.others_wait() && state.in_a_row >= MOST_IN_A_ROW;
        if others_first {
            state.pass();
        }
        others_first
    }

    /// The time that was left to others has run out.
    pub(crate) fn waited(&self) {
        self.state().rota.waited();
    }

    /// What had been heard when this process last had the names.
    pub(crate) fn waits_since(&self, listening: &Listening) -> Heard {
        let mut state = self.state();
        state.since.get_or_insert_with(|| listening.heard()).clone()
    }

    /// So many releases were heard since: how long to leave the names to others.
    pub(crate) fn heard(&self, releases: u64) -> Duration {
        self.state().rota.heard(releases, Instant::now())
    }

    /// An attempt took so long.
    pub(crate) fn note_round_trip(&self, round_trip: Duration) {
        self.state().round_trip = round_trip;
    }

    /// The names were had.
    pub(crate) fn granted(&self) {
        let mut state = self.state();
        state.in_a_row += 1;
        state.since = None;
        state.rota.granted();
    }

    /// Others have them.
    pub(crate) fn refused(&self) {
        let mut state = self.state();
        state.pass();
        state.rota.refused();
    }

    /// For the release, which learns whether others wait.
    pub(crate) fn crowd(&self) -> Crowd {
        let mut state = self.state();
        state.others_waited = std::mem::take(&mut state.others_wait);
        state.shared = std::mem::take(&mut state.sharers);
        drop(state);
        Crowd(Arc::new(self.place.lines.join(&self.place.line.names)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.place.line.state()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the place is left, so that the next in line still finds the line.
        self.place.line.turn.add_permits(1);
    }
}

/// Tells a line whether others wait for its names. It keeps the line, and with it the count, for as
/// long as the release is under way: a task that takes the names again at once meets it.
#[derive(Clone, Debug)]
pub(crate) struct Crowd(Arc<Place>);

impl Crowd {
    /// For how long the count is worth keeping after the release, if others wait: a task that takes
    /// the names again within that time is in their way.
    pub(crate) fn lingers(&self) -> Option<Duration> {
        let state = self.0.line.state();
        state.others_wait().then(|| state.patience())
    }

    /// So many connections heard of the release on one master.
    pub(crate) fn heard_by(&self, listeners: usize) {
        let mut state = self.0.line.state();
        let ours = usize::from(state.listening.is_some());
        state.others_wait |= listeners > ours;
        let sharers = u32::try_from(listeners + 1 - ours).unwrap_or(u32::MAX);
        state.sharers = state.sharers.max(sharers);
    }
}

impl Line {
    fn new(names: Names) -> Self {
        Self {
            names,
            turn: Semaphore::new(1),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
