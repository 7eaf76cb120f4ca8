//! One attempt to hold: enter a hold that the owner has, or ask the masters for a new one.

use std::sync::Arc;
use std::time::Duration;

use crate::cleanup::{Attempt, Debris};
use crate::error::{ExtendError, InvalidInput, LockError};
use crate::extension::extend;
use crate::fence::FencingToken;
use crate::guard::MultiLockGuard;
use crate::hold::{Granted, Hold};
use crate::masters::Pool;
use crate::name::Names;
use crate::node::{Class, Fault};
use crate::owner::{Owner, Standing};
use crate::policy::Policy;
use crate::round::{Round, Trust};
use crate::script::{self, Fence, Fencing, Renewal, Reply};
use crate::tally::{Ballot, Obstacle, Outcome, Tally};
use crate::validity::Validity;
use crate::vote::Vote;

/// The checked options of an acquisition.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) pool: Arc<Pool>,
    pub(crate) names: Names,
    pub(crate) policy: Policy,
    pub(crate) needed: usize,
    pub(crate) lease: Duration,
    /// Whether the hold is renewed while its guard lives: the call site set no lease.
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) fenced: bool,
    pub(crate) min_validity: Duration,
    pub(crate) owner: Owner,
}

/// An attempt that gave no hold.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: LockError,
    pub(crate) hindrance: Hindrance,
    /// What every master answered, in their order.
    pub(crate) votes: Vec<Vote>,
}

/// What has to change before another attempt is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// Somebody has to release, or a lease has to end.
    Held,
    /// Contenders have to get out of each other's way.
    Split,
    /// Masters have to come back.
    Unreachable,
    /// Nothing that waiting would bring.
    Final,
}

impl From<InvalidInput> for Refusal {
    fn from(invalid: InvalidInput) -> Self {
        Self::from(LockError::from(invalid))
    }
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Self {
        Self {
            error,
            hindrance: Hindrance::Final,
            votes: Vec::new(),
        }
    }
}

/// Tries once.
pub(crate) async fn acquire(plan: &Plan) -> Result<MultiLockGuard, Refusal> {
    if plan.pool.is_closed() {
        return Err(LockError::Closed.into());
    }
    match plan.owner.standing(plan.pool.client, &plan.names) {
        Standing::Inside(hold) => {
            if let Some(guard) = enter(plan, hold).await? {
                return Ok(guard);
            }
        }
        Standing::Overlapping(held) => return Err(overlapping(plan, &held).into()),
        Standing::Outside => {}
    }
    ask_masters(plan).await
}

/// Enters a hold again; `None` when it has lapsed meanwhile.
///
/// Counted only once nothing can fail any more, so a failed or cancelled re-entry leaves the hold as
/// it was.
async fn enter(plan: &Plan, hold: Arc<Hold>) -> Result<Option<MultiLockGuard>, LockError> {
    if plan.needed > hold.needed {
        let allowed = format!(
            "a policy of at most {} grants, with which the owner holds {}",
            hold.needed, hold.names
        );
        return Err(InvalidInput::new("policy", plan.policy, allowed).into());
    }
    let longer = (!plan.renew && plan.lease > hold.lease()).then_some(plan.lease);
    let ending = hold.remaining() < hold.lease() / 3;
    if longer.is_some() || ending {
        match extend(&plan.pool, &hold, longer.unwrap_or_else(|| hold.lease())).await {
            Err(ExtendError::NotExtended { votes, .. }) if longer.is_some() => {
                return Err(LockError::Unreachable { votes });
            }
            // Without a longer lease to honour, what is left will do; a lost hold shows below.
            _ => {}
        }
    }
    Ok(MultiLockGuard::enter(
        &plan.pool,
        &hold,
        &plan.owner,
        plan.min_validity,
        plan.renew,
    ))
}

fn overlapping(plan: &Plan, held: &Names) -> InvalidInput {
    let allowed = format!("names within {held}, which the owner holds, or apart from them");
    InvalidInput::new("names", &plan.names, allowed)
}

/// One round with an owner field that was never used before; a second one only when a master had seen
/// a larger fencing token.
async fn ask_masters(plan: &Plan) -> Result<MultiLockGuard, Refusal> {
    let pool = &plan.pool;
    let debris = Debris {
        names: plan.names.clone(),
        field: pool.fresh_field(),
        token: FencingToken::NONE,
    };
    let field = Arc::clone(&debris.field);
    let mut token = if plan.fenced {
        pool.propose_token()
    } else {
        FencingToken::NONE
    };
    let fence = Fence {
        token,
        retention: pool.config.fence_retention,
    };
    let request = script::acquire(&plan.names, &field, 1, plan.lease, fence);
    let mut tally = Tally::new(pool.slots.len(), plan.needed);
    let mut attempt = Attempt::new(pool, debris, tally.blocking());
    let (mut denied, mut accepted) = (0, 0);
    let begun = pool.clock.now();
    let validity = Validity::of_lease(begun, plan.lease, pool.config.drift_factor);
    let mut round = Round::begin(
        pool,
        &request,
        pool.config.node_timeout,
        Trust::Quorum(plan.needed),
        |_| true,
    );
    while let Some((place, answer)) = round.next().await {
        denied += usize::from(is_denied(&answer));
        let answer = read(answer);
        pool.tokens.saw(answer.highest);
        accepted += usize::from(answer.accepted);
        attempt.votes[place] = answer.vote;
        tally.count(answer.ballot);
        let over = match tally.outcome() {
            Outcome::Pending => false,
            Outcome::Won => true,
            // The reason is worth the answers that are on their way: held or unreachable?
            Outcome::Lost => tally.obstacle().is_some(),
        };
        if over {
            break;
        }
    }
    if tally.outcome() != Outcome::Won {
        let (error, hindrance) = explain(plan, &tally, denied, &attempt.votes);
        tracing::debug!(names = %plan.names, %error, "round lost");
        // Dropping the attempt rolls it back.
        return Err(Refusal {
            error,
            hindrance,
            votes: attempt.votes.clone(),
        });
    }
    if plan.fenced && accepted < plan.needed {
        token = pool.propose_token();
        if !raise(plan, &field, token, &attempt.votes).await {
            let votes = attempt.votes.clone();
            let error = LockError::Unfenced {
                votes: pool.evidence(&votes),
            };
            return Err(Refusal {
                error,
                hindrance: Hindrance::Split,
                votes,
            });
        }
    }
    let hold = Arc::new(Hold::new(
        pool.clock,
        Granted {
            client: pool.client,
            names: plan.names.clone(),
            field,
            needed: plan.needed,
            token,
            acquired: begun,
            validity,
            lease: plan.lease,
            votes: attempt.votes.clone(),
            max_hold: plan.max_hold,
        },
    ));
    // Entered only with validity left, by the clock after the last answer that was needed.
    let Some(guard) = MultiLockGuard::enter(pool, &hold, &plan.owner, plan.min_validity, plan.renew) else {
        let votes = attempt.votes.clone();
        let error = LockError::TooLate {
            validity: hold.remaining(),
            votes: pool.evidence(&votes),
        };
        return Err(Refusal {
            error,
            hindrance: Hindrance::Split,
            votes,
        });
    };
    attempt.settle();
    let late = Arc::clone(&hold);
    round.note_stragglers(move |place, answer| late.note_vote(place, read(answer).vote));
    tracing::debug!(names = %plan.names, granted = tally.granted(), validity = ?guard.validity(), "lock acquired");
    plan.owner.remember(&hold);
    if !plan.renew {
        // To notice its end; one that is renewed is looked after already.
        pool.watchdog.watch(&hold);
    }
    Ok(guard)
}

/// Asks the masters that granted to accept a larger token; whether a quorum did. A token counts only
/// where grant and acceptance met, so the others are not asked.
async fn raise(plan: &Plan, field: &Arc<str>, token: FencingToken, votes: &[Vote]) -> bool {
    let pool = &plan.pool;
    let renewal = Renewal {
        names: &plan.names,
        owner: field,
        count: 1,
        lease: plan.lease,
        token,
    };
    let request = script::extend(
        std::iter::once(renewal),
        pool.config.fence_retention,
        Fencing::Raise,
    );
    let granted = |place: usize| votes[place] == Vote::Granted;
    let mut round = Round::begin(
        pool,
        &request,
        pool.config.node_timeout,
        Trust::Quorum(plan.needed),
        granted,
    );
    let mut accepted = 0;
    while accepted < plan.needed
        && let Some((_, answer)) = round.next().await
    {
        let replies = answer
            .ok()
            .and_then(|value| script::parse_extended(&value))
            .unwrap_or_default();
        accepted += usize::from(matches!(
            replies.first(),
            Some(Reply::Granted { accepted: true, .. })
        ));
    }
    tracing::debug!(names = %plan.names, %token, accepted, "asked for a larger fencing token");
    accepted >= plan.needed
}

/// A master's answer to an acquire.
struct Answer {
    vote: Vote,
    ballot: Ballot,
    /// Granted, and the token was accepted with it.
    accepted: bool,
    /// The largest token that the master had stored.
    highest: u64,
}

fn read(answer: Result<redis::Value, Fault>) -> Answer {
    let of = |vote, ballot| Answer {
        vote,
        ballot,
        accepted: false,
        highest: 0,
    };
    match answer.map(|value| (script::parse_reply(&value), value)) {
        Ok((Some(Reply::Granted { accepted, highest }), _)) => Answer {
            accepted,
            highest,
            ..of(Vote::Granted, Ballot::Granted)
        },
        Ok((
            Some(Reply::Refused {
                remaining,
                holder,
                highest,
            }),
            _,
        )) => Answer {
            highest,
            ..of(Vote::Refused { remaining }, Ballot::Refused(holder))
        },
        Ok((Some(Reply::Revoked), _)) => of(Vote::Revoked, Ballot::None),
        Ok((Some(Reply::Absent) | None, value)) => {
            let reason = format!("unexpected answer to acquire: {value:?}").into();
            of(Vote::Unknown { reason }, Ballot::None)
        }
        Err(fault) => of(fault.vote(), Ballot::None),
    }
}

fn is_denied(answer: &Result<redis::Value, Fault>) -> bool {
    answer.as_ref().err().and_then(Fault::class) == Some(Class::Denied)
}

/// Why the round did not give a hold.
fn explain(plan: &Plan, tally: &Tally, denied: usize, votes: &[Vote]) -> (LockError, Hindrance) {
    let evidence = plan.pool.evidence(votes);
    match tally.obstacle() {
        Some(Obstacle::Held) => {
            let retry_after = held_for(plan, tally, votes);
            (
                LockError::Contended {
                    retry_after,
                    votes: evidence,
                },
                Hindrance::Held,
            )
        }
        Some(Obstacle::Split) => {
            let retry_after = plan.pool.config.node_timeout;
            (
                LockError::Contended {
                    retry_after,
                    votes: evidence,
                },
                Hindrance::Split,
            )
        }
        _ if denied >= tally.blocking() => (LockError::Misconfigured { votes: evidence }, Hindrance::Final),
        _ => (LockError::Unreachable { votes: evidence }, Hindrance::Unreachable),
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
