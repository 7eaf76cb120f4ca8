//! A hold is taken on a master that does not have it, because the master has forgotten it or was not asked.

use std::sync::Arc;
use std::time::Duration;

use crate::events::Op;
use crate::hold::grant::Grant;
use crate::protocol::calls::{self, Acquire, Fencing};
use crate::protocol::caption::Caption;
use crate::protocol::fault::Fault;
use crate::protocol::node_set::NodeSet;
use crate::protocol::reply::Reply;
use crate::protocol::waiter::Precedence;
use crate::round::pool::Pool;
use crate::round::{Round, Trust};
use crate::values::votes::Vote;

/// Asks one master; `None` if the hold has ended. The request is sent at once, and so before the release of the hold.
/// The future returns the master's vote, and its round, which has not counted the vote yet.
pub(super) fn begin(
    pool: &Arc<Pool>,
    grant: &Arc<Grant>,
    lease: Duration,
    node: usize,
) -> Option<impl Future<Output = (Round, Vote)> + Send + use<>> {
    let mut round = ask(pool, grant, lease, node)?;
    let (pool, grant) = (Arc::clone(pool), Arc::clone(grant));
    Some(async move {
        let mut answer = round.next_as_sent().await;
        // The script of permits is loaded when a master is first asked with it, so it is there for another request.
        if answer
            .as_ref()
            .is_some_and(|(_, answer)| Fault::is_no_script(answer))
            && let Some(again) = ask(&pool, &grant, lease, node)
        {
            round = again;
            answer = round.next_as_sent().await;
        }
        let vote = answer.map_or(Vote::Pending, |(_, answer)| Reply::acquired(answer).vote);
        (round, vote)
    })
}

fn ask(pool: &Arc<Pool>, grant: &Grant, lease: Duration, node: usize) -> Option<Round> {
    grant.while_valid(node, |count, kind| {
        let acquire = Acquire {
            names: &grant.names,
            kind,
            field: &grant.field.text(),
            count,
            lease,
            tokens: grant.tokens,
            fencing: Fencing::Declared,
            precedence: Precedence::Resumed,
            about: grant.caption.as_deref().map(Caption::text),
            once: None,
            permits: grant.permits,
        };
        let request = calls::acquire(&acquire, pool.config.strict);
        let round = Round::begin(pool, &request, Trust::Quorum(grant.needed), NodeSet::one(node));
        round.trace_quorum(1).counted_as(Op::Retake)
    })
}

/// Takes a grant on the masters that do not have it. From then on some of its masters may forget
/// it. Its expiry rests on the first masters until a renewal: the others had no part of the grant in between.
pub(crate) fn widen(pool: &Arc<Pool>, grant: &Arc<Grant>) {
    // Nothing is sent to a master that is away, so no release becomes pending there either.
    let here = |node: &usize| pool.slots[*node].link().is_ok();
    let missing = grant.state().widen();
    for node in missing.iter().filter(here) {
        let Some(asked) = begin(pool, grant, grant.lease(), node) else {
            return;
        };
        let grant = Arc::clone(grant);
        pool.in_background(async move {
            let (mut round, vote) = asked.await;
            round.voted(node, &vote);
            grant.note_vote(node, vote);
        });
    }
}
