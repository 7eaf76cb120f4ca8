//! One attempt at a new hold: a round of acquire, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use redis::Value;
use tokio::time::timeout;

use crate::acquire::proposal::Proposal;
use crate::acquire::refusal::Refusal;
use crate::acquire::rollback::{Deferred, Rollback};
use crate::acquire::terms::Terms;
use crate::error::LockError;
use crate::events::{VoteKind, log};
use crate::hold::ends::Ends;
use crate::hold::tenure::{Granted, Hold, Tenure};
use crate::owned_entry::OwnedEntry;
use crate::protocol::calls::{self, Acquire, Fencing, Renewal};
use crate::protocol::claim::Claim;
use crate::protocol::fault::{Class, Fault};
use crate::protocol::field::Field;
use crate::protocol::node_set::NodeSet;
use crate::protocol::obstruction::Obstruction;
use crate::protocol::reply::{Behind, Reply};
use crate::protocol::tally::{Obstacle, Outcome, Tally};
use crate::protocol::waiter::Precedence;
use crate::queue::InLine;
use crate::round::clocks::{self, Clocks};
use crate::round::pool::Pool;
use crate::round::{Forgotten, Round, Trust};
use crate::time::clock::Moment;
use crate::time::validity::Validity;
use crate::token::FencingToken;
use crate::votes::Vote;

/// Where very many wait, their questions come in bursts, and a master may be a few milliseconds behind.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(4);

/// As whom an attempt asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker<'a> {
    /// One that waits, and is let into the queues where it is refused.
    Waiter(&'a InLine),
    /// One that reads and has this ticket, beside another of its process that waits for both.
    Beside(u64),
    /// One that does not wait.
    Try,
}

impl<'a> Asker<'a> {
    /// As a waiter, if there is one.
    pub(crate) fn of(waiting: Option<&'a InLine>) -> Self {
        waiting.map_or(Self::Try, Self::Waiter)
    }

    fn waiter(self) -> Option<&'a InLine> {
        match self {
            Self::Waiter(waiting) => Some(waiting),
            _ => None,
        }
    }
}

/// One round with an owner field that was never used before; a second one only when a master had seen
/// a larger fencing token.
pub(crate) async fn attempt(
    terms: &Terms,
    asker: Asker<'_>,
    clocks: Option<Clocks>,
) -> Result<OwnedEntry, Refusal> {
    let mut acquisition = Acquisition::begin(terms, asker, clocks);
    acquisition.count().await;
    if acquisition.tally.outcome() != Outcome::Won {
        return Err(acquisition.lost());
    }
    if terms.fenced && acquisition.accepted() < terms.needed && !acquisition.raise().await {
        return Err(Refusal::unfenced(terms, acquisition.rollback.votes.clone()));
    }
    acquisition.settle()
}

/// A round of acquire and its count. Dropped before it is settled, it is rolled back.
struct Acquisition<'a> {
    terms: &'a Terms,
    field: Field,
    proposal: Proposal<'a>,
    /// What the hold has once a quorum has granted.
    validity: Validity,
    tally: Tally,
    obstruction: Obstruction,
    behind: Behind,
    round: Round,
    rollback: Rollback,
    /// Who waits, if it does.
    waiting: Option<InLine>,
}

impl<'a> Acquisition<'a> {
    /// Asks every master.
    fn begin(terms: &'a Terms, asking: Asker<'_>, clocks: Option<Clocks>) -> Self {
        let (client, pool) = (&terms.client, &terms.client.pool);
        let (field, proposal) = (client.fresh_field(), Proposal::new(terms, clocks));
        let precedence = match asking {
            Asker::Waiter(waiting) => Precedence::Queued(waiting.waiter),
            Asker::Beside(ticket) => Precedence::Ticketed(ticket),
            Asker::Try => Precedence::Tried,
        };
        let waiting = asking.waiter().cloned();
        let told = Acquire {
            names: &terms.names,
            kind: terms.kind,
            owner: &field.text(),
            count: 1,
            lease: terms.lease,
            tokens: proposal.tokens(),
            fencing: Fencing::Proposed,
            precedence,
        };
        let request = calls::acquire(&told, pool.evidence_wanted());
        let mut tally = Tally::new(pool.slots.len(), terms.needed);
        let claim = Claim {
            names: terms.names.clone(),
            field,
            kind: terms.kind,
            fence: FencingToken::NONE,
        };
        let mut rollback = Rollback::new(pool, claim, waiting.clone());
        for (node, vote) in proposal.objections() {
            tally.count(&Reply::from(vote.clone()));
            rollback.votes[node] = vote;
        }
        let asked = |node: usize| rollback.votes[node] == Vote::Pending;
        let ask = || Round::begin(pool, &request, Trust::Quorum(terms.needed), asked);
        let round = terms.trace.asking(ask).wake_after(terms.needed);
        if let Some(waiting) = &waiting {
            waiting.calls.stand(round.sent_to());
        }
        Self {
            terms,
            field,
            proposal,
            validity: Validity::of_lease(round.begun(), terms.lease, pool.config.drift_factor),
            tally,
            obstruction: Obstruction::default(),
            behind: Behind::default(),
            round,
            rollback,
            waiting,
        }
    }

    /// Counts answers until the outcome is certain, and, if the round is lost, its reason: held or
    /// unreachable is worth the answers that are on their way.
    async fn count(&mut self) {
        while let Some((node, answer)) = self.round.next().await {
            let mut reply = Reply::acquired(answer);
            self.proposal.saw(&reply);
            self.tally.count(&reply);
            let causes = reply.causes.as_deref().unwrap_or_default();
            self.obstruction.add(causes, reply.holder.take());
            self.behind.add(reply.behind);
            self.round.voted(node, &reply.vote);
            self.rollback.votes[node] = reply.vote;
            let over = match self.tally.outcome() {
                Outcome::Pending => false,
                Outcome::Won => true,
                Outcome::Lost => self.tally.obstacle().is_some(),
            };
            if over {
                break;
            }
        }
        if self.tally.obstacle() == Some(Obstacle::Unreachable) {
            // Nothing is waited for, but what is here tells who was silent.
            while let Some(Some((node, answer))) = self.round.next_as_sent().now_or_never() {
                let vote = Reply::acquired(answer).vote;
                self.round.voted(node, &vote);
                self.rollback.votes[node] = vote;
            }
        }
    }

    /// Why it is lost. Dropping the attempt rolls it back, at once or once it has been heard out.
    fn lost(self) -> Refusal {
        let votes = self.rollback.votes.clone();
        let mut refusal = Refusal::explain(self.terms, &self.tally, votes, self.obstruction);
        log::round_lost(&self.terms.names, &refusal.error);
        if refusal.obstacle == Obstacle::Held
            && let Some(waiting) = self.waiting
        {
            let pool = &self.terms.client.pool;
            refusal.deferred = Some(hear_out(pool, self.round, self.rollback, waiting));
        }
        refusal
    }

    /// How many masters of the quorum have the token.
    fn accepted(&mut self) -> usize {
        if self.terms.kind.is_shared() {
            self.proposal.take_told()
        } else {
            self.tally.accepted()
        }
    }

    /// Asks the masters that granted to accept a larger token, or to store what one that reads has taken; whether a
    /// quorum did. A token counts only where grant and acceptance met, so the others are not asked.
    async fn raise(&mut self) -> bool {
        let (terms, pool) = (self.terms, &self.terms.client.pool);
        let votes = &self.rollback.votes;
        let granted = |node: usize| votes[node] == Vote::Granted;
        let fencing = if terms.kind.is_shared() {
            self.proposal.write_back();
            Fencing::Declared
        } else {
            self.proposal.raise(granted);
            Fencing::Proposed
        };
        let renewal = Renewal {
            names: &terms.names,
            kind: terms.kind,
            owner: self.field.text(),
            count: 1,
            lease: terms.lease,
            tokens: self.proposal.tokens(),
        };
        let request = calls::extend(&[renewal], fencing, pool.evidence_wanted());
        let ask = || Round::begin(pool, &request, Trust::Quorum(terms.needed), granted);
        let mut round = terms.trace.raising(ask).until(self.round.deadline());
        let mut accepted = 0;
        while accepted < terms.needed
            && let Some((node, answer)) = round.next().await
        {
            let reply = Reply::extended(answer, 1).swap_remove(0);
            round.voted(node, &reply.vote);
            accepted += usize::from(reply.accepted);
        }
        log::token_raised(&terms.names, self.proposal.token, accepted);
        accepted >= terms.needed
    }

    /// Makes a hold of what a quorum granted, and enters it.
    fn settle(self) -> Result<OwnedEntry, Refusal> {
        let (terms, client, pool) = (self.terms, &self.terms.client, &self.terms.client.pool);
        let now = pool.clock.now();
        if terms.fenced {
            self.proposal.accepted(clocks::median(self.round.clocks_us(now)));
        }
        let hold = Hold::first(self.tenure(now));
        // Entered only with validity left, by the clock after the last answer that was needed.
        let Ok(guard) = terms.enter(hold.clone(), now) else {
            let votes = self.rollback.votes.clone();
            return Err(Refusal::too_late(terms, hold.remaining(), votes));
        };
        if !terms.renew {
            // To notice its end; one that is renewed is looked after already.
            client.schedule.watch(&hold.tenure);
        }
        if pool.is_closed() {
            // Whoever closes the pool after this look finds the hold with the watchdog. Before it, closing
            // waits for the attempt, until its guard has sent the release.
            drop(guard);
            let _ = self.rollback.settle();
            return Err(LockError::Closed.into());
        }
        terms.keep(&guard, now);
        hold.tenure
            .trace
            .begin(&terms.trace, false, &terms.names, hold.token());
        let votes = self.rollback.settle();
        if let Some(waiting) = &self.waiting {
            let places = waiting.calls.left();
            // A grant took it out of the queues there, and whoever has not answered yet is heard below.
            let is_out = |vote: &Vote| matches!(vote, Vote::Granted | Vote::Pending);
            waiting.leave(pool, &terms.names, |node| {
                places.contains(node) && !is_out(&votes[node])
            });
        }
        hear_stragglers(pool, self.round, &hold.tenure, self.waiting);
        log::acquired(&terms.names, self.tally.granted(), || guard.validity());
        if let Some(owner) = &terms.owner {
            owner.remember(&hold);
        }
        Ok(guard)
    }

    /// What a quorum granted. What a clock was seen to step by since the round began is off its end, also
    /// while the round was under way.
    fn tenure(&self, now: Moment) -> Tenure {
        let (terms, pool) = (self.terms, &self.terms.client.pool);
        let granted = NodeSet::of(&self.rollback.votes, |vote| *vote == Vote::Granted);
        let ends = Ends::new(
            self.validity,
            granted,
            terms.needed,
            &pool.steps,
            self.round.steps(),
        );
        let granted = Granted {
            names: terms.names.clone(),
            field: self.field,
            needed: terms.needed,
            token: self.proposal.token,
            raised: self.proposal.raised,
            kind: terms.kind,
            behind: self.behind,
            begun: self.round.begun(),
            took: now.since(self.round.begun()),
            ends,
            lease: terms.lease,
            votes: self.rollback.votes.clone(),
            max_hold: terms.max_hold,
        };
        Tenure::new(pool.clock, granted)
    }
}

/// Takes in what the rest of the masters answers. One that grants adds an end of its own. Where it does not grant, the waiter
/// may stand in a queue since this round or an earlier one.
fn hear_stragglers(pool: &Arc<Pool>, round: Round, tenure: &Arc<Tenure>, waiting: Option<InLine>) {
    let (tenure, begun) = (Arc::clone(tenure), round.begun());
    let waited_in = waiting.map(|waiting| (Arc::clone(pool), waiting));
    // The hold may be given up at any moment, and a late acquire must not follow its release.
    let note = move |node, answer| {
        let vote = Reply::acquired(answer).vote;
        if vote == Vote::Granted {
            tenure.confirm(node, begun);
        }
        if let Some((pool, waiting)) = waited_in.as_ref().filter(|_| vote != Vote::Granted) {
            waiting.leave(pool, &tenure.names, |other| other == node);
        }
        let kind = VoteKind::of(&vote);
        tenure.note_vote(node, vote);
        kind
    };
    round.leave(Forgotten::Loaded, note);
}

/// Rolls back an attempt that met a holder, after the answers that are as good as here: where they say
/// that the holder refuses too, nothing is to be released, and a waiter costs those masters one
/// command instead of two. Only for one that waits now, and that finishes the rollback before it asks again.
fn hear_out(pool: &Arc<Pool>, mut round: Round, rollback: Rollback, waiting: InLine) -> Deferred {
    let patience = round.elapsed().max(SHORTEST_PATIENCE);
    let deferred = Deferred::new(rollback);
    let heard = deferred.clone();
    // Where the script is forgotten it did not get into the queues, and is not called.
    let unless_queued = move |answer: &Result<Value, Fault>| {
        if answer.as_ref().err().and_then(Fault::class) == Some(Class::NoScript) {
            waiting.calls.interrupt();
        }
    };
    pool.in_background(async move {
        let hearing = async {
            while let Some((node, answer)) = round.next_as_sent().await {
                unless_queued(&answer);
                let vote = Reply::acquired(answer).vote;
                round.voted(node, &vote);
                if !heard.note(node, vote) {
                    break;
                }
            }
        };
        // Who takes longer is told, in order after its acquire.
        let _ = timeout(patience, hearing).await;
        heard.finish();
        round.leave(Forgotten::Loaded, move |_, answer| {
            unless_queued(&answer);
            VoteKind::of(&Reply::acquired(answer).vote)
        });
    });
    deferred
}
