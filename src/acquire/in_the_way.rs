//! Obstacle of a wait, for the error after its time is over and for the log.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::acquire::request::AcquireRequest;
use crate::error::LockError;
use crate::node::Slot;
use crate::queue::InFront;
use crate::round::pool::Pool;
use crate::values::votes::Vote;

/// Obstacle of a waiter: the last refusal by the masters; else the task of this process in front of it; else the
/// masters that have not answered yet.
pub(crate) fn in_the_way(request: &AcquireRequest, last_refusal: Option<&LockError>) -> LockError {
    if let Some(last_refusal) = last_refusal {
        return last_refusal.clone();
    }
    match request.client.lines.in_front(&request.options) {
        Some(InFront::Refused(why)) => (*why).clone(),
        Some(InFront::Holds(hold)) => {
            let hold = hold.upgrade();
            let left = hold.as_ref().map_or(Duration::ZERO, |hold| hold.left());
            let votes = hold.map_or_else(|| unanswered(&request.client.pool), |hold| hold.votes());
            of_this_process(request, left, &votes)
        }
        Some(InFront::Asks(_)) | None => LockError::Unreachable {
            votes: request.client.pool.evidence(&unanswered(&request.client.pool)),
        },
    }
}

/// Refusal because a task of this process holds. If its hold has just ended, the next task is about to get
/// it.
fn of_this_process(request: &AcquireRequest, left: Duration, votes: &[Vote]) -> LockError {
    let pool = &request.client.pool;
    let about = request
        .caption
        .as_ref()
        .and_then(|caption| caption.about.as_deref());
    LockError::Contended {
        holder: Some(Arc::clone(&pool.label)),
        // All tasks of a line have one caption.
        about: about.map(|about| Arc::new(about.to_owned())),
        retry_after: if left.is_zero() {
            pool.config.node_timeout
        } else {
            left
        },
        votes: pool.evidence(votes),
    }
}

/// Votes of the masters before any of them has answered.
fn unanswered(pool: &Pool) -> Vec<Vote> {
    let now = Instant::now();
    let vote = |slot: &Arc<Slot>| match slot.link() {
        Err(fault) => fault.vote(),
        Ok(link) => match link.quarantine(now) {
            Duration::ZERO => Vote::Pending,
            remaining => Vote::Quarantined { remaining },
        },
    };
    pool.slots.iter().map(vote).collect()
}
