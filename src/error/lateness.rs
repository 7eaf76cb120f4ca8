//! Masters that are up, and answer too late.

use std::fmt;
use std::time::Duration;

use crate::time::rounded::Rounded;
use crate::values::votes::{Vote, Votes};

/// Votes that failed only because of the node timeout: the masters are up, or may be, and answer later.
pub(super) struct Lateness {
    within: Duration,
    /// Longest round trip of a late answer, if there was one.
    took: Option<Duration>,
    /// Whether no master answered in time.
    all: bool,
}

impl Lateness {
    /// Lateness of these votes. `None` if there is, or may be, another cause: some masters answered, and the
    /// others have never answered at all.
    pub(super) fn of(votes: &Votes) -> Option<Self> {
        let (mut deadline, mut longest, mut all) = (None, None, true);
        for node in votes {
            match &node.vote {
                Vote::Late { within, took } => {
                    deadline = Some(*within);
                    longest = longest.max(*took);
                }
                Vote::Granted
                | Vote::Refused { .. }
                | Vote::NotHeld
                | Vote::Revoked { .. }
                | Vote::Pending
                | Vote::NotAsked => {
                    all = false;
                }
                Vote::NotSent { .. }
                | Vote::Unknown { .. }
                | Vote::Failed { .. }
                | Vote::Quarantined { .. } => return None,
            }
        }
        let late = Self {
            within: deadline?,
            took: longest,
            all,
        };
        (all || longest.is_some()).then_some(late)
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.all {
            "no master answers"
        } else {
            "too few masters answer"
        };
        let within = Rounded(self.within);
        match self.took {
            Some(took) => write!(
                f,
                "{who} in time: answers took up to {}, and are awaited for {within}; set \
                 MastersBuilder::node_timeout to more than they take",
                Rounded(took)
            ),
            None => write!(
                f,
                "{who} in time, which is within {within}; where they are up but that far away, set \
                 MastersBuilder::node_timeout to more than they take"
            ),
        }
    }
}
