//! Masters with faults, and two clients, for a future that is dropped after each number of polls.

use std::time::Duration;

use futures::future::select_all;
use multilock::sim::{Cluster, Master};
use multilock::{Exclusive, LockError, Masters, MastersBuilder, Mode, MultiLock, MultiLockGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{ms, polled, queues, woken};

pub(super) const NODE_TIMEOUT: Duration = ms(50);

/// Behaviour of a master while the future is polled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// Each request and each reply takes 10 ms.
    Slow,
    /// Requests are executed at once, and replies come after the node timeout.
    LateReply,
    /// Requests are executed after the node timeout.
    LateRequest,
    /// The next request is executed and never answered.
    LostReply,
    /// The connection ends after the next request was executed.
    Reset,
    /// Requests are answered with an error.
    Error,
    /// Nothing is executed.
    Frozen,
    /// The master has forgotten the scripts.
    Forgetful,
}

impl Fault {
    pub(super) fn arrange(self, master: &Master) {
        match self {
            Self::None => {}
            Self::Slow => master.set_delay(ms(10), ms(10)),
            Self::LateReply => master.set_delay(Duration::ZERO, ms(70)),
            Self::LateRequest => master.set_delay(ms(70), Duration::ZERO),
            Self::LostReply => master.lose_replies(1),
            Self::Reset => master.reset_at_next_request(),
            Self::Error => master.answer_with(Some("BUSY Redis is busy running a script")),
            Self::Frozen => master.freeze(),
            Self::Forgetful => master.flush_scripts(),
        }
    }
}

/// Ends the faults of a master.
pub(super) fn undo(master: &Master) {
    master.answer_with(None);
    master.set_delay(Duration::ZERO, Duration::ZERO);
    master.thaw();
    master.lose_replies(0);
}

use Fault::{Error, Forgetful, Frozen, LateReply, LateRequest, LostReply, None as Fine, Reset, Slow};

/// A majority of the masters answers in time.
pub(super) const WITH_MAJORITY: [[Fault; 3]; 8] = [
    [Fine; 3],
    [Forgetful; 3],
    [LateReply, Slow, Fine],
    [Fine, LateRequest, Fine],
    [LostReply, Fine, Slow],
    [Fine, Reset, Slow],
    [Error, Slow, Fine],
    [Fine, Slow, Frozen],
];

/// No majority answers in time, and some masters that grant do not tell.
pub(super) const WITHOUT_MAJORITY: [[Fault; 3]; 4] = [
    [Fine, LostReply, LostReply],
    [LateReply, LateReply, Slow],
    [LateRequest, Fine, LostReply],
    [Frozen, Slow, LostReply],
];

/// Time within which others have a lock after it was given up, while a majority answers.
pub(super) const PROMPT: Duration = ms(100);
/// The same after an outage: a waiter asks again after 5 s, if messages to it were lost.
pub(super) const AFTER_OUTAGE: Duration = ms(5100);

pub(super) fn all_faults() -> impl Iterator<Item = [Fault; 3]> {
    WITH_MAJORITY.into_iter().chain(WITHOUT_MAJORITY)
}

/// Whether a majority answers in time while the faults last.
pub(super) fn has_majority(faults: [Fault; 3]) -> bool {
    !WITHOUT_MAJORITY.contains(&faults)
}

/// Drops a future that is not done by then: at each odd step after one poll more, and at the even step behind it when the
/// future is woken after that poll.
pub(super) async fn stepped<F: Future>(future: F, step: usize) -> Option<F::Output> {
    let polls = step.div_ceil(2);
    if step % 2 == 1 {
        polled(future, polls).await
    } else {
        woken(future, polls).await
    }
}

pub(super) fn builder() -> MastersBuilder {
    Masters::builder().node_timeout(NODE_TIMEOUT)
}

/// Three masters, the client that drops, and another client.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    pub(super) own: Masters,
    pub(super) other: Masters,
    pub(super) faults: [Fault; 3],
}

impl Scene {
    pub(super) async fn new(faults: [Fault; 3]) -> Self {
        let cluster = Cluster::new(3);
        Self {
            own: cluster.connect(builder()).await.expect("connects"),
            other: cluster.connect(builder()).await.expect("connects"),
            cluster,
            faults,
        }
    }

    pub(super) fn arrange(&self) {
        for (fault, master) in self.faults.iter().zip(self.cluster.iter()) {
            fault.arrange(master);
        }
    }

    pub(super) fn undo(&self) {
        self.cluster.iter().for_each(undo);
    }

    /// Ends the faults if no majority answers in time. Returns the time within which others have the lock then.
    pub(super) fn bound(&self) -> Duration {
        if has_majority(self.faults) {
            return PROMPT;
        }
        self.undo();
        AFTER_OUTAGE
    }

    /// Nothing is left on any master soon after its faults have ended: pending releases are sent again after pauses.
    pub(super) async fn is_clean_soon(&self, what: &str) {
        // Time to connect again.
        sleep(ms(200)).await;
        let until = Instant::now() + ms(2000);
        while !self.is_clean() && Instant::now() < until {
            sleep(ms(50)).await;
        }
        for (node, master) in self.cluster.iter().enumerate() {
            assert_eq!(master.locks(), Vec::<String>::new(), "{what}: master {node}");
        }
        assert_eq!(queues(&self.cluster), 0, "{what}");
    }

    fn is_clean(&self) -> bool {
        self.cluster.iter().all(|master| master.locks().is_empty())
    }
}

/// A task that waits for a lock.
pub(super) type Waiter<M = Exclusive> = JoinHandle<Result<MultiLockGuard<M>, LockError>>;

/// Begins to wait for a lock, once the caller awaits something.
pub(super) fn waiter<M: Mode + Send + Sync + 'static>(lock: MultiLock<M>) -> Waiter<M> {
    tokio::spawn(async move { lock.lock().await })
}

/// A waiter has its lock within this time.
pub(super) async fn granted<M>(waiter: Waiter<M>, within: Duration, what: &str) -> MultiLockGuard<M> {
    next_granted(&mut vec![waiter], within, what).await
}

/// One of these waiters has its lock within this time, and is no longer among them.
pub(super) async fn next_granted<M>(
    waiters: &mut Vec<Waiter<M>>,
    within: Duration,
    what: &str,
) -> MultiLockGuard<M> {
    let granted = timeout(within, select_all(waiters.drain(..))).await;
    let (granted, _, others) = granted.unwrap_or_else(|_| panic!("{what}: the waiters are stuck"));
    *waiters = others;
    granted.expect("no panic").expect("granted")
}

/// Nobody of these has the lock.
pub(super) fn assert_waiting<M>(waiters: &[Waiter<M>], what: &str) {
    let is_waiting = |waiter: &Waiter<M>| !waiter.is_finished();
    assert!(waiters.iter().all(is_waiting), "{what}: another is let in");
}

/// Somebody gets a lock that was given up.
pub(super) async fn goes_to(lock: &MultiLock, within: Duration, what: &str) {
    let granted = timeout(within, lock.lock()).await;
    let granted = granted.unwrap_or_else(|_| panic!("{what}: nobody else has the lock"));
    drop(granted.expect("granted"));
}

/// Drops a call after 0, 1, 2 … polls, until it is done by itself. Returns the number of polls.
pub(super) async fn everywhere(mut dropped: impl AsyncFnMut(usize) -> bool) -> usize {
    let mut polls = 0;
    while !dropped(polls).await {
        polls += 1;
        assert!(polls < 100, "never done");
    }
    polls
}

/// Drops a call at each step in a scene with each of the faults. Returns the number of steps.
///
/// A wait without a majority ends no earlier than the faults, so it is not dropped after more than `most_steps`.
pub(super) async fn with_all_faults(
    most_steps: usize,
    mut dropped: impl AsyncFnMut(&Scene, usize) -> bool,
) -> usize {
    let mut steps = 0;
    for faults in all_faults() {
        let scene = Scene::new(faults).await;
        if has_majority(faults) {
            steps += everywhere(async |step| dropped(&scene, step).await).await;
            continue;
        }
        for step in 0..most_steps {
            if dropped(&scene, step).await {
                break;
            }
            steps += 1;
        }
    }
    steps
}
