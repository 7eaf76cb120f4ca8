//! Extension: a round that raises the validity of some holds, takes them again on masters that have forgotten
//! them, and never revives one.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::Value;

use crate::error::{ExtendError, LossCause};
use crate::events::{EventObserver, METERED, Op, VoteKind, log};
use crate::hold::client::ClientCore;
use crate::hold::expiry::HoldExpiry;
use crate::hold::grant::{Grant, Hold};
use crate::hold::retake;
use crate::protocol::calls::{self, Fencing, Renewal};
use crate::protocol::command::Request;
use crate::protocol::fault::Fault;
use crate::protocol::kind::HoldKind;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::time::validity::Validity;
use crate::values::policy::Policy;
use crate::values::votes::{Vote, Votes};

/// One round for any number of holds. If it is dropped before its end, the holds have the validity that they
/// had.
pub(crate) struct Extension {
    client: Arc<ClientCore>,
    round: Round,
    extended: Vec<Extended>,
    single_votes: FuturesUnordered<BoxFuture<'static, SingleVote>>,
}

/// A hold's part of the round.
struct Extended {
    hold: Hold,
    /// Kind of the hold as it was asked for.
    kind: HoldKind,
    lease: Duration,
    agreed: NodeSet,
    /// Number of masters that refused, because they have granted the names to others, or were told to by force.
    against: usize,
    /// Number of these that were told to by force.
    revoked: usize,
    /// Masters without the hold.
    forgotten_by: Vec<usize>,
    confirmed: bool,
    /// Validity that was left when the hold was confirmed, if metrics are on.
    margin: Duration,
}

/// An answer about one hold alone: index of the hold, master, vote.
type SingleVote = (usize, usize, Vote);

impl Extended {
    /// Renewal of the hold as one of this kind.
    fn renewal_as(&self, kind: HoldKind) -> Renewal<'_> {
        Renewal {
            names: &self.hold.grant.names,
            kind,
            field: self.hold.grant.field.text(),
            count: self.hold.grant.count(),
            lease: self.lease,
            tokens: self.hold.grant.tokens,
        }
    }
}

impl Extension {
    /// Asks every master to extend each hold to its lease from now.
    pub(crate) fn begin(client: &Arc<ClientCore>, holds: Vec<(Hold, Duration)>) -> Self {
        let pool = &client.pool;
        let extended: Vec<Extended> = holds
            .into_iter()
            .map(|(hold, lease)| Extended {
                kind: hold.grant.kind(),
                hold,
                lease,
                agreed: NodeSet::default(),
                against: 0,
                revoked: 0,
                forgotten_by: Vec::new(),
                confirmed: false,
                margin: Duration::ZERO,
            })
            .collect();
        for entry in &extended {
            entry.hold.grant.state().note_lease_asked(entry.lease);
        }
        let renewals: Vec<_> = extended
            .iter()
            .map(|entry| entry.renewal_as(entry.kind))
            .collect();
        let request = request(pool, &renewals);
        let needed = extended
            .iter()
            .map(|entry| entry.hold.grant.needed)
            .min()
            .unwrap_or(0);
        Self {
            client: Arc::clone(client),
            round: Round::begin(pool, &request, Trust::Memory(needed), pool.all()),
            extended,
            single_votes: FuturesUnordered::new(),
        }
    }

    /// Takes in the next answer. Returns false when there are no more.
    ///
    /// # Cancel safety
    ///
    /// No answer is lost.
    pub(crate) async fn take_next(&mut self) -> bool {
        tokio::select! {
            biased;
            Some((index, node, vote)) = self.single_votes.next(), if !self.single_votes.is_empty() => {
                self.count(index, node, vote);
            }
            Some((node, answer)) = self.round.next() => self.answered(node, answer),
            else => {
                self.conclude();
                return false;
            }
        }
        true
    }

    fn answered(&mut self, node: usize, answer: Result<Value, Fault>) {
        let may_concern_one = answer.as_ref().is_err_and(Fault::may_concern_one);
        if may_concern_one && self.extended.len() > 1 {
            return self.ask_one_by_one(node);
        }
        let clock_quarantine = self.round.clock_quarantine(node);
        let replies = Reply::extended(answer, self.extended.len());
        self.round.voted_in_batch(replies.iter().map(|reply| &reply.vote));
        for (index, reply) in replies.into_iter().enumerate() {
            let vote = vouched(
                &self.extended[index].hold.grant,
                node,
                clock_quarantine,
                reply.vote,
            );
            self.count(index, node, vote);
        }
    }

    /// Asks a master for every hold separately, after an error that may be about one of them only.
    fn ask_one_by_one(&mut self, node: usize) {
        for (index, entry) in self.extended.iter_mut().enumerate() {
            // The kind of the entry stays: other masters answer to the question as it was.
            let renewal = entry.renewal_as(entry.hold.grant.kind());
            let request = request(&self.client.pool, &[renewal]);
            let trust = Trust::Memory(entry.hold.grant.needed);
            let mut round =
                Round::begin(&self.client.pool, &request, trust, NodeSet::one(node)).trace_quorum(1);
            let grant = Arc::clone(&entry.hold.grant);
            self.single_votes.push(Box::pin(async move {
                let reply = round
                    .next()
                    .await
                    .map(|(_, answer)| Reply::extended(answer, 1).swap_remove(0));
                let vote = reply.map_or(Vote::Pending, |reply| reply.vote);
                round.voted_in_batch([&vote].into_iter());
                (
                    index,
                    node,
                    vouched(&grant, node, round.clock_quarantine(node), vote),
                )
            }));
        }
    }

    fn count(&mut self, index: usize, node: usize, vote: Vote) {
        self.client.pool.slots[node]
            .events
            .meters
            .voted(Op::Extend, VoteKind::of(&vote));
        let entry = &mut self.extended[index];
        match &vote {
            Vote::Granted => entry.agreed.insert(node),
            // The hold was downgraded while this was sent, and the master had the downgrade first.
            Vote::NotHeld | Vote::Refused { .. } if entry.kind != entry.hold.grant.kind() => {}
            Vote::NotHeld => entry.forgotten_by.push(node),
            Vote::Refused { .. } => entry.against += 1,
            Vote::Revoked { .. } => {
                entry.against += 1;
                entry.revoked += 1;
            }
            _ => {}
        }
        let granted = vote == Vote::Granted;
        entry.hold.grant.note_vote(node, vote);
        // A master that confirms after the quorum adds its own end.
        if granted && entry.agreed.len() >= entry.hold.grant.needed {
            let (on, needed) = (entry.agreed, entry.hold.grant.needed);
            let pool = &self.client.pool;
            let validity = Validity::of_lease(self.round.begun, entry.lease, pool.config.drift_factor);
            let ends = HoldExpiry::new(validity, on, needed, &pool.steps, self.round.steps);
            if METERED && !entry.confirmed {
                entry.margin = entry.hold.remaining();
            }
            entry.confirmed |= entry.hold.prolong(ends, entry.lease);
        }
        let nodes = self.client.pool.slots.len();
        // Another holder may have a quorum. With fewer masters the hold goes on until its end, and they get it again once their
        // holder has gone. But no renewal brings it back to a master that was told by force to give it up.
        if entry.against >= Policy::smallest_quorum(nodes) || entry.revoked > nodes - entry.hold.grant.needed
        {
            lose(&self.client, &entry.hold.grant, LossCause::TakenAway);
        }
        // A master that still has the hold shows that the hold is alive. Only then may it be put back on
        // masters that forgot it.
        if !entry.agreed.is_empty() {
            for node in std::mem::take(&mut entry.forgotten_by) {
                self.retake(index, node);
            }
        }
    }

    /// Concludes once all answers are in. If no master showed that a hold is alive, the masters that have
    /// forgotten it count against it like those that have granted its names to others.
    fn conclude(&self) {
        for entry in &self.extended {
            let gone = entry.against + entry.forgotten_by.len();
            if gone >= Policy::smallest_quorum(self.client.pool.slots.len()) {
                lose(&self.client, &entry.hold.grant, LossCause::Forgotten);
            }
        }
    }

    fn retake(&mut self, index: usize, node: usize) {
        let Extended { hold, lease, .. } = &self.extended[index];
        let grant = &hold.grant;
        if let Some(asked) = retake::begin(&self.client.pool, grant, *lease, node) {
            log::retaken(&grant.names, self.client.pool.slots[node].label());
            self.single_votes.push(Box::pin(async move {
                let (mut round, vote) = asked.await;
                round.voted_in_batch([&vote].into_iter());
                (index, node, vote)
            }));
        }
    }

    /// Whether a quorum confirmed a hold's extension in time.
    pub(crate) fn is_confirmed(&self, index: usize) -> bool {
        self.extended[index].confirmed
    }

    /// Grants, each with the validity that was left when its extension was confirmed; `None` if it was not.
    pub(crate) fn outcome(self) -> impl Iterator<Item = (Arc<Grant>, Option<Duration>)> {
        self.extended
            .into_iter()
            .map(|entry| (entry.hold.grant, entry.confirmed.then_some(entry.margin)))
    }
}

/// Ends a hold early, and has it cleaned up.
fn lose(client: &ClientCore, grant: &Arc<Grant>, cause: LossCause) {
    if grant.lose(cause) {
        client.schedule.watch(grant);
    }
}

/// Extends one hold. Returns as soon as the outcome is certain.
///
/// If it is dropped before its end, the hold has the validity that it had. Some masters may keep it locked
/// for longer.
pub(crate) async fn extend(
    client: &Arc<ClientCore>,
    hold: &Hold,
    lease: Duration,
) -> Result<(), ExtendError> {
    if hold.remaining().is_zero() {
        return Err(ExtendError::Lost {
            votes: Votes::default(),
        });
    }
    let mut extension = Extension::begin(client, vec![(hold.clone(), lease)]);
    let mut over = pin!(hold.ended());
    loop {
        tokio::select! {
            biased;
            more = extension.take_next() => {
                if extension.is_confirmed(0) {
                    // The other answers may still show masters that forgot the hold.
                    client.pool.in_background(async move { while extension.take_next().await {} });
                    return Ok(());
                }
                if !more || hold.remaining().is_zero() {
                    break;
                }
            }
            _ = &mut over => break,
        }
    }
    let votes = client.pool.evidence(&hold.grant.votes());
    let validity = hold.remaining();
    if validity.is_zero() {
        return Err(ExtendError::Lost { votes });
    }
    Err(ExtendError::NotExtended { validity, votes })
}

fn request(pool: &Pool, renewals: &[Renewal<'_>]) -> Arc<Request> {
    calls::extend(renewals, Fencing::Declared, pool.config.strict)
}

/// Checks the vote of a master after a step of its clock. Such a master may have let this hold expire,
/// granted the names to another client, and then got the hold back. Its vote counts only if its end for this
/// hold has not come, after all known steps are subtracted from the ends. So a step that is small against the
/// time left of the hold there costs no renewal.
fn vouched(grant: &Grant, node: usize, clock_quarantine: Option<Duration>, vote: Vote) -> Vote {
    match (vote, clock_quarantine) {
        (Vote::Granted, Some(remaining)) if !grant.is_kept_by(node) => Vote::Quarantined { remaining },
        (vote, _) => vote,
    }
}
