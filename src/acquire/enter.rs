//! To hold: enter a hold that the owner has, or attempt a new one.

use std::sync::Arc;

use crate::acquire::attempt::attempt;
use crate::acquire::refusal::Refusal;
use crate::acquire::terms::Plan;
use crate::error::{ExtendError, InvalidInput, LockError};
use crate::guard::MultiLockGuard;
use crate::hold::extend::extend;
use crate::hold::{Hold, Term};
use crate::names::Names;
use crate::owner::Standing;
use crate::protocol::tally::Obstacle;
use crate::token::FencingToken;

/// Tries once.
pub(crate) async fn acquire(plan: &Plan) -> Result<MultiLockGuard, Refusal> {
    if plan.client.pool.is_closed() {
        return Err(LockError::Closed.into());
    }
    match plan.standing() {
        Standing::Inside(hold, term) => {
            if let Some(guard) = enter(plan, hold, term).await? {
                return Ok(guard);
            }
        }
        Standing::Overlapping(held) => return Err(overlapping(plan, &held).into()),
        Standing::Outside => {}
    }
    plan.client.pool.chartered(plan.lease)?;
    plan.client.pool.relief(plan.needed).await;
    let reckoned = plan.client.pool.reckoning.longest_lease();
    let mut attempted = attempt(plan).await;
    if attempted.is_err() && plan.client.pool.reckoning.longest_lease() != reckoned {
        // Too little was reckoned with. With what the masters have told, it is tried anew at once.
        attempted = attempt(plan).await;
    }
    attempted
}

/// Enters a hold again; `None` when it has lapsed or was leaked meanwhile.
///
/// Counted only once nothing can fail any more, so a failed or cancelled re-entry leaves the hold as
/// it was.
async fn enter(
    plan: &Plan,
    hold: Arc<Hold>,
    Term {
        at: mut now,
        left,
        lease,
    }: Term,
) -> Result<Option<MultiLockGuard>, Refusal> {
    if plan.needed > hold.needed {
        let allowed = format!(
            "a policy of at most {} grants, with which the owner holds {}",
            hold.needed, hold.names
        );
        return Err(InvalidInput::new("policy", plan.policy, allowed).into());
    }
    if plan.fenced && hold.token == FencingToken::NONE {
        let allowed = format!("false, as the owner holds {} without a token", hold.names);
        return Err(InvalidInput::new("fenced", plan.fenced, allowed).into());
    }
    let longer = (!plan.renew && plan.lease > lease).then_some(plan.lease);
    if longer.is_some() || left < lease / 3 || left <= plan.min_validity {
        match extend(&plan.client, &hold, longer.unwrap_or(lease)).await {
            Err(ExtendError::NotExtended { votes, .. }) if longer.is_some() => {
                let error = LockError::Unreachable { votes };
                return Err(Refusal {
                    error,
                    obstacle: Obstacle::Unreachable,
                    votes: hold.votes(),
                });
            }
            Err(ExtendError::Unchartered(unchartered)) => return Err(unchartered.into()),
            // Without a longer lease to honour, what is left will do; a lost hold shows below.
            _ => {}
        }
        now = plan.client.pool.clock.now();
    }
    match plan.enter(hold, now) {
        Ok(guard) => Ok(Some(guard)),
        // The owner's own hold would refuse a new attempt.
        Err(hold) if !hold.term(now).left.is_zero() => {
            Err(Refusal::too_late(plan, hold.remaining(), hold.votes()))
        }
        Err(_) => Ok(None),
    }
}

fn overlapping(plan: &Plan, held: &Names) -> InvalidInput {
    let allowed = format!("names within {held}, which the owner holds, or apart from them");
    InvalidInput::new("names", &plan.names, allowed)
}
