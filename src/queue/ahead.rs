//! State of the task in front of a line, for the tasks behind it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::LockError;
use crate::values::votes::Vote;

/// State of the task in front. A task behind it reports the state when its own time is over before its turn.
pub(crate) struct Ahead<A>(Mutex<Option<InFront<A>>>);

/// State of the task in front.
#[derive(Clone, Debug)]
pub(crate) enum InFront<A> {
    /// The task asks the masters for the first time.
    Asks(A),
    /// The task asks the masters, and this was their last refusal.
    Refused(Arc<LockError>),
    /// The task holds, or has held until a moment ago.
    Holds(Weak<dyn Holding>),
}

/// A hold, as the tasks behind it see it.
pub(crate) trait Holding: Send + Sync {
    /// Validity left; zero if it has ended.
    fn left(&self) -> Duration;

    /// Last vote of each master.
    fn votes(&self) -> Vec<Vote>;

    /// Takes in that a task has joined the line behind it.
    fn joined(&self);
}

impl<A: Clone> Ahead<A> {
    pub(super) fn new(in_front: InFront<A>) -> Self {
        Self(Mutex::new(Some(in_front)))
    }

    pub(super) fn set(&self, in_front: Option<InFront<A>>) {
        let before = std::mem::replace(&mut *self.0.lock(), in_front);
        // The old value may be large, so it is dropped outside of the mutex.
        drop(before);
    }

    /// Task in front, while it asks for the first time.
    pub(super) fn asks(&self) -> Option<A> {
        match &*self.0.lock() {
            Some(InFront::Asks(first)) => Some(first.clone()),
            _ => None,
        }
    }

    /// Notes that the task that asked for the first time is no longer in front.
    pub(super) fn end_asking(&self) {
        let mut in_front = self.0.lock();
        let asking = in_front.take_if(|in_front| matches!(in_front, InFront::Asks(_)));
        drop(in_front);
        // The old value may be large, so it is dropped outside of the mutex.
        drop(asking);
    }

    pub(super) fn get(&self) -> Option<InFront<A>> {
        self.0.lock().clone()
    }
}
