//! A hold is taken on a master that does not have it, because the master has forgotten it or was not asked.

use std::sync::Arc;
use std::time::Duration;

use crate::events::{Op, VoteKind};
use crate::hold::grant::Grant;
use crate::protocol::calls::{self, Acquire, Fencing};
use crate::protocol::caption::Caption;
use crate::protocol::reply::Reply;
use crate::protocol::waiter::Precedence;
use crate::round::pool::Pool;
use crate::round::{NoScriptFallback, Round, Trust};

/// Asks one master; `None` if the hold has ended. The request is sent before the release of the hold.
pub(super) fn begin(pool: &Arc<Pool>, grant: &Grant, lease: Duration, node: usize) -> Option<Round> {
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
            permits: None,
        };
        let request = calls::acquire(&acquire, pool.config.strict);
        let round = Round::begin(pool, &request, Trust::Quorum(grant.needed), |other| other == node);
        round.needs(1).counted_as(Op::Retake)
    })
}

/// Takes a grant on the masters that do not have it. From then on some of its masters may forget
/// it. Its expiry rests on the first masters until a renewal: the others had no part of the grant in between.
pub(crate) fn widen(pool: &Arc<Pool>, grant: &Arc<Grant>, lease: Duration) {
    // Nothing is sent to a master that is away, so it is not owed a release either.
    let here = |node: &usize| pool.slots[*node].link().is_ok();
    for node in grant.widen().iter().filter(here) {
        let Some(round) = begin(pool, grant, lease, node) else {
            return;
        };
        let grant = Arc::clone(grant);
        round.detach(NoScriptFallback::LoadOnly, move |node, answer| {
            let vote = Reply::acquired(answer).vote;
            let kind = VoteKind::of(&vote);
            grant.note_vote(node, vote);
            kind
        });
    }
}
