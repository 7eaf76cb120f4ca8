//! One attempt at a new hold: a round of acquire, and its evaluation.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use redis::Value;
use tokio::time::timeout;

use crate::acquire::proposal::TokenProposal;
use crate::acquire::refusal::{Asked, Refusal};
use crate::acquire::request::AcquireRequest;
use crate::acquire::rollback::{DelayedRollback, Rollback, patience};
use crate::acquire::thrifty::{FirstAsked, UnderWay};
use crate::error::LockError;
use crate::events::log;
use crate::lock::hold_guard::HoldGuard;
use crate::node::recalls::KnownField;
use crate::protocol::blockers::Blockers;
use crate::protocol::calls::{self, Acquire, Fencing, Renewal};
use crate::protocol::caption::Caption;
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::field::Field;
use crate::protocol::job_mark::JobMark;
use crate::protocol::reply::{Reply, WaitersBehind};
use crate::protocol::tally::{LossReason, Outcome, Tally};
use crate::protocol::waiter::{FIRST_MASTER, Precedence};
use crate::queue::QueueEntry;
use crate::round::clocks::Clocks;
use crate::round::{Round, Trust};
use crate::values::names::Names;
use crate::values::votes::Vote;

/// Runs one round with an owner field that was never used before. A second round follows only if a master had seen a
/// larger fencing token. For a permit, the round asks for `seat`.
pub(crate) async fn attempt(
    request: &AcquireRequest,
    seat: Option<u8>,
    precedence: Precedence<&QueueEntry>,
    clocks: Option<Clocks>,
) -> Result<HoldGuard, Refusal> {
    let mut acquisition = Acquisition::begin(request, seat, precedence, clocks);
    acquisition.count().await;
    if let Some(mark) = acquisition.found_mark.take() {
        return Err(acquisition.already_done(*mark));
    }
    if acquisition.tally.outcome() != Outcome::Won {
        return Err(acquisition.lost());
    }
    if request.fenced && acquisition.accepted() < request.needed && !acquisition.raise().await {
        return Err(Refusal::unfenced(request, acquisition.rollback.votes.clone()));
    }
    acquisition.settle()
}

/// Packs the question for the names.
pub(super) fn question(
    request: &AcquireRequest,
    names: &Names,
    field: Field,
    proposal: &TokenProposal<'_>,
    precedence: Precedence,
) -> Arc<Request> {
    let args = Acquire {
        names,
        kind: request.kind,
        field: &field.text(),
        count: 1,
        lease: request.lease,
        tokens: proposal.tokens,
        fencing: Fencing::Proposed,
        precedence,
        about: request.caption.as_deref().map(Caption::text),
        once: request.once.as_ref().map(|once| once.keep),
        permits: request.permits,
    };
    calls::acquire(&args, request.client.pool.config.strict)
}

/// A round of acquire and its count. When it is dropped before it is settled, it is rolled back.
pub(super) struct Acquisition<'a> {
    pub(super) request: &'a AcquireRequest,
    pub(super) proposal: TokenProposal<'a>,
    /// Entry of the field for recalls that come before the answers.
    pub(super) known: KnownField,
    pub(super) tally: Tally,
    pub(super) blockers: Blockers,
    pub(super) behind: WaitersBehind,
    pub(super) round: Round,
    pub(super) rollback: Rollback,
    /// Queue entry of the caller, if it waits in the queues.
    pub(super) waiting: Option<QueueEntry>,
    /// Masters that have been asked.
    asked: Asked,
    /// Mark of the job, if a master has one.
    found_mark: Option<Box<JobMark>>,
    _under_way: UnderWay<'a>,
}

impl<'a> Acquisition<'a> {
    /// Asks every master, or as many as are needed (`thrifty.rs`).
    fn begin(
        request: &'a AcquireRequest,
        seat: Option<u8>,
        precedence: Precedence<&QueueEntry>,
        clocks: Option<Clocks>,
    ) -> Self {
        let pool = &request.client.pool;
        let field = request.client.fresh_field(request.letters());
        let proposal = TokenProposal::new(request, clocks);
        let known = pool.topics.recalls.enter(field.number);
        let waiting = precedence.waiter().cloned();
        let claim = Claim {
            names: request.names_of(seat),
            field,
            kind: request.kind,
            beside_redisson: pool.config.beside_redisson,
        };
        let waiter = precedence.map(|entry| entry.waiter);
        let question = question(request, &claim.names, field, &proposal, waiter);
        let mut tally = Tally::new(pool.slots.len(), request.needed);
        let mut rollback = Rollback::new(pool, claim, waiting.clone());
        for (node, vote) in proposal.objections() {
            tally.count(&Reply::from(vote.clone()));
            rollback.votes[node] = vote;
        }
        let may_ask = rollback.masters(&Vote::Pending);
        let first = FirstAsked::choose(request, waiting.as_ref(), may_ask);
        let ask = || Round::begin(pool, &question, Trust::Quorum(request.needed), first.nodes);
        let round = request.trace.asking(ask).wake_after(first.wanted);
        let round = match first.asked {
            Asked::FirstAlone => {
                rollback.not_asked(may_ask.without(first.nodes));
                round
            }
            _ => round.hold_back(may_ask.without(first.nodes), first.hedge),
        };
        if let Some(waiting) = &waiting {
            // Masters that are held back count, too: they may be asked later.
            waiting.state.note_queued(round.sent_to.with(round.held_back()));
            waiting.state.ignores_calls_until(round.ends_by());
        }
        Self {
            request,
            proposal,
            known,
            tally,
            blockers: Blockers::default(),
            behind: WaitersBehind::default(),
            round,
            rollback,
            waiting,
            asked: first.asked,
            found_mark: None,
            _under_way: UnderWay::begin(&pool.attempts),
        }
    }

    /// Counts answers until the outcome is certain. If the round is lost, it awaits the answers that distinguish held
    /// from unreachable.
    async fn count(&mut self) {
        while let Some((node, answer)) = self.round.next().await {
            self.note_queued();
            self.take_in(node, answer);
            if self.found_mark.is_some() {
                return;
            }
            if self.asked == Asked::FirstAlone {
                self.count_first().await;
                break;
            }
            if self.rollback.votes[node] != Vote::Granted {
                self.round.ask_others();
                self.note_queued();
            }
            if self.is_decided() {
                break;
            }
        }
        if self.may_miss_redisson() {
            self.look_for_redisson().await;
        }
        if self.tally.loss_reason() == Some(LossReason::Unreachable) {
            // Nothing more is awaited. The answers that are here already show which masters were silent.
            while let Some(Some((node, answer))) = self.round.next_as_sent().now_or_never() {
                self.take_in(node, answer);
            }
        }
    }

    /// Takes in the answer of a master.
    fn take_in(&mut self, node: usize, answer: Result<Value, Fault>) {
        let mut reply = Reply::acquired(answer);
        self.proposal.saw(&reply);
        self.behind.add(reply.behind);
        self.count_reply(node, &mut reply);
        self.found_mark = reply.done.take().or(self.found_mark.take());
        self.round.voted(node, &reply.vote);
        self.rollback.votes[node] = reply.vote;
    }

    /// Counts a vote, with the reasons if it is a refusal.
    pub(super) fn count_reply(&mut self, node: usize, reply: &mut Reply) {
        self.tally.count(reply);
        let causes = reply.causes.as_deref().unwrap_or_default();
        self.blockers.add(causes, reply.holder.take());
        if self.request.permits.is_some() && matches!(reply.vote, Vote::Refused { .. }) {
            self.blockers.seats.push((node, reply.open));
        }
    }

    /// Whether no answer that is still to come changes the outcome, or the reason of a loss.
    fn is_decided(&self) -> bool {
        let reason = self.tally.loss_reason();
        match self.tally.outcome() {
            Outcome::Pending => false,
            Outcome::Won => true,
            // A master that has not answered may know that the job is done.
            Outcome::Lost if self.request.once.is_some() => reason == Some(LossReason::Held),
            Outcome::Lost => reason.is_some(),
        }
    }

    /// Whether a field of Redisson's may be in the way on masters that have not answered. Such a field calls nobody. So few
    /// refusals decide against the attempt that they may all come from holds and attempts of this crate.
    fn may_miss_redisson(&self) -> bool {
        let pool = &self.request.client.pool;
        pool.config.beside_redisson
            && self.waiting.is_some()
            && self.asked == Asked::AllAtOnce
            && 2 * self.request.blocking() <= pool.slots.len()
            && self.tally.loss_reason() == Some(LossReason::Held)
            && !self.blockers.foreign_field
    }

    /// Takes in the imminent answers of a lost round, until one reports a field of Redisson's.
    async fn look_for_redisson(&mut self) {
        let patience = patience(&self.round);
        let looking = async {
            while !self.blockers.foreign_field
                && let Some((node, answer)) = self.round.next_as_sent().await
            {
                self.take_in(node, answer);
            }
        };
        let _ = timeout(patience, looking).await;
    }

    /// Asks the others if the first master has granted, which was asked alone. Without its grant the attempt is lost, as it
    /// needs all masters.
    async fn count_first(&mut self) {
        if self.rollback.votes[FIRST_MASTER] == Vote::Granted {
            self.asked = Asked::FirstAndOthers;
            self.ask_the_others().await;
        }
    }

    /// Notes the masters that the round has asked. The waiter may have left the queues before the round asked some of them, or
    /// asked them again.
    fn note_queued(&self) {
        if let Some(waiting) = &self.waiting {
            waiting.state.note_queued(self.round.sent_to);
        }
    }

    /// Refusal because a master has the mark of the job. Dropping the attempt rolls it back.
    fn already_done(self, mark: JobMark) -> Refusal {
        let votes = self.request.client.pool.evidence(&self.rollback.votes);
        if let Some(once) = &self.request.once {
            // Only the first mark counts, and this is the last attempt.
            let _ = once.found.set(mark);
        }
        LockError::Contended {
            holder: None,
            about: None,
            retry_after: Duration::ZERO,
            votes,
        }
        .into()
    }

    /// Returns the reason of the loss. Dropping the attempt rolls it back, at once or after a moment for late
    /// answers.
    fn lost(self) -> Refusal {
        let votes = self.rollback.votes.clone();
        let mut refusal = Refusal::explain(self.request, &self.tally, votes, self.blockers);
        refusal.asked = self.asked;
        log::round_lost(&self.request.names, &refusal.error);
        if refusal.reason == LossReason::Held
            && let Some(waiting) = self.waiting
        {
            let pool = &self.request.client.pool;
            refusal.deferred = Some(DelayedRollback::begin(pool, self.round, self.rollback, waiting));
        }
        refusal
    }

    /// Number of masters of the quorum that have the token.
    fn accepted(&mut self) -> usize {
        if self.request.kind.is_shared() {
            self.proposal.take_highest_seen()
        } else {
            self.tally.accepted
        }
    }

    /// Asks the masters that granted to accept a larger token, or to store the token that a reader has taken.
    /// Returns whether a quorum did. A token counts only on masters with both grant and acceptance, so the
    /// other masters are not asked.
    async fn raise(&mut self) -> bool {
        let (request, pool) = (self.request, &self.request.client.pool);
        let granted = self.rollback.masters(&Vote::Granted);
        let fencing = if request.kind.is_shared() {
            Fencing::Declared
        } else {
            self.proposal.raise(granted);
            Fencing::Proposed
        };
        let renewal = Renewal {
            names: &self.rollback.claim.names,
            kind: request.kind,
            field: self.rollback.claim.field.text(),
            count: 1,
            lease: request.lease,
            tokens: self.proposal.tokens,
        };
        let question = calls::extend(&[renewal], fencing, pool.config.strict);
        let ask = || Round::begin(pool, &question, Trust::Quorum(request.needed), granted);
        let mut round = request.trace.raising(ask).until(self.round.deadline);
        let mut accepted = 0;
        while accepted < request.needed
            && let Some((node, answer)) = round.next().await
        {
            let reply = Reply::extended(answer, 1).swap_remove(0);
            round.voted(node, &reply.vote);
            accepted += usize::from(reply.accepted);
        }
        log::token_raised(&request.names, self.proposal.tokens.first, accepted);
        accepted >= request.needed
    }
}
