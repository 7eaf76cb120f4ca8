//! Receives the answers that come after a decision.
//!
//! The asker has gone on, but the answers still show the fate of a hold on a master, and which releases are
//! pending. An answer, or a deadline, puts its round on a list. The list is gone through every few
//! milliseconds, for all rounds at once. With a task for each round, woken by each answer, a pair of acquire and
//! release costs the client 7 % more instructions over five masters. A round without news costs nothing.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Interval at which the list is gone through, while there is news.
const PERIOD: Duration = Duration::from_millis(4);

/// Rounds of a pool that have no asker any more.
#[derive(Default)]
pub(crate) struct Stragglers {
    left: Mutex<DetachedRounds>,
    some: Notify,
}

#[derive(Default)]
struct DetachedRounds {
    entries: Vec<DetachedRound>,
    /// Entries without a round.
    free: Vec<usize>,
    /// Entries with news of their rounds.
    news: Vec<usize>,
    /// Whether a pass through the list is due, so that further news need not wake the task.
    gathering: bool,
    /// Whether the runtime has ended, and with it every answer.
    over: bool,
}

/// Place of a round. Places are used again, and with them their wakers.
struct DetachedRound {
    late_answers: Option<LateAnswers>,
    waker: Waker,
    /// Whether the round is among the news.
    listed: bool,
    /// Whether the place belongs to a round, which another thread may be polling at the moment.
    taken: bool,
}

/// Late answers of a round. Polled, it takes in the answers that have come, and it is ready when no more are
/// expected.
pub(crate) struct LateAnswers {
    gather: Box<Gather>,
    /// Closing waits for this token.
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

    /// Takes in the answers that have come. Returns whether more are to come, at which `waker` is woken.
    fn gather(&mut self, waker: &Waker) -> bool {
        // Many rounds are polled in one go, more than a task's budget allows.
        let gathering = std::pin::pin!(unconstrained(poll_fn(&mut self.gather)));
        gathering.poll(&mut Context::from_waker(waker)).is_pending()
    }
}

impl Stragglers {
    /// Adds the late answers of a detached round, to receive them here.
    pub(crate) fn add(self: &Arc<Self>, mut late_answers: LateAnswers) {
        let Some((index, waker)) = self.enter() else {
            // The round holds its pool, and the pool would hold the round.
            return;
        };
        // Polled with its own waker, so that later answers do not wake the task that has waited until now.
        let more = late_answers.gather(&waker);
        drop(self.put_back(index, late_answers, more));
    }

    /// Takes a place for a round, with the waker for its news; `None` if the runtime has ended.
    fn enter(self: &Arc<Self>) -> Option<(usize, Waker)> {
        let mut left = self.left.lock();
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

    /// Stores a round if more answers are to come; else returns it.
    fn put_back(&self, index: usize, late_answers: LateAnswers, more: bool) -> Option<LateAnswers> {
        let mut left = self.left.lock();
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
        let mut left = self.left.lock();
        let entry = left.entries.get_mut(index);
        // A round that is over may have had news.
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

    /// Runs for ever, and takes in answers.
    pub(crate) async fn gather(self: Arc<Self>) {
        let _end = End(&self);
        let mut listed = Vec::new();
        loop {
            self.some.notified().await;
            loop {
                sleep(PERIOD).await;
                std::mem::swap(&mut listed, &mut self.left.lock().news);
                for index in listed.drain(..) {
                    self.look(index);
                }
                let mut left = self.left.lock();
                left.gathering = !left.news.is_empty();
                if !left.gathering {
                    break;
                }
            }
        }
    }

    fn look(&self, index: usize) {
        let (late_answers, waker) = {
            let mut left = self.left.lock();
            let entry = &mut left.entries[index];
            entry.listed = false;
            (entry.late_answers.take(), entry.waker.clone())
        };
        match late_answers {
            Some(mut late_answers) => {
                let more = late_answers.gather(&waker);
                drop(self.put_back(index, late_answers, more));
            }
            // The round is being detached at this moment, or is over.
            None => self.list(index),
        }
    }
}

/// Waker that puts a round among the news.
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

/// Marks the end of all gathering.
struct End<'a>(&'a Stragglers);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut left = self.0.left.lock();
        left.over = true;
        let entries = std::mem::take(&mut left.entries);
        drop(left);
        drop(entries);
    }
}
