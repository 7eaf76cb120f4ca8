//! What keeps the tasks of a line waiting: what is known of the task in front.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::error::LockError;
use crate::values::votes::Vote;

/// What those behind are told of the task in front of their line, when their time is over before their turn comes.
#[derive(Debug)]
pub(crate) struct Ahead<A>(Mutex<Option<InFront<A>>>);

/// What the task in front has come to.
#[derive(Clone, Debug)]
pub(crate) enum InFront<A> {
    /// It asks the masters for the first time.
    Asks(A),
    /// It asks the masters, which refused it last for this reason.
    Refused(Arc<LockError>),
    /// It holds, or has held until a moment ago.
    Holds(Weak<dyn Holding>),
}

/// A hold, as far as those behind it are told of it.
pub(crate) trait Holding: fmt::Debug + Send + Sync {
    /// Validity that is left; zero where it has ended.
    fn left(&self) -> Duration;

    /// What every master answered to it last.
    fn votes(&self) -> Vec<Vote>;
}

impl<A: Clone> Ahead<A> {
    pub(super) fn new(in_front: InFront<A>) -> Self {
        Self(Mutex::new(Some(in_front)))
    }

    pub(super) fn set(&self, in_front: Option<InFront<A>>) {
        let before = std::mem::replace(
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner),
            in_front,
        );
        // What falls may be large.
        drop(before);
    }

    /// The one in front, while it asks for the first time.
    pub(super) fn asks(&self) -> Option<A> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(InFront::Asks(first)) => Some(first.clone()),
            _ => None,
        }
    }

    /// The one that asked for the first time is in front no longer.
    pub(super) fn end_asking(&self) {
        let mut in_front = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asking = in_front.take_if(|in_front| matches!(in_front, InFront::Asks(_)));
        drop(in_front);
        // What falls may be large.
        drop(asking);
    }

    pub(super) fn get(&self) -> Option<InFront<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
