//! Who holds.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use uuid::Uuid;

use crate::hold::Hold;
use crate::name::Names;

/// An actor of this process that may hold locks: a request, a job, a session.
///
/// Without one, every acquisition has an owner of its own and nothing is ever entered twice by
/// accident. To enter a lock again, make one `Owner` per actor and pass it down. Clones are the same
/// owner; two different owners exclude each other inside one process as well.
///
/// The masters never see an `Owner`: what they store is a fresh field for every hold, so that
/// nothing late can touch a newer hold.
#[derive(Clone, Default)]
pub struct Owner {
    /// Weak, so that an owner that outlives its guards keeps nothing alive.
    holds: Arc<Mutex<Vec<Weak<Hold>>>>,
}

/// What an owner already has of the names it asks for.
#[derive(Debug)]
pub(crate) enum Standing {
    /// None of them.
    Outside,
    /// All of them, in one hold.
    Inside(Arc<Hold>),
    /// Some, or all but in several holds.
    Overlapping(Names),
}

impl Owner {
    /// A new owner, different from every other.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where this owner stands with `names` on the masters of `client`. Lapsed holds do not count.
    pub(crate) fn standing(&self, client: Uuid, names: &Names) -> Standing {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.retain(|hold| hold.strong_count() > 0);
        let touching = holds
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|hold| hold.client == client && hold.names.overlaps(names))
            .find(|hold| !hold.remaining().is_zero());
        match touching {
            None => Standing::Outside,
            Some(hold) if hold.names.contains_all(names) => Standing::Inside(hold),
            Some(hold) => Standing::Overlapping(hold.names.clone()),
        }
    }

    pub(crate) fn remember(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.push(Arc::downgrade(hold));
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.holds, &other.holds)
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:p})", Arc::as_ptr(&self.holds))
    }
}
