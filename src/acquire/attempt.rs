//! One attempt at a new hold: a round of acquire, and its evaluation.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use redis::Value;
use tokio::time::{Instant, timeout};

use crate::acquire::proposal::TokenProposal;
use crate::acquire::refusal::{Asked, Refusal};
use crate::acquire::request::AcquireRequest;
use crate::acquire::rollback::{DelayedRollback, Rollback};
use crate::acquire::thrifty::{FirstAsked, UnderWay, choose};
use crate::error::LockError;
use crate::events::{VoteKind, log};
use crate::hold::expiry::HoldExpiry;
use crate::hold::grant::{Grant, GrantFacts, Hold};
use crate::hold::{FirstHold, recall};
use crate::lock::hold_guard::HoldGuard;
use crate::node::recalls::KnownField;
use crate::protocol::blockers::Blockers;
use crate::protocol::calls::{self, Acquire, Fencing, Renewal};
use crate::protocol::caption::Caption;
use crate::protocol::claim::Claim;
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::field::{Field, Letter};
use crate::protocol::job_mark::JobMark;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::{Reply, WaitersBehind};
use crate::protocol::tally::{LossReason, Outcome, Tally};
use crate::protocol::waiter::{FIRST_MASTER, Precedence};
use crate::queue::QueueEntry;
use crate::round::clocks::{self, Clocks};
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};
use crate::time::clock::Moment;
use crate::time::validity::Validity;
use crate::values::names::Names;
use crate::values::votes::Vote;

/// Shortest time for which late answers are awaited before a rollback. With very many waiters, questions come
/// in bursts, and a master may be a few milliseconds behind.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(4);

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
    pub(super) field: Field,
    pub(super) proposal: TokenProposal<'a>,
    /// Entry of the field for recalls that come before the answers.
    known: KnownField,
    /// Validity of the hold once a quorum has granted.
    validity: Validity,
    pub(super) tally: Tally,
    pub(super) blockers: Blockers,
    pub(super) behind: WaitersBehind,
    round: Round,
    pub(super) rollback: Rollback,
    /// Queue entry of the caller, if it waits in the queues.
    pub(super) waiting: Option<QueueEntry>,
    /// Masters that have been asked.
    asked: Asked,
    /// Mark of the job, if a master has one.
    found_mark: Option<Box<JobMark>>,
    /// Deadline of the last round, if the first master was asked alone before.
    pub(super) last_deadline: Option<Instant>,
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
        let (client, pool) = (&request.client, &request.client.pool);
        let (field, proposal) = (
            client.fresh_field(request.letters()),
            TokenProposal::new(request, clocks),
        );
        let known = pool.topics.recalls.enter(field.number);
        let waiting = precedence.waiter().cloned();
        let names = request.names_of(seat);
        let question = question(
            request,
            &names,
            field,
            &proposal,
            precedence.map(|entry| entry.waiter),
        );
        let mut tally = Tally::new(pool.slots.len(), request.needed);
        let claim = Claim {
            names,
            field,
            kind: request.kind,
            beside_redisson: pool.config.beside_redisson,
        };
        let mut rollback = Rollback::new(pool, claim, waiting.clone());
        for (node, vote) in proposal.objections() {
            tally.count(&Reply::from(vote.clone()));
            rollback.votes[node] = vote;
        }
        let may_ask = |node: usize| rollback.votes[node] == Vote::Pending;
        let is_new = waiting
            .as_ref()
            .is_none_or(|waiting| !waiting.calls.may_be_queued());
        let asks_first_master_alone = waiting
            .as_ref()
            .is_some_and(|waiting| waiting.waiter.at_first_master)
            && (0..pool.slots.len()).all(may_ask);
        let (asked, wanted, first) = if asks_first_master_alone {
            (Asked::FirstAlone, 1, Some(FirstAsked::first_master(pool)))
        } else {
            let some = is_new.then(|| choose(request, may_ask)).flatten();
            (Asked::AllAtOnce, request.needed, some)
        };
        let is_asked = |node: usize| {
            first
                .as_ref()
                .map_or(may_ask(node), |first| first.nodes.contains(node))
        };
        let ask = || Round::begin(pool, &question, Trust::Quorum(request.needed), is_asked);
        let mut round = request.trace.asking(ask).wake_after(wanted);
        if let Some(first) = &first {
            let others = NodeSet::of(&rollback.votes, |vote| *vote == Vote::Pending).without(first.nodes);
            round = round.hold_back(others, first.hedge);
        }
        if let Some(waiting) = &waiting {
            // Masters that are held back count, too: they may be asked later.
            waiting.calls.note_queued(round.sent_to.with(round.held_back()));
            waiting.calls.asks_until(round.ends_by());
        }
        Self {
            request,
            field,
            proposal,
            known,
            validity: Validity::of_lease(round.begun, request.lease, pool.config.drift_factor),
            tally,
            blockers: Blockers::default(),
            behind: WaitersBehind::default(),
            round,
            rollback,
            waiting,
            asked,
            found_mark: None,
            last_deadline: None,
            _under_way: UnderWay::begin(&pool.attempts),
        }
    }

    /// Counts answers until the outcome is certain. If the round is lost, it awaits the answers that distinguish held
    /// from unreachable.
    async fn count(&mut self) {
        while let Some((node, answer)) = self.round.next().await {
            self.note_queued();
            let mut reply = Reply::acquired(answer);
            self.proposal.saw(&reply);
            self.count_reply(&mut reply);
            if self.request.permits.is_some() && matches!(reply.vote, Vote::Refused { .. }) {
                self.blockers.seats.push((node, reply.open));
            }
            self.behind.add(reply.behind);
            self.round.voted(node, &reply.vote);
            self.found_mark = reply.done.take();
            if self.found_mark.is_some() {
                return;
            }
            if self.asked == Asked::FirstAlone && self.count_first(node, &reply.vote).await {
                break;
            }
            if reply.vote != Vote::Granted {
                self.round.ask_others();
                self.note_queued();
            }
            self.rollback.votes[node] = reply.vote;
            let over = match self.tally.outcome() {
                Outcome::Pending => false,
                Outcome::Won => true,
                // A master that has not answered may know that the job is done.
                Outcome::Lost if self.request.once.is_some() => {
                    self.tally.loss_reason() == Some(LossReason::Held)
                }
                Outcome::Lost => self.tally.loss_reason().is_some(),
            };
            if over {
                break;
            }
        }
        if self.may_miss_redisson() {
            self.look_for_redisson().await;
        }
        if self.tally.loss_reason() == Some(LossReason::Unreachable) {
            // Nothing more is awaited. The answers that are here already show which masters were silent.
            while let Some(Some((node, answer))) = self.round.next_as_sent().now_or_never() {
                let vote = Reply::acquired(answer).vote;
                self.round.voted(node, &vote);
                self.rollback.votes[node] = vote;
            }
        }
    }

    /// Counts a vote, with the reasons if it is a refusal.
    pub(super) fn count_reply(&mut self, reply: &mut Reply) {
        self.tally.count(reply);
        let causes = reply.causes.as_deref().unwrap_or_default();
        self.blockers.add(causes, reply.holder.take());
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
        let patience = self.round.elapsed().max(SHORTEST_PATIENCE);
        let looking = async {
            while !self.blockers.foreign_field
                && let Some((node, answer)) = self.round.next_as_sent().await
            {
                let mut reply = Reply::acquired(answer);
                self.proposal.saw(&reply);
                self.count_reply(&mut reply);
                self.round.voted(node, &reply.vote);
                self.rollback.votes[node] = reply.vote;
            }
        };
        let _ = timeout(patience, looking).await;
    }

    /// Takes in the vote of the first master, which was asked alone. Returns whether the outcome is certain. If its answer
    /// is late or no vote, all others are asked at once, with a place in their queues.
    async fn count_first(&mut self, node: usize, vote: &Vote) -> bool {
        self.asked = Asked::AllAtOnce;
        // The answer may have been late, and the others asked meanwhile.
        let is_alone = node == FIRST_MASTER && !self.round.held_back().is_empty();
        match vote {
            Vote::Granted if is_alone => {
                self.asked = Asked::FirstAndOthers;
                self.rollback.votes[node] = Vote::Granted;
                self.round.forget_others();
                self.ask_the_others().await;
                true
            }
            Vote::Refused { .. } if is_alone => {
                self.asked = Asked::FirstAlone;
                for node in self.round.held_back().iter() {
                    self.rollback.votes[node] = Vote::NotAsked;
                }
                self.rollback.votes[node] = vote.clone();
                true
            }
            _ => {
                self.rollback.requeue_everywhere();
                false
            }
        }
    }

    /// Notes the masters that the round has asked. The waiter may have left the queues before the round asked some of them, or
    /// asked them again.
    fn note_queued(&self) {
        if let Some(waiting) = &self.waiting {
            waiting.calls.note_queued(self.round.sent_to);
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
            refusal.deferred = Some(delayed_rollback(pool, self.round, self.rollback, waiting));
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
        let votes = &self.rollback.votes;
        let granted = |node: usize| votes[node] == Vote::Granted;
        let fencing = if request.kind.is_shared() {
            Fencing::Declared
        } else {
            self.proposal.raise(granted);
            Fencing::Proposed
        };
        let renewal = Renewal {
            names: &self.rollback.claim.names,
            kind: request.kind,
            field: self.field.text(),
            count: 1,
            lease: request.lease,
            tokens: self.proposal.tokens,
        };
        let question = calls::extend(&[renewal], fencing, pool.config.strict);
        let ask = || Round::begin(pool, &question, Trust::Quorum(request.needed), granted);
        let deadline = self.last_deadline.unwrap_or(self.round.deadline);
        let mut round = request.trace.raising(ask).until(deadline);
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

    /// Makes a hold of the grant, and enters it.
    fn settle(mut self) -> Result<HoldGuard, Refusal> {
        for node in self.round.held_back().iter() {
            self.rollback.votes[node] = Vote::NotAsked;
        }
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
            let places = waiting.calls.take_places();
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
        let granted = NodeSet::of(&self.rollback.votes, |vote| *vote == Vote::Granted);
        let ends = HoldExpiry::new(
            self.validity,
            granted,
            request.needed,
            &pool.steps,
            self.round.steps,
        );
        let facts = GrantFacts {
            names: self.rollback.claim.names.clone(),
            field: self.field,
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

/// Rolls back an attempt that met a holder, once the imminent answers are there. A master that refuses needs
/// no release, so a waiter costs it one command instead of two. Only for a caller that waits now, and that
/// finishes the rollback before it asks again.
fn delayed_rollback(
    pool: &Arc<Pool>,
    mut round: Round,
    rollback: Rollback,
    waiting: QueueEntry,
) -> DelayedRollback {
    let patience = round.elapsed().max(SHORTEST_PATIENCE);
    let deferred = DelayedRollback::new(rollback);
    let delayed = deferred.clone();
    // If a master had forgotten the script, the waiter did not get into the queues there, and is not called.
    let unless_queued = move |answer: &Result<Value, Fault>| {
        if Fault::is_no_script(answer) {
            waiting.calls.interrupt();
        }
    };
    pool.in_background(async move {
        let receiving = async {
            while let Some((node, answer)) = round.next_as_sent().await {
                unless_queued(&answer);
                let vote = Reply::acquired(answer).vote;
                round.voted(node, &vote);
                if !delayed.note(node, vote) {
                    break;
                }
            }
        };
        // Slower masters get the release after their acquire, in order.
        let _ = timeout(patience, receiving).await;
        delayed.finish();
        round.detach(NoScriptFallback::LoadOnly, move |_, answer| {
            unless_queued(&answer);
            VoteKind::of(&Reply::acquired(answer).vote)
        });
    });
    deferred
}
