//! The fencing token that an attempt proposes, and the masters to which it is proposed.

use std::time::Duration;

use crate::acquire::request::AcquireRequest;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::round::clocks::{self, Clocks};
use crate::time::rounded::Rounded;
use crate::values::token::{Block, FencingToken};
use crate::values::votes::Vote;

/// A token, and the masters' clocks that it was made from. A lock that is not fenced has neither.
pub(super) struct TokenProposal<'a> {
    request: &'a AcquireRequest,
    /// Tokens that the acquire takes.
    pub(super) tokens: Block,
    /// Largest token that masters have reported to a reader, and the number of masters that have it.
    highest_seen: (u64, usize),
    clocks: Option<Clocks>,
}

impl<'a> TokenProposal<'a> {
    /// Makes a proposal by the masters' clocks in `clocks`, if they have just been read.
    pub(super) fn new(request: &'a AcquireRequest, clocks: Option<Clocks>) -> Self {
        let clocks = request
            .fenced
            .then(|| clocks.unwrap_or_else(|| Clocks::of(&request.client.pool)));
        let tokens = clocks.as_ref().map_or(Block::NONE, |clocks| {
            let token = request.client.propose_token(&request.names, clocks, 0);
            let size = if request.kind.is_shared() {
                1
            } else if !request.hands_on {
                // A master that is asked again for the grant would show a leader with another token of a larger block.
                Block::SIZE
            } else {
                let shown = clocks.median_us.unwrap_or_default();
                request.client.tokens.take_size(&request.names, token, shown)
            };
            token.block(size)
        });
        Self {
            request,
            tokens,
            highest_seen: (0, 0),
            clocks,
        }
    }

    /// Masters that are not asked, because their fences could not be used, with the reason. Their clocks may
    /// have changed, so they are read afresh.
    pub(super) fn objections(&self) -> Vec<(usize, Vote)> {
        let Some(clocks) = &self.clocks else {
            return Vec::new();
        };
        let pool = &self.request.client.pool;
        let objections: Vec<_> = (0..pool.slots.len())
            .filter_map(|node| Some((node, objection(clocks.too_far_ahead(node)?))))
            .collect();
        if !objections.is_empty() {
            let ahead = objections.iter().map(|(node, _)| *node).collect();
            clocks::refresh(pool, &self.request.names, ahead);
        }
        objections
    }

    /// Takes the largest token that a master of the reader's quorum has reported. Returns the number of
    /// masters that have it.
    pub(super) fn take_highest_seen(&mut self) -> usize {
        let (token, masters) = self.highest_seen;
        self.tokens = FencingToken(token).block(1);
        masters
    }

    /// Notes the largest fence of these names that a master reported with its vote.
    pub(super) fn saw(&mut self, reply: &Reply) {
        let highest = reply.highest;
        if reply.vote == Vote::Granted {
            self.highest_seen = match self.highest_seen {
                (highest_seen, masters) if highest_seen == highest => (highest_seen, masters + 1),
                (highest_seen, _) if highest_seen < highest => (highest, 1),
                highest_seen => highest_seen,
            };
        }
        if let Some(shown) = self.clocks.as_ref().and_then(|clocks| clocks.median_us) {
            self.request
                .client
                .tokens
                .saw(&self.request.names, highest, shown);
        }
    }

    /// Notes that a quorum has the token. The current clocks are used, because a late answer shows an older
    /// time.
    pub(super) fn accepted(&self, shown_us: Option<u64>) {
        if let Some(shown_us) = shown_us {
            let last = self.tokens.last.get();
            self.request
                .client
                .tokens
                .saw(&self.request.names, last, shown_us);
        }
    }

    /// Proposes a larger token: above the block of the first, and above the clocks of the masters that are to
    /// accept it.
    pub(super) fn raise(&mut self, asked: NodeSet) {
        let clocks = Clocks::of(&self.request.client.pool);
        let latest = clocks.latest_us(asked).unwrap_or_default();
        let least = latest.max(self.tokens.last.get()).saturating_add(1);
        let size = self.tokens.size().min(Block::SIZE);
        let token = self
            .request
            .client
            .propose_token(&self.request.names, &clocks, least);
        self.tokens = token.block(size);
        self.clocks = Some(clocks);
    }
}

fn objection(ahead: Duration) -> Vote {
    let error = format!(
        "its clock is {} ahead of the other masters', too much for fencing tokens: set it right",
        Rounded(ahead)
    );
    Vote::Failed { error: error.into() }
}
