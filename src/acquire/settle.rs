//! The hold that a quorum's grants become.

use std::sync::{Arc, Weak};

use crate::acquire::attempt::Acquisition;
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::error::LockError;
use crate::events::{VoteKind, log};
use crate::hold::expiry::HoldExpiry;
use crate::hold::grant::{Grant, GrantFacts, Hold};
use crate::hold::{FirstHold, recall};
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::field::Letter;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::queue::QueueEntry;
use crate::round::{NoScriptFallback, Round, clocks};
use crate::time::clock::Moment;
use crate::time::validity::Validity;
use crate::values::votes::Vote;

impl Acquisition<'_> {
    /// Makes a hold of the grant, and enters it.
    pub(super) fn settle(mut self) -> Result<HoldGuard, Refusal> {
        self.rollback.not_asked(self.round.held_back());
        let (request, client, pool) = (self.request, &self.request.client, &self.request.client.pool);
        let now = pool.clock.now();
        if request.fenced {
            self.proposal.accepted(clocks::median(self.round.clocks_us(now)));
        }
        let (facts, first) = self.granted(now);
        let hold = Hold::first(Grant::new(pool.clock, facts, first, self.known));
        hold.grant.take_recalls();
        // The hold is entered only with validity left, by the clock after the last answer that was needed.
        let Ok(guard) = request.enter(hold.clone(), now) else {
            let votes = self.rollback.votes.clone();
            return Err(Refusal::too_late(request, hold.remaining(), votes));
        };
        if !request.renew {
            // The schedule notices the end of this hold. A hold that is renewed is scheduled already.
            client.schedule.watch(&hold.grant);
        }
        if pool.is_closed() {
            // A task that closes the pool after this check finds the hold with the watchdog. If the pool is
            // closed before it, closing waits for the attempt, until the guard has sent the release.
            drop(guard);
            let _ = self.rollback.settle();
            return Err(LockError::Closed.into());
        }
        request.keep(&hold, now);
        request.begin_hold(&hold, false);
        let votes = self.rollback.settle();
        if let Some(waiting) = &self.waiting {
            let places = waiting.state.take_places();
            // A grant has taken the waiter out of the queues there. The late answers of the other masters are
            // handled below.
            let is_out = |vote: &Vote| matches!(vote, Vote::Granted | Vote::Pending | Vote::NotAsked);
            let still_in = places.without(NodeSet::of(&votes, is_out));
            waiting.withdraw(pool, &request.names, still_in);
        }
        receive_stragglers(request, self.round, &hold.grant, self.waiting);
        log::acquired(&request.names, self.tally.granted, || hold.remaining());
        Ok(guard)
    }

    /// Facts of the grant of a quorum, and its first hold. Steps of a clock since the round began shorten its expiry, also
    /// those during the round.
    fn granted(&self, now: Moment) -> (GrantFacts, FirstHold) {
        let (request, pool) = (self.request, &self.request.client.pool);
        let granted = self.rollback.masters(&Vote::Granted);
        let validity = Validity::of_lease(self.round.begun, request.lease, pool.config.drift_factor);
        let ends = HoldExpiry::new(validity, granted, request.needed, &pool.steps, self.round.steps);
        let facts = GrantFacts {
            names: self.rollback.claim.names.clone(),
            field: self.rollback.claim.field,
            needed: request.needed,
            tokens: self.proposal.tokens,
            granted: request.kind,
            permits: request.permits,
            beside_redisson: pool.config.beside_redisson,
            caption: request.caption.clone(),
            behind: self.behind,
            begun: self.round.begun,
            took: now.since(self.round.begun),
        };
        let first = FirstHold {
            ends,
            lease: request.lease,
            votes: self.rollback.votes.clone(),
            max_hold: request.max_hold,
            set_completes_within: request.set_completes_within,
            is_sticky: request.sticky,
        };
        (facts, first)
    }
}

/// Takes in the late answers. A grant adds its own expiry. If a master does not grant, the waiter may be
/// in a queue there since this round or an earlier one, so it withdraws from that queue.
fn receive_stragglers(
    request: &AcquireRequest,
    round: Round,
    grant: &Arc<Grant>,
    waiting: Option<QueueEntry>,
) {
    let client = &request.client;
    let (grant, begun, schedule) = (Arc::clone(grant), round.begun, Arc::clone(&client.schedule));
    let waited_in = waiting.map(|waiting| (Arc::clone(&client.pool), request.names.clone(), waiting));
    // A sticky grant may be idle by then, and would keep the waiters out.
    let client = grant
        .field
        .letters
        .has(Letter::Sticky)
        .then(|| Arc::downgrade(client));
    // The callback has only the grant: the hold may be given up at any moment, and a late acquire must not
    // follow its release.
    let note = move |node, answer| {
        let Reply { vote, behind, .. } = Reply::acquired(answer);
        if vote == Vote::Granted {
            grant.confirm(node, begun);
        }
        if let (Some(client), Some(first)) = (client.as_ref().and_then(Weak::upgrade), behind.first) {
            recall::recalled(&client, &grant, first);
        }
        if let Some((pool, names, waiting)) = waited_in.as_ref().filter(|_| vote != Vote::Granted) {
            waiting.withdraw(pool, names, NodeSet::one(node));
        }
        let kind = VoteKind::of(&vote);
        if grant.note_late_vote(node, vote) {
            schedule.watch(&grant);
        }
        kind
    };
    round.detach(NoScriptFallback::LoadOnly, note);
}
