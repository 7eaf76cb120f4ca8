//! The calls for locks: one try, or a wait of at most a given time. A single lock is a set of one.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

use crate::acquire::conflict::overlap;
use crate::acquire::enter::{Reentry, acquire, reenter};
use crate::acquire::in_the_way::in_the_way;
use crate::acquire::outcome::{Guards, LastRefusal, MemberError};
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::wait::wait_for_one;
use crate::acquire::wait_set::wait_for_all;
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::lock::hold_guard::HoldGuard;
use crate::lock::owner::OwnerRelation;
use crate::masters::config::bounded;
use crate::protocol::tally::LossReason;

/// Tries once for a single lock. If only grants are in the way that may be idle, waits for the node timeout at most until
/// their client gives them up.
pub(crate) async fn try_one(request: &mut AcquireRequest) -> Result<HoldGuard, LockError> {
    request.begin();
    // Most entries of an owner end with the first, which costs less than a call of an async function.
    let acquired = match reenter(request) {
        Ok(Reentry::Entered(guard)) => Ok(guard),
        _ => match acquire(request).await {
            Ok(guard) => Ok(guard),
            Err(refusal) => wait_if_idle(request, refusal)
                .await
                .map_err(|refusal| refusal.error),
        },
    };
    request.ended(acquired.as_ref());
    acquired
}

/// Apart from the try: one more async function around both costs each lock 150 instructions (`make instructions`).
async fn wait_if_idle(request: &AcquireRequest, refusal: Refusal) -> Result<HoldGuard, Refusal> {
    if !may_be_idle(&refusal) {
        return Err(refusal);
    }
    let until = Instant::now() + request.client.pool.config.node_timeout;
    // Few calls need it, and its state is large.
    Box::pin(wait_for_idle(request, until)).await.ok_or(refusal)
}

/// Whether only grants are in the way that nobody may hold.
fn may_be_idle(refusal: &Refusal) -> bool {
    refusal.reason == LossReason::Held && refusal.blockers.only_idle
}

/// Waits with the last ticket, so that masters recall the idle grants that are in the way.
async fn wait_for_idle(request: &AcquireRequest, until: Instant) -> Option<HoldGuard> {
    if Handle::try_current().is_err() {
        return None;
    }
    let mut waiter = Waiting::begin_last(request);
    let recalled = timeout_at(until, wait_for_one(&mut waiter, &mut None)).await;
    recalled.ok()?.ok()
}

/// Tries once.
pub(crate) async fn try_lock(all: &mut [AcquireRequest]) -> Result<Guards, MemberError<LockError>> {
    all.iter_mut().for_each(AcquireRequest::begin);
    let acquired = try_set(all).await;
    ended(all, acquired.map_err(|(index, refusal)| (index, refusal.error)))
}

/// Waits until all are granted. With a wait of zero, or outside of a tokio runtime, it tries once.
pub(crate) async fn lock(
    all: &mut [AcquireRequest],
    wait: Option<Duration>,
) -> Result<Guards, MemberError<LockError>> {
    if Handle::try_current().is_err() {
        return try_lock(all).await;
    }
    all.iter_mut().for_each(AcquireRequest::begin);
    if let [alone] = &*all
        && !alone.client.idle.is_empty()
        && matches!(alone.relation(), OwnerRelation::Outside)
        && let Some(guard) = alone.take_idle()
    {
        return ended(all, Ok(Guards::from_buf([guard])));
    }
    let begun = Instant::now();
    let mut last = None;
    let acquired = match wait.and_then(bounded) {
        Some(Duration::ZERO) => match try_set(all).await {
            // Only time can help.
            Err((index, refusal)) if refusal.reason != LossReason::Final => {
                last = Some((index, Arc::new(refusal.error)));
                None
            }
            tried => Some(tried.map_err(|(index, refusal)| (index, refusal.error))),
        },
        Some(wait) => timeout_at(begun + wait, until_granted(all, &mut last)).await.ok(),
        None => Some(until_granted(all, &mut last).await),
    };
    let acquired = acquired.unwrap_or_else(|| {
        // Before the first round has ended, the first lock stands for all.
        let (index, last) = last.map_or((0, None), |(index, error)| (index, Some(error)));
        let last = Some(Box::new(in_the_way(&all[index], last.as_deref())));
        let waited = begun.elapsed();
        Err((index, LockError::TimedOut { waited, last }))
    });
    ended(all, acquired)
}

/// Ends the trace of the call. If one lock is refused, the call of that lock ends with its error, and the
/// calls of the other locks are cancelled.
fn ended(
    all: &mut [AcquireRequest],
    acquired: Result<Guards, MemberError<LockError>>,
) -> Result<Guards, MemberError<LockError>> {
    match &acquired {
        Ok(guards) => {
            for (request, guard) in all.iter_mut().zip(guards) {
                if request.set_completes_within.is_some() {
                    guard.lift_set_bound();
                }
                request.ended(Ok(guard));
            }
        }
        Err((index, error)) => all[*index].ended(Err(error)),
    }
    acquired
}

/// Waits until all are granted, unless two of the locks turn out to want the same name of the same server.
async fn until_granted(
    all: &[AcquireRequest],
    last: &mut LastRefusal,
) -> Result<Guards, MemberError<LockError>> {
    if let [alone] = all {
        let granted = wait_for_one(&mut Waiting::begin(alone), last).await;
        return granted
            .map(|guard| Guards::from_buf([guard]))
            .map_err(|error| (0, error));
    }
    let mut waiters: Vec<_> = all.iter().map(Waiting::begin).collect();
    tokio::select! {
        biased;
        (index, invalid) = overlap(all) => Err((index, invalid.into())),
        acquired = wait_for_all(&mut waiters, last) => acquired,
    }
}

/// Tries once for all. A lock that only idle grants keep from the set is waited for and given back, and then all are tried
/// again: no lock is held during the wait for another.
async fn try_set(all: &[AcquireRequest]) -> Result<Guards, MemberError<Refusal>> {
    if let [alone] = all {
        let guard = match acquire(alone).await {
            Ok(guard) => guard,
            Err(refusal) => wait_if_idle(alone, refusal)
                .await
                .map_err(|refusal| (0, refusal))?,
        };
        return Ok(Guards::from_buf([guard]));
    }
    let mut until = None;
    loop {
        match try_all(all).await {
            Err((index, refusal)) if may_be_idle(&refusal) => {
                let node_timeout = all[index].client.pool.config.node_timeout;
                let until = *until.get_or_insert_with(|| Instant::now() + node_timeout);
                let recalled = Box::pin(wait_for_idle(&all[index], until)).await;
                drop(recalled.ok_or((index, refusal))?);
            }
            tried => return tried,
        }
    }
}

/// Asks once for all, each in a round of its own. The first refusal ends the other rounds.
async fn try_all(all: &[AcquireRequest]) -> Result<Guards, MemberError<Refusal>> {
    let attempt = |(index, request)| async move { (index, acquire(request).await) };
    let mut attempts: FuturesUnordered<_> = all.iter().enumerate().map(attempt).collect();
    let mut won = Vec::with_capacity(all.len());
    while let Some((index, attempted)) = attempts.next().await {
        won.push((index, attempted.map_err(|refusal| (index, refusal))?));
    }
    for (index, guard) in &won {
        Refusal::check_validity(&all[*index], guard).map_err(|refusal| (*index, refusal))?;
    }
    won.sort_by_key(|(index, _)| *index);
    Ok(won.into_iter().map(|(_, guard)| guard).collect())
}
