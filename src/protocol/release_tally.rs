//! Count of a release's votes: pure, and certain as early as it can be.

use crate::values::policy::Policy;
use crate::values::votes::Vote;

/// End of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Enough masters have released the hold.
    Confirmed,
    /// Another holder may have had a quorum of the masters that had lost the hold.
    Gone,
    /// Too few masters have answered.
    Unconfirmed,
}

/// Counts votes until the end of the release can no longer change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleaseTally {
    needed: usize,
    /// Number of masters that may lack a hold before another holder may have had a quorum.
    spare: usize,
    /// Whether the names stay locked for a while. A master that has lost the hold does not keep them locked.
    keeps: bool,
    pending: usize,
    released: usize,
    gone: usize,
}

impl ReleaseTally {
    /// Counts the votes for a hold. At most `touched` of the masters have a field of it.
    pub(crate) fn new(nodes: usize, touched: usize, needed: usize, keeps: bool) -> Self {
        Self {
            needed,
            spare: Policy::smallest_quorum(nodes) - 1,
            keeps,
            pending: touched,
            released: 0,
            gone: nodes - touched,
        }
    }

    pub(crate) fn count(&mut self, vote: &Vote) {
        self.pending -= 1;
        self.released += usize::from(*vote == Vote::Granted);
        self.gone += usize::from(*vote == Vote::NotHeld);
    }

    /// A master that has lost the hold counts as released, because its names are free, unless the names are to stay
    /// locked.
    fn is_done(self) -> bool {
        self.released + if self.keeps { 0 } else { self.gone } >= self.needed
    }

    /// Whether the votes that are still to come cannot change the end.
    pub(crate) fn is_certain(self) -> bool {
        self.gone > self.spare || self.is_done() && self.gone + self.pending <= self.spare
    }

    /// End by the votes until now.
    pub(crate) fn ended(self) -> Ended {
        if self.gone > self.spare {
            Ended::Gone
        } else if self.is_done() {
            Ended::Confirmed
        } else {
            Ended::Unconfirmed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knowledge after each vote: the end of the release, once it is certain.
    fn outcomes(mut tally: ReleaseTally, votes: &[Vote]) -> Vec<Option<Ended>> {
        let after = |vote: &Vote| {
            tally.count(vote);
            tally.is_certain().then(|| tally.ended())
        };
        votes.iter().map(after).collect()
    }

    const SILENT: Vote = Vote::Pending;

    #[test]
    fn a_quorum_confirms_where_no_vote_to_come_can_show_that_it_was_lost() {
        use Vote::{Granted, NotHeld};
        let three = ReleaseTally::new(3, 3, 2, false);
        assert_eq!(
            outcomes(three, &[Granted, Granted]),
            [None, Some(Ended::Confirmed)]
        );
        // One master has lost the hold, and another may turn out to have lost it.
        assert_eq!(
            outcomes(three, &[NotHeld, Granted, Granted]),
            [None, None, Some(Ended::Confirmed)]
        );
        assert_eq!(outcomes(three, &[NotHeld, NotHeld]), [None, Some(Ended::Gone)]);
        assert_eq!(outcomes(three, &[Granted, SILENT, SILENT]), [None; 3]);
    }

    #[test]
    fn a_master_that_was_never_granted_has_nothing_of_it() {
        use Vote::{Granted, NotHeld};
        let two_of_three = ReleaseTally::new(3, 2, 2, false);
        assert_eq!(outcomes(two_of_three, &[NotHeld]), [Some(Ended::Gone)]);
        assert_eq!(
            outcomes(two_of_three, &[Granted, Granted]),
            [None, Some(Ended::Confirmed)]
        );
    }

    #[test]
    fn what_is_gone_keeps_nothing() {
        use Vote::{Granted, NotHeld};
        let three = ReleaseTally::new(3, 3, 2, true);
        assert_eq!(
            outcomes(three, &[NotHeld, Granted, SILENT]),
            [None; 3],
            "one keeps, and a quorum has to"
        );
        let free = ReleaseTally::new(3, 3, 2, false);
        assert_eq!(
            outcomes(free, &[NotHeld, Granted, SILENT]),
            [None, None, Some(Ended::Confirmed)]
        );
    }

    #[test]
    fn what_ends_before_it_is_certain_goes_by_the_votes_until_then() {
        let mut tally = ReleaseTally::new(5, 5, 3, false);
        assert_eq!(tally.ended(), Ended::Unconfirmed);
        for _ in 0..2 {
            tally.count(&Vote::Granted);
        }
        tally.count(&SILENT);
        assert_eq!(tally.ended(), Ended::Unconfirmed);
        tally.count(&Vote::Granted);
        assert_eq!(tally.ended(), Ended::Confirmed);
    }
}
