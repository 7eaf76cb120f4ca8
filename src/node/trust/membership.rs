//! Which set each master belongs to, as the number of masters that the clients of that set list.
//!
//! Two lists of different length have quorums that need not meet. So every master stores the number, and
//! one that tells another number than this client's own list is not used: it belongs to others. Where a
//! quorum of the list tells this client's number, the odd one was taken over from elsewhere, and is told.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::policy::Policy;

/// What the masters have told.
#[derive(Debug)]
pub(crate) struct Membership {
    told: Mutex<Vec<Option<usize>>>,
    news: Notify,
}

/// Where a master belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belonging {
    /// To this client's list, as far as it has told.
    Here,
    /// It tells another number, and a quorum of the list tells this client's.
    Odd(usize),
    /// To a set of so many, as no quorum of the list can be had without.
    Elsewhere(usize),
    /// It tells that it is one of so many, and too few others have told anything yet.
    Unclear(usize),
}

impl Membership {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            told: Mutex::new(vec![None; nodes]),
            news: Notify::new(),
        }
    }

    /// The length of this client's list.
    pub(crate) fn listed(&self) -> usize {
        self.lock().len()
    }

    /// Takes in of how many masters one says that it is.
    pub(crate) fn told(&self, node: usize, masters: usize) {
        self.lock()[node] = Some(masters);
        self.news.notify_waiters();
    }

    pub(crate) fn of(&self, node: usize) -> Belonging {
        let told = self.lock();
        let listed = told.len();
        let Some(masters) = told[node].filter(|masters| *masters != listed) else {
            return Belonging::Here;
        };
        let count = |number: Option<usize>| told.iter().filter(|told| **told == number).count();
        let (own, silent) = (count(Some(listed)), count(None));
        let needed = Policy::RedLock.needed(listed);
        if own >= needed {
            Belonging::Odd(masters)
        } else if own + silent < needed {
            Belonging::Elsewhere(masters)
        } else {
            Belonging::Unclear(masters)
        }
    }

    /// Resolves when a master has told, from the moment it is enabled.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<usize>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_decides_where_a_master_belongs() {
        let three = Membership::new(3);
        assert_eq!(three.of(0), Belonging::Here, "it has not told");
        three.told(0, 5);
        assert_eq!(three.of(0), Belonging::Unclear(5));
        three.told(1, 3);
        assert_eq!(
            (three.of(0), three.of(1)),
            (Belonging::Unclear(5), Belonging::Here)
        );
        three.told(2, 3);
        assert_eq!(three.of(0), Belonging::Odd(5));
        three.told(2, 5);
        assert_eq!(three.of(0), Belonging::Elsewhere(5));
        assert_eq!(three.of(2), Belonging::Elsewhere(5));
    }
}
