//! The count of one round's votes: pure, and certain as early as it can be.

use crate::protocol::reply::Reply;
use crate::values::votes::Vote;

/// Whether the round is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Won,
    Lost,
}

/// What stands in the way of a hold, and has to change before another attempt is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// Enough masters answered, and some of them serve somebody else: a holder, who has to release, or its lease to
    /// end; contenders that have a part each; a waiter that comes first.
    Held,
    /// Enough granted, and it was of no use: the token was too small, or too little validity was left.
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
    refused: usize,
    silent: usize,
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
            refused: 0,
            silent: 0,
            accepted: 0,
            final_faults: 0,
        }
    }

    pub(crate) fn count(&mut self, reply: &Reply) {
        match reply.vote {
            Vote::Granted => self.granted += 1,
            Vote::Refused { .. } => self.refused += 1,
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
    pub(crate) fn loss_reason(&self) -> Option<LossReason> {
        let (pending, answered) = (self.pending(), self.granted + self.refused);
        if self.outcome() != Outcome::Lost {
            None
        } else if self.refused >= self.blocking() || answered >= self.needed {
            Some(LossReason::Held)
        } else if self.refused + pending < self.blocking() && answered + pending < self.needed {
            Some(LossReason::Unreachable)
        } else {
            None
        }
    }

    /// The number of masters without which there is no quorum: N − Q + 1.
    pub(crate) fn blocking(&self) -> usize {
        self.nodes - self.needed + 1
    }

    fn pending(&self) -> usize {
        self.nodes - self.granted - self.refused - self.silent
    }
}

#[cfg(test)]
mod tests;
