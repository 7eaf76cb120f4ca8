//! Hears the answers that come after a decision.
//!
//! Whoever asked has gone on, but the answers still tell what became of a hold on a master, and what
//! the master owes or is owed. An answer, or a deadline, puts its round on a list that is gone through
//! every few milliseconds, for all rounds at once: a task for each round, woken by each answer, would cost
//! more than the round. A round without news costs nothing.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How often the list is gone through, for as long as there is news.
const PERIOD: Duration = Duration::from_millis(4);

/// The rounds of a pool that nobody waits for any more.
#[derive(Debug, Default)]
pub(crate) struct Stragglers {
    left: Mutex<DetachedRounds>,
    some: Notify,
}

#[derive(Debug, Default)]
struct DetachedRounds {
    entries: Vec<DetachedRound>,
    /// Entries without a round.
    free: Vec<usize>,
    /// Entries of whose rounds there is news.
    news: Vec<usize>,
    /// Whether the list is to be gone through, so that nobody has to be told of more.
    gathering: bool,
    /// The runtime is gone, and every answer with it.
    over: bool,
}

/// Where a round is kept. Entries are used again, and with them their wakers.
#[derive(Debug)]
struct DetachedRound {
    late_answers: Option<LateAnswers>,
    waker: Waker,
    /// Whether it is among the news.
    listed: bool,
    /// Whether it belongs to a round, which may be looked at elsewhere at the moment.
    taken: bool,
}

/// Late answers of a round. Polled, it takes in the answers that have come, and it is ready when no more are
/// expected.
pub(crate) struct LateAnswers {
    gather: Box<Gather>,
    /// Closing waits for them.
    _under_way: TaskTrackerToken,
}

type Gather = dyn FnMut(&mut Context<'_>) -> Poll<()> + Send;

impl LateAnswers {
    pub(crate) fn new(
        under_way: TaskTrackerToken,
        gather: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static,
    ) -> Self {
        Self {
            gather: Box::new(gather),
            _under_way: under_way,
        }
    }

    /// Takes in what has come; whether more is to come, of which `waker` is told.
    fn gather(&mut self, waker: &Waker) -> bool {
        // Many rounds are looked at in one go, more than a task's budget.
        let hearing = std::pin::pin!(unconstrained(poll_fn(&mut self.gather)));
        hearing.poll(&mut Context::from_waker(waker)).is_pending()
    }
}

impl Stragglers {
    /// Leaves a round to be heard to its end.
    pub(crate) fn leave(self: &Arc<Self>, mut late_answers: LateAnswers) {
        let Some((index, waker)) = self.enter() else {
            // A round keeps its pool, and the pool would keep it.
            return;
        };
        // The task that waited until now is not to be woken by what is still to come.
        let more = late_answers.gather(&waker);
        drop(self.put_back(index, late_answers, more));
    }

    /// An entry for a round, and what tells of news of it; none where the runtime is gone.
    fn enter(self: &Arc<Self>) -> Option<(usize, Waker)> {
        let mut left = self.left();
        if left.over {
            return None;
        }
        let index = left.free.pop().unwrap_or_else(|| {
            let index = left.entries.len();
            let stragglers = Arc::downgrade(self);
            left.entries.push(DetachedRound {
                late_answers: None,
                waker: Waker::from(Arc::new(News { stragglers, index })),
                listed: false,
                taken: false,
            });
            index
        });
        let entry = &mut left.entries[index];
        entry.taken = true;
        Some((index, entry.waker.clone()))
    }

    /// Keeps a round of which more is to come; else gives it back.
    fn put_back(&self, index: usize, late_answers: LateAnswers, more: bool) -> Option<LateAnswers> {
        let mut left = self.left();
        if left.over {
            return Some(late_answers);
        }
        if more {
            left.entries[index].late_answers = Some(late_answers);
            return None;
        }
        left.entries[index].taken = false;
        left.free.push(index);
        Some(late_answers)
    }

    fn list(&self, index: usize) {
        let mut left = self.left();
        let entry = left.entries.get_mut(index);
        // One that is over may have had news that nobody waits for.
        let Some(entry) = entry.filter(|entry| entry.taken && !entry.listed) else {
            return;
        };
        entry.listed = true;
        left.news.push(index);
        if !std::mem::replace(&mut left.gathering, true) {
            drop(left);
            self.some.notify_one();
        }
    }

    /// Gathers, for ever.
    pub(crate) async fn gather(self: Arc<Self>) {
        let _end = End(&self);
        let mut listed = Vec::new();
        loop {
            self.some.notified().await;
            loop {
                sleep(PERIOD).await;
                std::mem::swap(&mut listed, &mut self.left().news);
                for index in listed.drain(..) {
                    self.look(index);
                }
                let mut left = self.left();
                left.gathering = !left.news.is_empty();
                if !left.gathering {
                    break;
                }
            }
        }
    }

    fn look(&self, index: usize) {
        let (late_answers, waker) = {
            let mut left = self.left();
            let entry = &mut left.entries[index];
            entry.listed = false;
            (entry.late_answers.take(), entry.waker.clone())
        };
        match late_answers {
            Some(mut late_answers) => {
                let more = late_answers.gather(&waker);
                drop(self.put_back(index, late_answers, more));
            }
            // It is being left at this moment; or it is over.
            None => self.list(index),
        }
    }

    fn left(&self) -> MutexGuard<'_, DetachedRounds> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells that there is news of a round.
struct News {
    stragglers: Weak<Stragglers>,
    index: usize,
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(stragglers) = self.stragglers.upgrade() {
            stragglers.list(self.index);
        }
    }
}

/// Nothing is gathered any more.
struct End<'a>(&'a Stragglers);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut left = self.0.left();
        left.over = true;
        let entries = std::mem::take(&mut left.entries);
        drop(left);
        drop(entries);
    }
}

impl fmt::Debug for LateAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateAnswers").finish_non_exhaustive()
    }
}
