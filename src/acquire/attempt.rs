//! One attempt at a new hold: a round of acquire, and what its answers mean.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};

use crate::acquire::terms::{Plan, Refusal};
use crate::error::LockError;
use crate::guard::MultiLockGuard;
use crate::hold::client::Client;
use crate::hold::ends::Ends;
use crate::hold::release::Attempt;
use crate::hold::vote_record::Places;
use crate::hold::{Granted, Hold};
use crate::protocol::calls::{self, Fence, Fencing, Renewal};
use crate::protocol::claim::Claim;
use crate::protocol::reply::Reply;
use crate::protocol::tally::{Obstacle, Outcome, Tally};
use crate::round::pool::Pool;
use crate::round::{Forgotten, Round, Trust};
use crate::time::validity::Validity;
use crate::token::FencingToken;
use crate::votes::Vote;

/// Where very many wait, their questions come in bursts, and a master may be a few milliseconds behind.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(4);

/// One round with an owner field that was never used before; a second one only when a master had seen
/// a larger fencing token.
pub(crate) async fn attempt(plan: &Plan) -> Result<MultiLockGuard, Refusal> {
    let client = &plan.client;
    let pool = &client.pool;
    let claim = Claim {
        names: plan.names.clone(),
        field: client.fresh_field(),
        token: FencingToken::NONE,
    };
    let field = claim.field;
    let owner = field.text();
    let mut token = if plan.fenced {
        client.propose_token()
    } else {
        FencingToken::NONE
    };
    let fence = Fence {
        token,
        retention: pool.config.fence_retention,
    };
    let reckoned = pool.reckoning.longest_lease();
    let request = calls::acquire(&plan.names, &owner, 1, plan.lease, fence, pool.terms());
    let mut tally = Tally::new(pool.slots.len(), plan.needed);
    let mut attempt = Attempt::new(pool, claim, tally.blocking());
    let mut round = Round::begin(pool, &request, Trust::Quorum(plan.needed), |_| true).worth(plan.needed);
    let begun = round.begun();
    let validity = Validity::of_lease(begun, plan.lease, pool.config.drift_factor);
    count(client, &mut round, &mut tally, &mut attempt).await;
    if tally.outcome() != Outcome::Won {
        let (error, obstacle) = explain(plan, &tally, &attempt.votes);
        tracing::debug!(names = %plan.names, %error, "round lost");
        let votes = attempt.votes.clone();
        if obstacle == Obstacle::Held && plan.waits {
            hear_out(pool, round, attempt);
        }
        // Else dropping the attempt rolls it back.
        return Err(Refusal {
            error,
            obstacle,
            votes,
        });
    }
    if plan.fenced && tally.accepted() < plan.needed {
        token = client.propose_token();
        if !raise(plan, owner, token, &attempt.votes, round.deadline()).await {
            let votes = attempt.votes.clone();
            let error = LockError::Unfenced {
                votes: pool.evidence(&votes),
            };
            return Err(Refusal {
                error,
                obstacle: Obstacle::Split,
                votes,
            });
        }
    }
    if pool.reckoning.longest_lease() != reckoned {
        // Votes are judged by what is known when they are counted, and these were judged by less.
        return Err(plan.split(attempt.votes.clone()));
    }
    // What a clock was seen to step by since the round began is off its end, also while the round was
    // under way.
    let granted = Places::of(&attempt.votes, |vote| *vote == Vote::Granted);
    let ends = Ends::new(validity, granted, plan.needed, &pool.steps, round.steps());
    let hold = Arc::new(Hold::new(
        pool.clock,
        Granted {
            names: plan.names.clone(),
            field,
            needed: plan.needed,
            token,
            acquired: begun,
            ends,
            lease: plan.lease,
            votes: attempt.votes.clone(),
            max_hold: plan.max_hold,
        },
    ));
    // Entered only with validity left, by the clock after the last answer that was needed.
    let Ok(guard) = MultiLockGuard::enter(
        client,
        Arc::clone(&hold),
        plan.owner.as_ref(),
        pool.clock.now(),
        plan.min_validity,
        plan.renew,
    ) else {
        return Err(plan.too_late(hold.remaining(), attempt.votes.clone()));
    };
    if !plan.renew {
        // To notice its end; one that is renewed is looked after already.
        client.watchdog.watch(&hold);
    }
    if pool.is_closed() {
        // Whoever closes the pool after this look finds the hold with the watchdog. Before it, closing
        // waits for the attempt, until its guard has sent the release.
        drop(guard);
        attempt.settle();
        return Err(LockError::Closed.into());
    }
    attempt.settle();
    hear_late(pool, round, &hold, reckoned);
    tracing::debug!(names = %plan.names, granted = tally.granted(), validity = ?guard.validity(), "lock acquired");
    if let Some(owner) = &plan.owner {
        owner.remember(&hold);
    }
    Ok(guard)
}

/// Takes in what the rest of the masters answers. One that grants adds an end of its own, unless more is
/// known of others' leases than its vote was judged by.
fn hear_late(pool: &Pool, round: Round, hold: &Arc<Hold>, reckoned: Duration) {
    let (hold, reckoning, begun) = (Arc::clone(hold), Arc::clone(&pool.reckoning), round.begun());
    // The hold may be given up at any moment, and a late acquire must not follow its release.
    let note = move |place, answer| {
        let vote = Reply::acquired(answer).vote;
        if vote == Vote::Granted && reckoning.longest_lease() == reckoned {
            hold.confirm(place, begun);
        }
        hold.note_vote(place, vote);
    };
    round.leave(Forgotten::Loaded, note);
}

/// Counts answers until the outcome is certain, and, if the round is lost, its reason: held or
/// unreachable is worth the answers that are on their way.
async fn count(client: &Client, round: &mut Round, tally: &mut Tally, attempt: &mut Attempt) {
    while let Some((place, answer)) = round.next().await {
        let reply = Reply::acquired(answer);
        client.tokens.saw(reply.highest);
        tally.count(&reply);
        attempt.votes[place] = reply.vote;
        let over = match tally.outcome() {
            Outcome::Pending => false,
            Outcome::Won => true,
            Outcome::Lost => tally.obstacle().is_some(),
        };
        if over {
            break;
        }
    }
    if tally.obstacle() == Some(Obstacle::Unreachable) {
        // Nothing is waited for, but what is here tells who was silent.
        while let Some(Some((place, answer))) = round.next_as_sent().now_or_never() {
            attempt.votes[place] = Reply::acquired(answer).vote;
        }
    }
}

/// Rolls back an attempt that met a holder, after the answers that are as good as here: where they say
/// that the holder refuses too, nothing is to be released, and a waiter costs those masters one
/// command instead of two. Only for one that waits now: what comes right behind is to find the attempt
/// rolled back.
fn hear_out(pool: &Arc<Pool>, mut round: Round, mut attempt: Attempt) {
    let patience = round.elapsed().max(SHORTEST_PATIENCE);
    pool.in_background(async move {
        let hearing = async {
            while let Some((place, answer)) = round.next_as_sent().await {
                attempt.votes[place] = Reply::acquired(answer).vote;
            }
        };
        // Who takes longer is told, in order after its acquire.
        let _ = timeout(patience, hearing).await;
    });
}

/// Asks the masters that granted to accept a larger token; whether a quorum did. A token counts only
/// where grant and acceptance met, so the others are not asked.
async fn raise(plan: &Plan, owner: String, token: FencingToken, votes: &[Vote], deadline: Instant) -> bool {
    let pool = &plan.client.pool;
    let renewal = Renewal {
        names: &plan.names,
        owner,
        count: 1,
        lease: plan.lease,
        token,
    };
    let request = calls::extend(
        &[renewal],
        pool.config.fence_retention,
        Fencing::Raise,
        pool.terms(),
    );
    let granted = |place: usize| votes[place] == Vote::Granted;
    let mut round = Round::begin(pool, &request, Trust::Quorum(plan.needed), granted).until(deadline);
    let mut accepted = 0;
    while accepted < plan.needed
        && let Some((_, answer)) = round.next().await
    {
        accepted += usize::from(Reply::extended(answer, 1)[0].accepted);
    }
    tracing::debug!(names = %plan.names, %token, accepted, "asked for a larger fencing token");
    accepted >= plan.needed
}

/// Why the round did not give a hold.
fn explain(plan: &Plan, tally: &Tally, votes: &[Vote]) -> (LockError, Obstacle) {
    let evidence = plan.client.pool.evidence(votes);
    match tally.obstacle() {
        Some(Obstacle::Held) => {
            let retry_after = held_for(plan, tally, votes);
            (
                LockError::Contended {
                    retry_after,
                    votes: evidence,
                },
                Obstacle::Held,
            )
        }
        Some(Obstacle::Split) => {
            let retry_after = plan.client.pool.config.node_timeout;
            (
                LockError::Contended {
                    retry_after,
                    votes: evidence,
                },
                Obstacle::Split,
            )
        }
        _ if tally.denied() >= tally.blocking() => {
            (LockError::Misconfigured { votes: evidence }, Obstacle::Final)
        }
        _ => (LockError::Unreachable { votes: evidence }, Obstacle::Unreachable),
    }
}

/// Until so many refusals have expired that a quorum is possible.
fn held_for(plan: &Plan, tally: &Tally, votes: &[Vote]) -> Duration {
    let mut terms: Vec<Duration> = votes
        .iter()
        .filter_map(|vote| match vote {
            // A key without an expiry is freed by its holder alone: look again after a lease.
            Vote::Refused { remaining } => Some(remaining.unwrap_or(plan.lease)),
            _ => None,
        })
        .collect();
    terms.sort_unstable();
    let missing = plan.needed.saturating_sub(tally.granted()).max(1);
    terms
        .get(missing - 1)
        .or(terms.last())
        .copied()
        .unwrap_or(plan.lease)
}
