//! Two sides with tasks that want the same lock over and over. Two are never inside at once, and each side has a
//! tally.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use multilock::{LockError, MultiLock, MultiLockGuard};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::foreign::Lock;
use super::locks::WITHIN;

const SECTION: Duration = Duration::from_millis(1);
/// Number of grants of both sides that show that they do not keep each other out.
const PROGRESS: usize = 20;

/// Notices when two are inside at once, by itself and not by the masters.
#[derive(Debug, Default)]
pub struct Witness {
    inside: AtomicBool,
    overlaps: AtomicUsize,
}

impl Witness {
    /// Is inside for as long as the section takes.
    pub async fn watch(&self, section: impl Future<Output = ()>) {
        let other = self.inside.swap(true, Ordering::SeqCst);
        section.await;
        let alone = self.inside.swap(false, Ordering::SeqCst);
        if other || !alone {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often two were inside.
    pub fn overlaps(&self) -> usize {
        self.overlaps.load(Ordering::SeqCst)
    }
}

/// Of which kind a contender is.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Ours,
    Theirs,
}

/// Grants and waits of a side.
#[derive(Clone, Debug)]
pub struct Tally {
    pub grants: usize,
    /// The longest stretch in which nobody of that side got in.
    pub standstill: Duration,
    /// Each as long as it lasted, also where the end cut it short.
    pub waits: Vec<Duration>,
    last: Instant,
}

impl Tally {
    fn new() -> Self {
        Self {
            grants: 0,
            standstill: Duration::ZERO,
            waits: Vec::new(),
            last: Instant::now(),
        }
    }

    /// Closes the stretch that is under way.
    fn close(&mut self) {
        let now = Instant::now();
        self.standstill = self.standstill.max(now - self.last);
        self.last = now;
    }
}

#[derive(Debug)]
struct Sides([Mutex<Tally>; 2]);

impl Sides {
    fn tally(&self, side: Side) -> MutexGuard<'_, Tally> {
        self.0[side as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that waits. Dropping it ends and counts the wait.
struct Waiting<'a> {
    sides: &'a Sides,
    side: Side,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.sides.tally(self.side).waits.push(self.since.elapsed());
    }
}

/// Our lock, as the others are used.
#[derive(Debug)]
pub struct Ours(pub MultiLock);

impl Lock for Ours {
    type Held = MultiLockGuard;

    async fn lock(&self, wait: Option<Duration>) -> Option<MultiLockGuard> {
        let lock = wait.map_or_else(|| self.0.clone(), |wait| self.0.clone().wait(wait));
        match lock.lock().await {
            Ok(guard) => Some(guard),
            Err(LockError::TimedOut { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn unlock(&self, held: MultiLockGuard) -> bool {
        held.unlock().await.is_ok()
    }
}

/// Tasks that want the same lock over and over. They end with it.
#[derive(Debug)]
pub struct Contest {
    witness: Arc<Witness>,
    sides: Arc<Sides>,
    tasks: JoinSet<()>,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            witness: Arc::default(),
            sides: Arc::new(Sides([Tally::new(), Tally::new()].map(Mutex::new))),
            tasks: JoinSet::new(),
        }
    }
}

impl Contest {
    /// Four tasks of one process of each side.
    pub fn four_and_four<L: Lock + 'static>(ours: &MultiLock, theirs: impl Fn() -> L) -> Self {
        let mut contest = Self::default();
        for _ in 0..4 {
            contest.enter(Side::Ours, Ours(ours.clone()));
            contest.enter(Side::Theirs, theirs());
        }
        contest
    }

    pub fn enter<L: Lock + 'static>(&mut self, side: Side, lock: L) {
        let (witness, sides) = (Arc::clone(&self.witness), Arc::clone(&self.sides));
        self.tasks.spawn(async move {
            loop {
                let waiting = Waiting {
                    sides: &sides,
                    side,
                    since: Instant::now(),
                };
                let held = lock.lock(None).await.expect("the lock in the end");
                drop(waiting);
                {
                    let mut tally = sides.tally(side);
                    tally.close();
                    tally.grants += 1;
                }
                witness.watch(sleep(SECTION)).await;
                assert!(lock.unlock(held).await, "held all the time");
            }
        });
    }

    /// Lets the tasks go on for at least `least`, until each of `sides` has `grants` grants, and both sides together
    /// have [`PROGRESS`]. Returns the tallies, ours first.
    pub async fn run(mut self, least: Duration, sides: &[Side], grants: usize) -> [Tally; 2] {
        let begun = Instant::now();
        let had = |side| self.sides.tally(side).grants;
        let enough = || {
            sides.iter().all(|&side| had(side) >= grants) && had(Side::Ours) + had(Side::Theirs) >= PROGRESS
        };
        while begun.elapsed() < least || !enough() {
            assert!(begun.elapsed() < least + WITHIN, "{:?}", self.sides);
            if let Ok(Some(ended)) = timeout(Duration::from_millis(100), self.tasks.join_next()).await {
                ended.expect("no rule was broken");
            }
        }
        self.tasks.shutdown().await;
        assert_eq!(self.witness.overlaps(), 0, "two were inside");
        [Side::Ours, Side::Theirs].map(|side| {
            let mut tally = self.sides.tally(side);
            tally.close();
            tally.clone()
        })
    }
}
