//! One contender per client and set of names.
//!
//! Tasks of one process that want the same names stand in a queue; only its head asks the masters. The
//! turn stays with whoever holds, so behind a local holder nobody asks at all; when it releases, the
//! next one asks over the same connections, right behind the release.
//!
//! That would let one process keep a name for ever. So a queue counts how often it passed a name on
//! among its own tasks, and when others are listening for a release it steps back after
//! [`MOST_IN_A_ROW`] and waits until its turn comes again (see [`turns`](crate::queue::turns)).

pub(crate) mod subscription;
mod turns;

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::names::Names;
use crate::queue::subscription::{NoticeCounts, Subscription};
use crate::queue::turns::Rota;

/// Grants that a process may pass on to its own tasks while another process waits.
const MOST_IN_A_ROW: u32 = 2;

/// The shortest time left to others, and the longest: a round may have been long by accident.
const STEP_BACK: Duration = Duration::from_millis(5);
const LONGEST_STEP_BACK: Duration = Duration::from_millis(500);

/// The queues of one process.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: Mutex<HashSet<QueueByNames>>,
}

/// A queue where it is found by its names, which are not kept twice: a process may have very many.
#[derive(Debug)]
struct QueueByNames(Arc<Queue>);

impl Borrow<Names> for QueueByNames {
    fn borrow(&self) -> &Names {
        &self.0.names
    }
}

impl Hash for QueueByNames {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.names.hash(state);
    }
}

impl PartialEq for QueueByNames {
    fn eq(&self, other: &Self) -> bool {
        self.0.names == other.0.names
    }
}

impl Eq for QueueByNames {}

#[derive(Debug)]
struct Queue {
    names: Names,
    /// How many stand in it; changed by whoever has the queues locked.
    standing: AtomicUsize,
    /// One permit; first come, first served.
    turn: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    in_a_row: u32,
    /// Made when the first of another process is met: most queues never meet one, and a process may have
    /// very many queues.
    sharing: Option<Box<Sharing>>,
}

/// What a queue knows of other processes.
#[derive(Debug, Default)]
struct Sharing {
    /// Shared by all who stand in it, one after the other.
    subscription: Option<Arc<Subscription>>,
    rota: Rota,
    /// What had been heard when the last turn was over.
    since: Option<NoticeCounts>,
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
    fn sharing(&mut self) -> &mut Sharing {
        self.sharing.get_or_insert_default()
    }

    /// The turn goes to others; whether this process's own last release has been heard.
    fn pass(&mut self, release_heard: bool) {
        let turn = std::mem::take(&mut self.in_a_row);
        if let Some(sharing) = self.sharing.as_mut().filter(|_| turn > 0) {
            sharing.since = sharing
                .subscription
                .as_ref()
                .map(|subscription| subscription.heard());
            let sharers = sharing.sharers.max(sharing.shared);
            let patience = sharing.patience();
            sharing.rota.pass(turn, sharers, patience, release_heard);
        }
    }
}

impl Sharing {
    fn others_wait(&self) -> bool {
        self.others_wait || self.others_waited
    }

    /// The time in which somebody who hears of a release surely asks.
    fn patience(&self) -> Duration {
        (self.round_trip * 4).clamp(STEP_BACK, LONGEST_STEP_BACK)
    }
}

/// One that stands in a queue. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct Waiter {
    queues: Arc<Queues>,
    queue: Arc<Queue>,
}

/// The head of a queue. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn {
    waiter: Waiter,
}

impl Queues {
    /// Joins the end of the queue for `names`.
    pub(crate) fn join(self: &Arc<Self>, names: &Names) -> Waiter {
        let mut queues = self.queues();
        let queue = if let Some(QueueByNames(queue)) = queues.get(names) {
            Arc::clone(queue)
        } else {
            let queue = Arc::new(Queue::new(names.clone()));
            queues.insert(QueueByNames(Arc::clone(&queue)));
            queue
        };
        queue.standing.fetch_add(1, Ordering::Relaxed);
        Waiter {
            queues: Arc::clone(self),
            queue,
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashSet<QueueByNames>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// The turn, if nobody is ahead.
    pub(crate) fn try_turn(self) -> Result<Turn, Self> {
        // Given back by the turn.
        let first = self.queue.turn.try_acquire().map(SemaphorePermit::forget);
        if first.is_ok() {
            Ok(Turn { waiter: self })
        } else {
            Err(self)
        }
    }

    /// Waits until everybody ahead has had the turn.
    pub(crate) async fn turn(self) -> Turn {
        match self.queue.turn.acquire().await {
            // Given back by the turn.
            Ok(permit) => permit.forget(),
            // A semaphore that nobody closes does not fail.
            Err(_) => std::future::pending().await,
        }
        Turn { waiter: self }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut queues = self.queues.queues();
        let last = self.queue.standing.fetch_sub(1, Ordering::Relaxed) == 1;
        let empty = last.then(|| queues.take(&self.queue.names));
        // What a queue listened with takes locks of its own when it falls.
        drop(queues);
        drop(empty);
    }
}

impl Turn {
    /// What the queue listens with, if it does.
    pub(crate) fn subscription(&self) -> Option<Arc<Subscription>> {
        self.state().sharing.as_ref()?.subscription.clone()
    }

    pub(crate) fn listen_with(&self, subscription: Arc<Subscription>) {
        let mut state = self.state();
        let sharing = state.sharing();
        // A turn may have been passed on before there was anything to hear with.
        sharing.since.get_or_insert_with(|| subscription.heard());
        sharing.subscription = Some(subscription);
    }

    /// Whether this process has had the names so often in a row that others come first.
    pub(crate) fn must_step_back(&self) -> bool {
        let mut state = self.state();
        let others_wait = state
            .sharing
            .as_ref()
            .is_some_and(|sharing| sharing.others_wait());
        let others_first = others_wait && state.in_a_row >= MOST_IN_A_ROW;
        if others_first {
            // It was sent just now.
            state.pass(false);
        }
        others_first
    }

    /// The time in which somebody who hears of a release surely asks.
    pub(crate) fn patience(&self) -> Duration {
        self.state().sharing().patience()
    }

    /// The time that was left to others has run out.
    pub(crate) fn waited(&self) {
        self.state().sharing().rota.waited();
    }

    /// What had been heard when this process last had the names.
    pub(crate) fn waits_since(&self, subscription: &Subscription) -> NoticeCounts {
        let mut state = self.state();
        let since = state.sharing().since.get_or_insert_with(|| subscription.heard());
        since.clone()
    }

    /// So many releases were heard since: how long to leave the names to others.
    pub(crate) fn heard(&self, releases: u64) -> Duration {
        self.state().sharing().rota.heard(releases, Instant::now())
    }

    /// The names were had. That took so long.
    pub(crate) fn granted(&self, round_trip: Duration) {
        let mut state = self.state();
        state.in_a_row += 1;
        if let Some(sharing) = &mut state.sharing {
            sharing.round_trip = round_trip;
            sharing.since = None;
            sharing.rota.granted();
        }
    }

    /// Others have them. To learn so took so long.
    pub(crate) fn refused(&self, round_trip: Duration) {
        let mut state = self.state();
        state.sharing().round_trip = round_trip;
        // It came before the refusal.
        state.pass(true);
        state.sharing().rota.refused();
    }

    /// For the release, which learns whether others wait.
    pub(crate) fn crowd(&self) -> Crowd {
        if let Some(sharing) = &mut self.state().sharing {
            sharing.others_waited = std::mem::take(&mut sharing.others_wait);
            sharing.shared = std::mem::take(&mut sharing.sharers);
        }
        Crowd(Arc::new(self.waiter.queues.join(&self.waiter.queue.names)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.waiter.queue.state()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the queue is left, so that the next one still finds the queue.
        self.waiter.queue.turn.add_permits(1);
    }
}

/// Tells a queue whether others wait for its names. It keeps the queue, and with it the count, for as
/// long as the release is under way: a task that takes the names again at once meets it.
#[derive(Clone, Debug)]
pub(crate) struct Crowd(Arc<Waiter>);

impl Crowd {
    /// For how long the count is worth keeping after the release, if others wait: a task that takes
    /// the names again within that time is in their way.
    pub(crate) fn lingers(&self) -> Option<Duration> {
        let state = self.0.queue.state();
        let sharing = state.sharing.as_ref().filter(|sharing| sharing.others_wait())?;
        Some(sharing.patience())
    }

    /// So many connections heard of the release on one master.
    pub(crate) fn heard_by(&self, listeners: usize) {
        if listeners == 0 {
            return;
        }
        let mut state = self.0.queue.state();
        let sharing = state.sharing();
        let ours = usize::from(sharing.subscription.is_some());
        sharing.others_wait |= listeners > ours;
        let sharers = u32::try_from(listeners + 1 - ours).unwrap_or(u32::MAX);
        sharing.sharers = sharing.sharers.max(sharers);
    }
}

impl Queue {
    fn new(names: Names) -> Self {
        Self {
            names,
            standing: AtomicUsize::new(0),
            turn: Semaphore::new(1),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
