//! Connections to all masters, and the data that all rounds share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use uuid::Uuid;

use crate::events::{Events, LogThrottle, NodeEvents};
use crate::masters::client_label;
use crate::masters::config::{Config, Rounds};
use crate::node::channels::Topics;
use crate::node::trust::membership::Membership;
use crate::node::{Endpoint, Keeper, KnownServers, Slot};
use crate::protocol::keys;
use crate::protocol::lease_timing::LeaseTiming;
use crate::protocol::node_set::NodeSet;
use crate::round::preference::Preference;
use crate::round::stragglers::Stragglers;
use crate::time::alarms::Deadlines;
use crate::time::clock::Clock;
use crate::time::random::Random;
use crate::time::steps::Steps;
use crate::time::until::until;
use crate::values::votes::{Vote, Votes};

/// Number of attempts under way above which a client counts as busy. With eight tasks a thrifty round gains little, with 64
/// a third of all pairs.
const BUSY: usize = 12;

/// Most jobs for which masters that do not have their mark are asked again at a time: each takes a task.
const MISSING_MARKS: usize = 256;

/// The masters of a client.
pub(crate) struct Pool {
    /// The client's half of every owner field.
    pub(crate) id: Uuid,
    /// Label of the client.
    pub(crate) label: Arc<str>,
    pub(crate) slots: Vec<Arc<Slot>>,
    /// Order in which names prefer the masters.
    pub(crate) preference: Preference,
    /// Number of attempts under way. Some of them may belong to futures that are not polled any more.
    pub(crate) attempts: AtomicUsize,
    pub(crate) events: Events,
    /// Throttle of the log.
    pub(crate) log_throttle: LogThrottle,
    /// Notified when the status of a master may have changed.
    pub(crate) changed: Arc<Notify>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) config: Config,
    pub(crate) lease_timing: LeaseTiming,
    pub(crate) clock: Clock,
    pub(crate) steps: Arc<Steps>,
    pub(crate) random: Arc<Random>,
    servers: Arc<KnownServers>,
    pub(crate) deadlines: Arc<Deadlines>,
    pub(crate) stragglers: Arc<Stragglers>,
    /// Cancelled by [`Masters::close`](crate::Masters::close).
    pub(crate) closing: CancellationToken,
    /// A permit for each job of which masters that do not have its mark are asked again.
    pub(crate) missing_marks: Arc<Semaphore>,
    /// Releases, stragglers and attempts in progress.
    pub(crate) tracker: TaskTracker,
    /// Notified when a master is connected, or its backlog has become small enough.
    pub(crate) recovered: Arc<Notify>,
    /// Runtime of background work, also after a drop outside the runtime.
    pub(crate) runtime: Handle,
    /// Tasks that keep the connections up, renew holds, and watch deadlines and the status; they end with the pool.
    background: Mutex<Vec<AbortOnDropHandle<()>>>,
}

/// Guard of a task on the pool's runtime: when the runtime ends and drops its tasks, the pool is closed.
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
        nodes: Vec<Box<dyn Endpoint>>,
        config: Config,
        clock: Clock,
        random: Random,
    ) -> Arc<Self> {
        let random = Arc::new(random);
        let runtime = Handle::current();
        let lease_timing = LeaseTiming::new(&config);
        let servers = Arc::new(KnownServers::new(nodes.len(), clock));
        let id = random.uuid();
        let label = client_label::text(config.client_label.as_deref());
        let topics = Arc::new(Topics::new(keys::calls(id)));
        let steps = Arc::new(Steps::new(nodes.len()));
        let (recovered, changed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let slots: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| {
                let events = NodeEvents::new(node.label(), Arc::clone(&changed));
                let slot = Slot::new(index, events, &recovered);
                Arc::new(slot)
            })
            .collect();
        let preference = Preference::new(slots.iter().map(|slot| &**slot.label()));
        let labels = slots.iter().map(|slot| slot.label());
        let membership = Arc::new(Membership::new(config.set(nodes.len()), labels));
        let keep = |(slot, node): (&Arc<Slot>, Box<dyn Endpoint>)| {
            let keeper = Keeper {
                slot: Arc::clone(slot),
                node,
                client: id,
                label: Arc::clone(&label),
                topics: Arc::clone(&topics),
                random: Arc::clone(&random),
                servers: Arc::clone(&servers),
                connect_timeout: config.connect_timeout,
                node_timeout: config.node_timeout,
                lease_timing,
                strict: config.strict,
                membership: Arc::clone(&membership),
                clock,
                steps: Arc::clone(&steps),
            };
            AbortOnDropHandle::new(runtime.spawn(keeper.keep()))
        };
        let background = slots.iter().zip(nodes).map(keep).collect();
        let pool = Arc::new(Self {
            id,
            label,
            slots,
            preference,
            attempts: AtomicUsize::new(0),
            events: Events::new(),
            log_throttle: LogThrottle::default(),
            changed,
            topics,
            config,
            lease_timing,
            clock,
            steps,
            random,
            servers,
            deadlines: Arc::new(Deadlines::new(runtime.id())),
            stragglers: Arc::default(),
            closing: CancellationToken::new(),
            missing_marks: Arc::new(Semaphore::new(MISSING_MARKS)),
            tracker: TaskTracker::new(),
            recovered,
            runtime,
            background: Mutex::new(background),
        });
        pool.keep_deadlines();
        pool.spawn(Arc::clone(&pool.stragglers).gather());
        pool
    }

    /// Whether the two pools have a server in common, as far as both are connected.
    pub(crate) fn shares_a_server(&self, other: &Self) -> bool {
        let theirs = other.servers.present();
        self.id == other.id
            || self
                .servers
                .present()
                .iter()
                .any(|server| theirs.contains(server))
    }

    fn keep_deadlines(&self) {
        let ending = Ending {
            closing: self.closing.clone(),
            tracker: self.tracker.clone(),
        };
        let deadlines = Arc::clone(&self.deadlines);
        self.spawn(async move {
            let _ending = ending;
            deadlines.keep().await;
        });
    }

    /// Starts a background task, and ties it to the life of the pool.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = AbortOnDropHandle::new(self.runtime.spawn(task));
        let mut background = self.background.lock();
        // A client may watch leaders again and again.
        background.retain(|task| !task.is_finished());
        background.push(task);
    }

    /// Lets no more work begin.
    pub(crate) fn end(&self) {
        self.tracker.close();
        self.closing.cancel();
    }

    /// Whether all background work has ended: with its runtime, or in [`stop`](Self::stop).
    pub(crate) fn has_ended(&self) -> bool {
        self.background.lock().iter().all(AbortOnDropHandle::is_finished)
    }

    /// Ends all background work, and with it every connection.
    pub(crate) async fn stop(&self) {
        let background = std::mem::take(&mut *self.background.lock());
        for task in &background {
            task.abort();
        }
        if Handle::try_current().is_ok() {
            // The tasks end at once, unless the runtime on which they run is not driven.
            let _ = timeout(self.config.node_timeout, join_all(background)).await;
        }
        for slot in &self.slots {
            slot.close();
        }
    }

    /// Time until the memory of enough masters for a quorum counts; `None` while too few are connected. A quarantine because of
    /// a clock is left out: a client that asks seldom takes more for a step.
    pub(crate) fn votes_within(&self, needed: usize) -> Option<Duration> {
        let now = Instant::now();
        let connected = self.slots.iter().filter_map(|slot| slot.link().ok());
        let mut remaining: Vec<_> = connected.map(|link| link.memory_quarantine(now)).collect();
        remaining.sort_unstable();
        remaining.get(needed.saturating_sub(1)).copied()
    }

    /// Waits until as many masters are connected as are needed.
    pub(crate) async fn wait_for_connections(&self, needed: usize) {
        until(&self.recovered, || self.votes_within(needed).map(drop)).await;
    }

    /// Waits until a quorum of masters has room in its backlog of releases, for the node timeout at most. So a
    /// caller that takes locks faster than they can be released is slowed down.
    pub(crate) async fn wait_for_backlog(&self, needed: usize) {
        let full = || self.slots.iter().filter(|slot| slot.is_full()).count();
        let spare = self.slots.len() - needed;
        // Outside of a runtime the caller cannot wait.
        if full() <= spare || Handle::try_current().is_err() {
            return;
        }
        let drained = until(&self.recovered, || (full() <= spare).then_some(()));
        let _ = timeout(self.config.node_timeout, drained).await;
    }

    /// All masters.
    pub(crate) fn all(&self) -> NodeSet {
        NodeSet::all(self.slots.len())
    }

    /// Whether first attempts ask only as many masters as are needed.
    pub(crate) fn is_thrifty(&self) -> bool {
        match self.config.rounds {
            Rounds::All => false,
            Rounds::Adaptive => self.attempts.load(Ordering::Relaxed) > BUSY,
            Rounds::Thrifty => true,
        }
    }

    /// Runs work that ends by itself soon. Closing waits for it.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(work, &self.runtime);
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Closed together with `closing`, and read without a lock.
        self.tracker.is_closed()
    }

    pub(crate) fn evidence(&self, votes: &[Vote]) -> Votes {
        Votes::new(self.slots.iter().map(|slot| slot.label()), votes)
    }
}
