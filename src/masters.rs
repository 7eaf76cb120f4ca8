//! The N masters and what every round, guard and background task shares.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use uuid::Uuid;

use crate::closing::Releasing;
use crate::config::Config;
use crate::error::Unchartered;
use crate::hold::schedule::Watchdog;
use crate::node::channels::Topics;
use crate::node::trust::membership::Membership;
use crate::node::{Keeping, Node, Roster, Slot};
use crate::protocol::calls::{Memory, Terms};
use crate::protocol::field::Field;
use crate::protocol::reckoning::Reckoning;
use crate::queue::Lines;
use crate::queue::subscription::Ears;
use crate::round::late::Stragglers;
use crate::time::alarms::Deadlines;
use crate::time::clock::Clock;
use crate::time::random::Chance;
use crate::time::steps::Steps;
use crate::token::{FencingToken, Tokens};
use crate::votes::{Vote, Votes};

/// N independent Redis masters, their connections and their background work.
///
/// One per process: cheap to clone, one connection per master, shared by every lock. Made by
/// [`Masters::builder`] or [`Masters::from_env`]. When the last clone and the last guard are gone,
/// every connection is closed and no task is left.
///
/// # Runtimes
///
/// Connections and renewals live on the tokio runtime in which `connect` was awaited, and need it to be
/// driven. Locks and guards may be used on any other: each call ends by its own deadline there, whatever
/// the first runtime does. A runtime has to have its timer enabled.
///
/// Once the first runtime has ended, its connections are gone: every verb of a lock answers
/// [`LockError::Closed`](crate::LockError::Closed), waiters included, and what was held lasts until its
/// lease ends. So do not share `Masters` among tests that have a runtime each, as `#[tokio::test]` gives
/// them: connect in each of them, or keep one runtime in a `static` and `block_on` it in plain tests.
///
/// Awaited outside of any runtime nothing can be waited for: a call ends with
/// [`LockError::Unreachable`](crate::LockError::Unreachable), or the like of its own error, whose votes
/// say so. A guard may be dropped anywhere.
#[derive(Clone)]
pub struct Masters {
    pub(crate) pool: Arc<Pool>,
}

impl Masters {
    /// The number of masters, reachable or not.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.pool.slots.len()
    }
}

impl fmt::Debug for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.pool.slots.iter().map(|slot| slot.label()))
            .finish()
    }
}

/// The shared part of [`Masters`].
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) slots: Vec<Arc<Slot>>,
    pub(crate) ears: Arc<Ears>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) config: Config,
    pub(crate) reckoning: Arc<Reckoning>,
    pub(crate) clock: Clock,
    pub(crate) steps: Arc<Steps>,
    pub(crate) chance: Arc<Chance>,
    /// This client's half of every owner field.
    pub(crate) client: Uuid,
    next_field: AtomicU64,
    pub(crate) tokens: Tokens,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) stragglers: Arc<Stragglers>,
    /// Cancelled by [`Masters::close`].
    pub(crate) closing: CancellationToken,
    /// Releases, stragglers and attempts under way.
    pub(crate) tracker: TaskTracker,
    /// Rings when a master is no longer owed too much.
    relieved: Arc<Notify>,
    /// The holds that closing releases.
    pub(crate) released: Releasing,
    /// Where background work goes, also from a drop outside the runtime.
    pub(crate) runtime: Handle,
    /// What keeps the connections up and the holds alive; ends with the pool.
    background: Mutex<Vec<AbortOnDropHandle<()>>>,
}

/// Belongs to a task on the pool's runtime: when that one ends and drops its tasks, the pool is closed.
struct Ending {
    closing: CancellationToken,
    tracker: TaskTracker,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.tracker.close();
        self.closing.cancel();
    }
}

impl Pool {
    /// Starts connecting to every master in the background. Needs a tokio runtime.
    pub(crate) fn start(
        nodes: Vec<Box<dyn Node>>,
        config: Config,
        clock: Clock,
        chance: Chance,
    ) -> Arc<Self> {
        let chance = Arc::new(chance);
        let runtime = Handle::current();
        let reckoning = Arc::new(Reckoning::new(&config, nodes.len()));
        let roster = Arc::new(Roster::new(nodes.len()));
        let membership = Arc::new(Membership::new(nodes.len()));
        let topics = Arc::new(Topics::new(nodes.len()));
        let steps = Arc::new(Steps::new(nodes.len()));
        let relieved = Arc::new(Notify::new());
        let labels = nodes.iter().map(|node| node.label()).enumerate();
        let slots: Vec<_> = labels
            .map(|(place, label)| Arc::new(Slot::new(place, label, config.fence_retention, &relieved)))
            .collect();
        let mut background: Vec<_> = slots
            .iter()
            .zip(nodes)
            .map(|(slot, node)| {
                let keeping = Keeping {
                    node,
                    topics: Arc::clone(&topics),
                    chance: Arc::clone(&chance),
                    roster: Arc::clone(&roster),
                    connect_timeout: config.connect_timeout,
                    node_timeout: config.node_timeout,
                    reckoning: Arc::clone(&reckoning),
                    membership: Arc::clone(&membership),
                    clock,
                    steps: Arc::clone(&steps),
                };
                AbortOnDropHandle::new(runtime.spawn(Arc::clone(slot).keep(keeping)))
            })
            .collect();
        let (closing, tracker) = (CancellationToken::new(), TaskTracker::new());
        let ending = Ending {
            closing: closing.clone(),
            tracker: tracker.clone(),
        };
        let deadlines = Arc::new(Deadlines::new(runtime.id()));
        let keeping = Arc::clone(&deadlines);
        background.push(AbortOnDropHandle::new(runtime.spawn(async move {
            let _ending = ending;
            keeping.keep().await;
        })));
        let stragglers = Arc::new(Stragglers::default());
        background.push(AbortOnDropHandle::new(
            runtime.spawn(Arc::clone(&stragglers).gather()),
        ));
        let ears = Ears {
            slots: slots.clone(),
            topics,
            runtime: runtime.clone(),
            node_timeout: config.node_timeout,
        };
        Arc::new(Self {
            slots,
            ears: Arc::new(ears),
            lines: Arc::default(),
            watchdog: Arc::new(Watchdog::new()),
            config,
            reckoning,
            clock,
            steps,
            client: chance.uuid(),
            chance,
            next_field: AtomicU64::new(1),
            tokens: Tokens::default(),
            deadlines,
            stragglers,
            closing,
            tracker,
            relieved,
            released: Releasing::default(),
            runtime,
            background: Mutex::new(background),
        })
    }

    /// Ties a background task to the life of the pool.
    pub(crate) fn keep(&self, task: AbortOnDropHandle<()>) {
        self.background
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
    }

    /// Ends all background work, and with it every connection.
    pub(crate) async fn stop(&self) {
        let background = std::mem::take(&mut *self.background.lock().unwrap_or_else(PoisonError::into_inner));
        for task in &background {
            task.abort();
        }
        // At once, unless nobody drives the runtime on which they are.
        let _ = timeout(self.config.node_timeout, join_all(background)).await;
        for slot in &self.slots {
            slot.close();
        }
    }

    /// Waits while so many masters are owed so many releases that no quorum of the others is left, at most
    /// the node deadline: whoever takes locks faster than they can be released is slowed down.
    pub(crate) async fn relief(&self, needed: usize) {
        let full = || self.slots.iter().filter(|slot| slot.is_full()).count();
        let spare = self.slots.len() - needed;
        // Outside of a runtime nothing can be waited for.
        if full() <= spare || Handle::try_current().is_err() {
            return;
        }
        let _ = timeout(self.config.node_timeout, async {
            loop {
                let mut relieved = pin!(self.relieved.notified());
                relieved.as_mut().enable();
                if full() <= spare {
                    return;
                }
                relieved.await;
            }
        })
        .await;
    }

    /// A field that no hold of any client ever had before.
    pub(crate) fn fresh_field(&self) -> Field {
        Field {
            client: self.client,
            number: self.next_field.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A token above all that this client knows of, and all that a master with a vote may have
    /// forgotten.
    pub(crate) fn propose_token(&self) -> FencingToken {
        let now = Instant::now();
        let voting = self
            .slots
            .iter()
            .filter_map(|slot| slot.link().ok())
            .filter(|link| link.quarantine(now).is_zero());
        let floor = voting
            .map(|link| link.floor().saturating_add(1))
            .max()
            .unwrap_or(0);
        FencingToken(self.tokens.propose(floor.max(self.clock.wall_us())))
    }

    /// What this client tells with everything that counts in a vote.
    pub(crate) fn terms(&self) -> Terms {
        let memory = if self.config.strict {
            Memory::Marked
        } else {
            Memory::Unmarked
        };
        Terms {
            memory,
            reckoned: self.reckoning.told(),
        }
    }

    /// Refuses a lease that not every master is known to have agreed to.
    pub(crate) fn chartered(&self, lease: Duration) -> Result<(), Unchartered> {
        if self.reckoning.allows(lease) {
            return Ok(());
        }
        let places = self.slots.iter().enumerate();
        let unconfirmed = places.filter(|(place, _)| !self.reckoning.is_confirmed(*place, lease));
        Err(Unchartered {
            lease,
            unconfirmed: unconfirmed.map(|(_, slot)| Arc::clone(slot.label())).collect(),
        })
    }

    /// Goes on with something that ends by itself soon, and that closing waits for.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(work, &self.runtime);
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Closed together with `closing`, and asked without a lock.
        self.tracker.is_closed()
    }

    pub(crate) fn evidence(&self, votes: &[Vote]) -> Votes {
        Votes::new(self.slots.iter().map(|slot| slot.label()), votes)
    }
}
