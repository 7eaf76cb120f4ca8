//! Release wherever an acquire may have landed.
//!
//! A release is never given up half-way. Whoever starts one may be dropped at any moment; the rest
//! goes on in the background with its own deadline, and a master that cannot be told then is told
//! after it has been reconnected.

use std::sync::Arc;

use redis::Value;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::fence::FencingToken;
use crate::field::Field;
use crate::masters::Pool;
use crate::name::Names;
use crate::node::Fault;
use crate::queue::Crowd;
use crate::reply::parse_released;
use crate::request::Request;
use crate::round::{Forgotten, Round, Trust};
use crate::script::{self, Fence};
use crate::vote::Vote;

/// What is to be released.
#[derive(Clone, Debug)]
pub(crate) struct Debris {
    pub(crate) names: Names,
    pub(crate) field: Field,
    /// The hold's token; none for an attempt that has not got one.
    pub(crate) token: FencingToken,
}

/// A release under way. Dropped, it carries on in the background.
pub(crate) struct Release {
    round: Option<Round>,
    books: Books,
}

/// Who owes what if it cannot be delivered.
#[derive(Clone)]
struct Books {
    pool: Arc<Pool>,
    request: Arc<Request>,
    crowd: Option<Crowd>,
}

impl Release {
    /// Sends the release to the masters whose place `asked` accepts; `crowd` learns whether anybody
    /// listened.
    pub(crate) fn begin(
        pool: &Arc<Pool>,
        debris: &Debris,
        notify: bool,
        crowd: Option<Crowd>,
        asked: impl Fn(usize) -> bool,
    ) -> Self {
        let fence = Fence {
            token: debris.token,
            retention: pool.config.fence_retention,
        };
        let request = script::release(&debris.names, &debris.field.text(), notify, fence);
        Self {
            round: Some(Round::begin(pool, &request, Trust::All, asked)),
            books: Books {
                pool: Arc::clone(pool),
                request,
                crowd,
            },
        }
    }

    /// So many masters have to release it.
    pub(crate) fn worth(mut self, masters: usize) -> Self {
        self.round = self.round.take().map(|round| round.worth(masters));
        self
    }

    /// The next master's vote: *granted* where everything was released.
    pub(crate) async fn next(&mut self) -> Option<(usize, Vote)> {
        let (place, answer) = self.round.as_mut()?.next().await?;
        Some((place, self.books.enter(place, answer)))
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(crowd) = self.books.crowd.clone()
            && let Some(time) = crowd.lingers()
        {
            self.books.pool.runtime.spawn(async move {
                tokio::time::sleep(time).await;
                drop(crowd);
            });
        }
        if let Some(round) = self.round.take() {
            let books = self.books.clone();
            let note = move |place, answer| {
                books.enter(place, answer);
            };
            round.leave(Forgotten::SentAgain, Box::new(note));
        }
    }
}

impl Books {
    fn enter(&self, place: usize, answer: Result<Value, Fault>) -> Vote {
        let fault = match answer {
            Ok(value) => match parse_released(&value) {
                Some(released) => {
                    if let Some(crowd) = &self.crowd {
                        crowd.heard_by(released.listeners);
                    }
                    return if released.all {
                        Vote::Granted
                    } else {
                        Vote::NotHeld
                    };
                }
                None => Fault::Unknown(format!("unexpected answer to release: {value:?}").into()),
            },
            Err(fault) => fault,
        };
        self.pool.slots[place].owe(Arc::clone(&self.request));
        fault.vote()
    }
}

/// An acquisition in progress: made before the first await, and unless it is settled by then,
/// whatever ends it rolls it back.
pub(crate) struct Attempt {
    pool: Arc<Pool>,
    debris: Debris,
    /// Without so many masters there is no quorum: N − Q + 1.
    blocking: usize,
    pub(crate) votes: Vec<Vote>,
    settled: bool,
    /// Closing waits for the outcome.
    _under_way: TaskTrackerToken,
}

impl Attempt {
    pub(crate) fn new(pool: &Arc<Pool>, debris: Debris, blocking: usize) -> Self {
        Self {
            pool: Arc::clone(pool),
            debris,
            blocking,
            votes: vec![Vote::Pending; pool.slots.len()],
            settled: false,
            _under_way: pool.tracker.token(),
        }
    }

    /// The attempt has become a hold: nothing is to be rolled back.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let touched = self.votes.iter().filter(|vote| vote.may_have_granted()).count();
        if touched == 0 {
            return;
        }
        // A waiter that met this attempt on so many masters took it for a holder and must be woken.
        // Always waking would set off a storm of contenders that wake each other.
        let notify = touched >= self.blocking;
        let votes = &self.votes;
        let asked = |place: usize| votes[place].may_have_granted();
        // Dropped at once, so it is carried on in the background.
        drop(Release::begin(&self.pool, &self.debris, notify, None, asked));
    }
}
