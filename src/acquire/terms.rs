//! What an acquisition is to do.

use std::sync::Arc;
use std::time::Duration;

use crate::guard::MultiLockGuard;
use crate::hold::Hold;
use crate::hold::client::Client;
use crate::names::Names;
use crate::owner::{Owner, Standing};
use crate::policy::Policy;
use crate::queue::Wanted;
use crate::time::clock::Moment;

/// The checked options of an acquisition.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) client: Arc<Client>,
    pub(crate) names: Names,
    pub(crate) policy: Policy,
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    /// Whether the hold is renewed while its guard lives: the call site set no lease.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) fenced: bool,
    pub(crate) min_validity: Duration,
    /// `None` for one that nobody else can be.
    pub(crate) owner: Option<Owner>,
    /// Strictly by ticket.
    pub(crate) fair: bool,
}

impl Terms {
    /// So many masters together can refuse.
    pub(super) fn blocking(&self) -> usize {
        self.client.pool.slots.len() + 1 - self.needed
    }

    /// The line of this process in which it waits.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            names: self.names.clone(),
            needed: self.needed,
            lease: self.lease,
            min_validity: self.min_validity,
            fenced: self.fenced,
            fair: self.fair,
        }
    }

    /// Where its owner stands now with the names.
    pub(crate) fn standing(&self) -> Standing {
        self.owner.as_ref().map_or(Standing::Outside, |owner| {
            owner.standing(self.client.id, &self.names, self.client.pool.clock.now())
        })
    }

    /// Enters a hold, if at `now` it has more validity left than is wanted; else gives it back.
    pub(crate) fn enter(&self, hold: Arc<Hold>, now: Moment) -> Result<MultiLockGuard, Arc<Hold>> {
        let owner = self.owner.as_ref();
        MultiLockGuard::enter(&self.client, hold, owner, now, self.min_validity, self.renew)
    }
}
