//! The first master first: attempts at a lock on all masters beside Redisson's MultiLock.
//!
//! That lock takes one master after the other, and keeps its grants while it waits for the next. A client that wants all
//! masters at once, and keeps nothing, hardly ever finds all of them free. So a waiter that has met a field of Redisson's
//! asks the first master alone, and is in its queue alone. Once it is granted there, it asks all others. The holder of
//! the first master holds the others, or is just giving them up. So the waiter keeps its grants for a while, asks the
//! masters that refuse again, and gives everything back after that.
//!
//! All of this is one attempt: its validity counts from the first question, and its rollback goes to every master that was
//! asked.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::acquire::attempt::{Acquisition, question};
use crate::acquire::request::AcquireRequest;
use crate::protocol::blockers::Blockers;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::protocol::waiter::{FIRST_MASTER, Precedence};
use crate::round::{Round, Trust};
use crate::values::votes::Vote;

/// Time for which the grant of the first master is kept while others refuse.
const FIRST_HELD_FOR: Duration = Duration::from_millis(50);
/// Pauses between two questions to masters that refuse: 0.7 to 2 ms.
const SHORTEST: Duration = Duration::from_micros(700);
const SPREAD: Duration = Duration::from_micros(1300);

/// Whether an attempt can ask the first master first: it needs all masters, and the first one can be asked.
pub(super) fn is_possible(request: &AcquireRequest) -> bool {
    let slots = &request.client.pool.slots;
    let is_well = || {
        let link = slots[FIRST_MASTER].link();
        link.is_ok_and(|link| link.round_trip_if_well(Instant::now()).is_some())
    };
    request.client.pool.config.beside_redisson
        && !request.kind.is_shared()
        && request.permits.is_none()
        && slots.len() > 1
        && request.needed == slots.len()
        && is_well()
}

impl Acquisition<'_> {
    /// Asks all masters but the first one, which has granted, until all have granted or the time is over.
    pub(super) async fn ask_the_others(&mut self) {
        let (request, pool) = (self.request, &self.request.client.pool);
        let until = Instant::now() + FIRST_HELD_FOR;
        let ticket = self.waiting.as_ref().map(|waiting| waiting.waiter.ticket);
        // The waiter has no place in the queues there: it waits at the first master alone.
        let precedence = ticket.map_or(Precedence::Tried, Precedence::Ticketed);
        let question = question(
            request,
            &self.rollback.claim.names,
            self.rollback.claim.field,
            &self.proposal,
            precedence,
        );
        let mut open = pool.all().without(NodeSet::one(FIRST_MASTER));
        loop {
            let asked = open;
            for node in asked.iter() {
                self.rollback.votes[node] = Vote::Pending;
            }
            let ask = || Round::begin(pool, &question, Trust::Quorum(request.needed), asked);
            let mut round = request.trace.asking(ask).trace_quorum(asked.len());
            if let Some(waiting) = &self.waiting {
                waiting.state.ignores_calls_until(round.ends_by());
            }
            let mut refused = Vec::new();
            let mut is_over = false;
            while let Some((node, answer)) = round.next().await {
                let reply = Reply::acquired(answer);
                self.proposal.saw(&reply);
                self.behind.add(reply.behind);
                round.voted(node, &reply.vote);
                self.rollback.votes[node] = reply.vote.clone();
                if let Vote::Refused { .. } = reply.vote {
                    refused.push((node, reply));
                } else {
                    is_over |= reply.vote != Vote::Granted;
                    open.remove(node);
                    self.tally.count(&reply);
                }
            }
            // What may follow belongs to this round.
            self.round.deadline = round.deadline;
            let pause = SHORTEST + pool.random.within(SPREAD);
            if refused.is_empty() || is_over || Instant::now() + pause > until {
                self.blockers = Blockers::default();
                for (node, mut reply) in refused {
                    self.count_reply(node, &mut reply);
                }
                return;
            }
            sleep(pause).await;
        }
    }
}
