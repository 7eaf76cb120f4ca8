//! The N masters, as a service has them.

use std::fmt;
use std::sync::Arc;

use crate::hold::client::Client;

/// N independent Redis masters, their connections and their background work.
///
/// One per process: cheap to clone, one connection per master, shared by every lock. Made by
/// [`Masters::builder`] or [`Masters::from_env`]. When the last clone and the last guard are gone,
/// every connection is closed and no task is left.
///
/// # Runtimes
///
/// Connections and renewals live on the tokio runtime in which `connect` was awaited, and need it to be
/// driven. Locks and guards may be used on any other: each call ends by its own deadline there, whatever
/// the first runtime does. A runtime has to have its timer enabled.
///
/// Once the first runtime has ended, its connections are gone: every verb of a lock answers
/// [`LockError::Closed`](crate::LockError::Closed), waiters included, and what was held lasts until its
/// lease ends. So do not share `Masters` among tests that have a runtime each, as `#[tokio::test]` gives
/// them: connect in each of them, or keep one runtime in a `static` and `block_on` it in plain tests.
///
/// Awaited outside of any runtime nothing can be waited for: a call ends with
/// [`LockError::Unreachable`](crate::LockError::Unreachable), or the like of its own error, whose votes
/// say so. A guard may be dropped anywhere.
#[derive(Clone)]
pub struct Masters {
    pub(crate) client: Arc<Client>,
}

impl Masters {
    /// The number of masters, reachable or not.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one")]
    pub fn len(&self) -> usize {
        self.client.pool.slots.len()
    }
}

impl fmt::Debug for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.client.pool.slots.iter().map(|slot| slot.label()))
            .finish()
    }
}
