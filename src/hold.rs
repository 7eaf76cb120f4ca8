//! A hold: what one successful acquisition gave, shared by every guard that entered it.
//!
//! The count of a hold belongs to the client. Entering again and leaving an inner guard change it
//! here and nowhere else, so nothing that is late or lost on the network can miscount.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::clock::{Clock, Moment};
use crate::name::Names;
use crate::validity::Validity;
use crate::vote::Vote;

/// One acquisition's hold on its names.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) client: Uuid,
    pub(crate) names: Names,
    /// The hash field that stands for this hold on the masters. Never used again for another one.
    pub(crate) field: Arc<str>,
    /// Grants that the hold needs to be one.
    pub(crate) needed: usize,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    validity: Validity,
    lease: Duration,
    count: u64,
    votes: Vec<Vote>,
    /// Where something of it may be kept, by what the masters answered to the acquire.
    touched: Vec<bool>,
    /// The last guard has left or the hold was taken away: validity is zero whatever the clock says.
    ended: bool,
}

/// What leaving a hold left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Other guards are still in; this many.
    Inside(u64),
    /// That was the last one.
    Last,
}

/// The parts of a new hold.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) client: Uuid,
    pub(crate) names: Names,
    pub(crate) field: Arc<str>,
    pub(crate) needed: usize,
    pub(crate) validity: Validity,
    pub(crate) lease: Duration,
    pub(crate) votes: Vec<Vote>,
}

impl Hold {
    pub(crate) fn new(clock: Clock, granted: Granted) -> Self {
        Self {
            client: granted.client,
            names: granted.names,
            field: granted.field,
            needed: granted.needed,
            clock,
            state: Mutex::new(State {
                validity: granted.validity,
                lease: granted.lease,
                count: 1,
                touched: granted.votes.iter().map(Vote::may_have_granted).collect(),
                votes: granted.votes,
                ended: false,
            }),
        }
    }

    /// Validity left; zero when the hold is lost or given up.
    pub(crate) fn remaining(&self) -> Duration {
        self.state().remaining(self.clock.now())
    }

    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    pub(crate) fn lease(&self) -> Duration {
        self.state().lease
    }

    pub(crate) fn votes(&self) -> Vec<Vote> {
        self.state().votes.clone()
    }

    /// Whether a master may keep something for this hold: it granted, or nobody can tell.
    pub(crate) fn may_be_on(&self, node: usize) -> bool {
        self.state().touched.get(node).copied().unwrap_or(true)
    }

    /// Notes what a master answered after the outcome was certain.
    pub(crate) fn note_vote(&self, node: usize, vote: Vote) {
        if let Some(slot) = self.state().votes.get_mut(node) {
            *slot = vote;
        }
    }

    /// Enters once more, if more than `min_validity` is left.
    pub(crate) fn enter(&self, min_validity: Duration) -> bool {
        let mut state = self.state();
        let valid = state.remaining(self.clock.now()) > min_validity;
        if valid {
            state.count += 1;
        }
        valid
    }

    /// Leaves once. The last to leave ends the validity before anything is sent.
    pub(crate) fn leave(&self) -> Left {
        let mut state = self.state();
        state.count = state.count.saturating_sub(1);
        if state.count > 0 {
            return Left::Inside(state.count);
        }
        state.ended = true;
        Left::Last
    }

    /// Ends the validity before its time: the masters serve somebody else.
    pub(crate) fn lose(&self) {
        self.state().ended = true;
    }

    /// Takes over the validity of a confirmed extension, unless the old one had already ended: a
    /// lapse is terminal.
    pub(crate) fn prolong(&self, validity: Validity, lease: Duration) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        if state.remaining(now).is_zero() {
            return false;
        }
        state.validity = state.validity.later(validity, now);
        state.lease = state.lease.max(lease);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remaining(&self, now: Moment) -> Duration {
        if self.ended {
            Duration::ZERO
        } else {
            self.validity.remaining(now)
        }
    }
}
