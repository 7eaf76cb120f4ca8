//! The fencing token that an attempt proposes, and to whom.

use std::time::Duration;

use crate::acquire::terms::Terms;
use crate::round::clocks::{self, Clocks};
use crate::time::rounded::Rounded;
use crate::token::FencingToken;
use crate::votes::Vote;

/// A token, and the masters' clocks that it was made from; none for a lock that is not fenced.
pub(super) struct Proposal<'a> {
    terms: &'a Terms,
    pub(super) token: FencingToken,
    pub(super) raised: bool,
    clocks: Option<Clocks>,
}

impl<'a> Proposal<'a> {
    /// By the clocks where they have just been looked at.
    pub(super) fn new(terms: &'a Terms, clocks: Option<Clocks>) -> Self {
        let clocks = terms
            .fenced
            .then(|| clocks.unwrap_or_else(|| Clocks::of(&terms.client.pool)));
        let token = clocks.as_ref().map_or(FencingToken::NONE, |clocks| {
            terms.client.propose_token(&terms.names, clocks, 0)
        });
        Self {
            terms,
            token,
            raised: false,
            clocks,
        }
    }

    /// The masters that are not asked, since their fences could not be used, and why. What their clocks show is
    /// asked for, as it may have changed.
    pub(super) fn objections(&self) -> Vec<(usize, Vote)> {
        let Some(clocks) = &self.clocks else {
            return Vec::new();
        };
        let pool = &self.terms.client.pool;
        let objections: Vec<_> = (0..pool.slots.len())
            .filter_map(|node| Some((node, objection(clocks.too_far_ahead(node)?))))
            .collect();
        if !objections.is_empty() {
            clocks::refresh(pool, &self.terms.names, |node| {
                clocks.too_far_ahead(node).is_some()
            });
        }
        objections
    }

    /// Takes note of the largest fence of these names that a master told.
    pub(super) fn saw(&self, highest: u64) {
        if let Some(shown) = self.clocks.as_ref().and_then(Clocks::median_us) {
            self.terms.client.tokens.saw(&self.terms.names, highest, shown);
        }
    }

    /// Proposes a larger one: above the first, and above the clocks of those that are to accept it.
    pub(super) fn raise(&mut self, asked: impl Fn(usize) -> bool) {
        let clocks = Clocks::of(&self.terms.client.pool);
        let latest = clocks.latest_us(asked).unwrap_or_default();
        let least = latest.max(self.token.get()).saturating_add(1);
        self.token = self.terms.client.propose_token(&self.terms.names, &clocks, least);
        self.raised = true;
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
