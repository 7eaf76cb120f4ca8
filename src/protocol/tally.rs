//! Count of one round's votes: pure, and certain as early as it can be.

use crate::protocol::reply::Reply;
use crate::values::votes::Vote;

/// Whether the round is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Won,
    Lost,
}

/// Cause why a round gave no hold. Another attempt is worthwhile once the cause has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// Enough masters answered, and some of them refused because of
    /// - a holder, until it releases or its lease ends,
    /// - contenders that have a part of the votes each,
    /// - a waiter with a smaller ticket.
    Held,
    /// Enough masters granted, but the token was too small or too little validity was left.
    Split,
    /// Too few masters answered to know the holder: masters have to come back.
    Unreachable,
    /// Waiting changes nothing. No count of votes alone gives this reason.
    Final,
}

/// Counts votes until the outcome can no longer change, and then until its reason cannot.
pub(crate) struct Tally {
    nodes: usize,
    needed: usize,
    pub(crate) granted: usize,
    refused: usize,
    silent: usize,
    /// Masters that granted and accepted the token.
    pub(crate) accepted: usize,
    /// Masters on which the same call fails until the configuration changes or a key is deleted.
    pub(crate) final_faults: usize,
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
            // No usable answer: not sent, unknown, or failed.
            _ => self.silent += 1,
        }
        self.accepted += usize::from(reply.accepted);
        self.final_faults += usize::from(reply.is_final);
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

    /// Reason of a loss, or `None` while an answer that is still to come could change it.
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

    /// Number of masters without which there is no quorum: N − Q + 1.
    pub(crate) fn blocking(&self) -> usize {
        self.nodes - self.needed + 1
    }

    fn pending(&self) -> usize {
        self.nodes - self.granted - self.refused - self.silent
    }
}

#[cfg(test)]
mod tests;
