//! The count of one round's votes: pure, and certain as early as it can be.

use std::sync::Arc;

use crate::protocol::reply::Reply;
use crate::votes::Vote;

/// Whether the round is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Won,
    Lost,
}

/// What stands in the way of a hold, and has to change before another attempt is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// One holder refuses on so many masters that no quorum is left without it: it has to release, or its
    /// lease to end.
    Held,
    /// Enough masters answered, but no single holder explains the loss: several contenders have a
    /// part each and have to get out of each other's way, or a holder's other part is out of sight.
    Split,
    /// Too few masters answered to say who holds it: they have to come back.
    Unreachable,
    /// Nothing that waiting would change. No count of votes alone tells that.
    Final,
}

/// Counts votes until the outcome, and then its reason, can no longer change.
#[derive(Debug)]
pub(crate) struct Tally {
    nodes: usize,
    needed: usize,
    granted: usize,
    silent: usize,
    refusals: Vec<(Arc<str>, usize)>,
    /// Masters that granted and accepted the token.
    accepted: usize,
    /// Masters on which the same fails until somebody changes a configuration or deletes a key.
    final_faults: usize,
}

impl Tally {
    pub(crate) fn new(nodes: usize, needed: usize) -> Self {
        Self {
            nodes,
            needed,
            granted: 0,
            silent: 0,
            refusals: Vec::new(),
            accepted: 0,
            final_faults: 0,
        }
    }

    pub(crate) fn count(&mut self, reply: &Reply) {
        match (&reply.vote, &reply.holder) {
            (Vote::Granted, _) => self.granted += 1,
            (_, Some(holder)) => match self.refusals.iter_mut().find(|(known, _)| known == holder) {
                Some((_, times)) => *times += 1,
                None => self.refusals.push((Arc::clone(holder), 1)),
            },
            // No usable answer: not sent, unknown, failed.
            _ => self.silent += 1,
        }
        self.accepted += usize::from(reply.accepted);
        self.final_faults += usize::from(reply.is_final);
    }

    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted
    }

    pub(crate) fn final_faults(&self) -> usize {
        self.final_faults
    }

    pub(crate) fn outcome(&self) -> Outcome {
        if self.granted >= self.needed {
            Outcome::Won
        } else if self.granted + self.pending() < self.needed {
            Outcome::Lost
        } else {
            Outcome::Pending
        }
    }

    /// The reason of a loss, or `None` while answers still to come could change it.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        let pending = self.pending();
        let largest = self.refusals.iter().map(|(_, times)| *times).max().unwrap_or(0);
        let blocking = self.blocking();
        let answered = self.granted + self.refused();
        if largest >= blocking {
            Some(Obstacle::Held)
        } else if largest + pending >= blocking {
            None
        } else if answered >= self.needed {
            Some(Obstacle::Split)
        } else if answered + pending < self.needed {
            Some(Obstacle::Unreachable)
        } else {
            None
        }
    }

    /// The number of masters without which there is no quorum: N − Q + 1.
    pub(crate) fn blocking(&self) -> usize {
        self.nodes - self.needed + 1
    }

    fn refused(&self) -> usize {
        self.refusals.iter().map(|(_, times)| times).sum()
    }

    fn pending(&self) -> usize {
        self.nodes - self.granted - self.refused() - self.silent
    }
}

#[cfg(test)]
mod tests;
