//! Hears the answers that come after a decision.
//!
//! Whoever asked has gone on, but the answers still tell what became of a hold on a master, and what
//! the master owes or is owed. They are gathered every few milliseconds, for all rounds at once: a
//! task for each round, woken by each answer, would cost more than the round.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use futures::future::FutureExt;
use redis::Value;
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::node::Fault;
use crate::round::{Forgotten, Round};

/// How often they are gathered.
const PERIOD: Duration = Duration::from_millis(4);

/// The rounds of a pool that nobody waits for any more.
#[derive(Debug, Default)]
pub(crate) struct Stragglers {
    left: Mutex<Left>,
    some: Notify,
}

#[derive(Debug, Default)]
struct Left {
    rounds: Vec<Rest>,
    /// Whether they are being gathered, so that nobody has to be told of more.
    gathering: bool,
    /// The runtime is gone, and every answer with it.
    over: bool,
}

/// What is left of a round.
pub(crate) struct Rest {
    pub(crate) round: Round,
    pub(crate) forgotten: Forgotten,
    /// Takes in each answer.
    pub(crate) note: Note,
    /// Closing waits for them.
    pub(crate) _under_way: TaskTrackerToken,
}

pub(crate) type Note = Box<dyn FnMut(usize, Result<Value, Fault>) + Send>;

impl Rest {
    /// Takes in what has come; whether more is to come.
    fn gather(&mut self) -> bool {
        let hearing = poll_fn(|cx| {
            while let Some((place, answer)) = ready!(self.round.poll_next(cx, self.forgotten)) {
                (self.note)(place, answer);
            }
            Poll::Ready(())
        });
        // No answer wakes anybody. Many rounds are looked at in one go, more than a task's budget.
        unconstrained(hearing).now_or_never().is_none()
    }
}

impl Stragglers {
    /// Leaves a round to be heard to its end.
    pub(crate) fn leave(&self, mut rest: Rest) {
        // The task that waited until now is not to be woken by what is still to come.
        if !rest.gather() {
            return;
        }
        let mut left = self.left();
        if left.over {
            // A round keeps its pool, and the pool would keep it.
            drop(left);
            return;
        }
        left.rounds.push(rest);
        if !std::mem::replace(&mut left.gathering, true) {
            drop(left);
            self.some.notify_one();
        }
    }

    /// Gathers, for ever.
    pub(crate) async fn gather(self: Arc<Self>) {
        let _end = End(&self);
        let mut rounds = Vec::new();
        loop {
            if rounds.is_empty() {
                self.some.notified().await;
            }
            sleep(PERIOD).await;
            rounds.append(&mut self.left().rounds);
            rounds.retain_mut(Rest::gather);
            let mut left = self.left();
            left.gathering = !rounds.is_empty() || !left.rounds.is_empty();
            if left.gathering {
                rounds.append(&mut left.rounds);
            }
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is gathered any more.
struct End<'a>(&'a Stragglers);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut left = self.0.left();
        left.over = true;
        let rounds = std::mem::take(&mut left.rounds);
        drop(left);
        drop(rounds);
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}
