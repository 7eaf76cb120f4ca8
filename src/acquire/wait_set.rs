//! The wait for all locks of a set, from the call until a quorum of the masters grants each of them. Each lock has a waiter
//! as a single lock has (`wait.rs`).
//!
//! Processes have no common order in which they take the locks of their sets one after the other. So each
//! round asks for all locks of a set, and none is held during the wait for another. If a round loses one
//! lock, the locks that it wins are given back at once. All waiters of a set have one ticket: the oldest set
//! is the first in each of its queues.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{select_all, try_join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep, sleep_until};

use crate::acquire::outcome::{Guards, LastRefusal, MemberError};
use crate::acquire::patience::Patience;
use crate::acquire::pauses::SPLIT;
use crate::acquire::refusal::Refusal;
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::tally::LossReason;
use crate::values::names::Names;

/// Window of the random delay of a set's ticket. Two sets that begin at once draw the same ticket once in as
/// many microseconds.
const SPREAD: Duration = Duration::from_millis(1);

/// The refusal of each lock; `None` for a lock that was granted.
type Refusals = Vec<Option<Refusal>>;

/// Waits until all locks are granted in one round. The last refusal is left in `last`, for the error after the
/// caller's time.
///
/// # Cancel safety
///
/// Dropped at any point with its waiters, the call withdraws from all queues, and rolls back.
pub(super) async fn wait_for_all(
    waiters: &mut [Waiting<'_>],
    last: &mut LastRefusal,
) -> Result<Guards, MemberError<LockError>> {
    let mut patience = Patience::of_a_wait_since(waiters[0].since);
    let agreed = agree(waiters);
    let mut blocked: Option<Blocked> = None;
    loop {
        for (index, waiter) in waiters.iter_mut().enumerate() {
            waiter.yield_to_foreign().await.map_err(|error| (index, error))?;
        }
        waiters.iter_mut().for_each(Waiting::prepare);
        // A ticket that is ahead of the masters' clocks is drawn again.
        let has_one_ticket =
            agreed.is_some_and(|agreed| waiters.iter().all(|waiter| waiter.ticket() == agreed));
        // The lock in the way keeps its place if it is granted now and another lock is refused. Otherwise the
        // set would wait for each of the two in turn.
        let is_reserved = |index: usize| {
            let has_time = |blocked: Blocked| (index == blocked.by) || Instant::now() < blocked.until;
            has_one_ticket && blocked.is_none_or(has_time)
        };
        let refused = match ask_all(waiters, is_reserved).await? {
            SetRound::Won(guards) => return Ok(guards),
            SetRound::Lost(refused) => refused,
        };
        *last = longest(&refused).map(|(index, error)| (index, Arc::new(error.clone())));
        if let Some((index, why)) = last {
            patience.log_if_due(waiters[*index].request, Some(why));
        }
        let is_split = refused.iter().any(Option::is_none);
        // The lock in the way is the same as before, unless it was granted this time.
        let still = blocked.filter(|blocked| refused[blocked.by].is_some());
        let in_the_way = still.unwrap_or_else(|| Blocked::by(waiters, &refused));
        blocked = Some(in_the_way);
        rest_together(waiters, &refused, in_the_way, has_one_ticket).await?;
        if is_split && !has_one_ticket {
            // Other sets do the same with other tickets. Only random pauses separate them.
            sleep(waiters[0].pauses.next(SPLIT)).await;
        }
    }
}

/// Outcome of a round for all locks.
enum SetRound {
    Won(Guards),
    Lost(Refusals),
}

/// Asks for all locks. After the first refusal, each further lock that is won is given back at once. A waiter
/// that `is_reserved` accepts keeps its places in the queues.
async fn ask_all(
    waiters: &mut [Waiting<'_>],
    is_reserved: impl Fn(usize) -> bool,
) -> Result<SetRound, MemberError<LockError>> {
    let mut won: Vec<Option<HoldGuard>> = waiters.iter().map(|_| None).collect();
    let mut refused: Refusals = waiters.iter().map(|_| None).collect();
    let entries: Vec<_> = waiters
        .iter()
        .map(|waiter| Some((waiter.queued_entry()?.clone(), &waiter.request.names)))
        .collect();
    let mut attempts: FuturesUnordered<_> = waiters.iter_mut().enumerate().map(ask_member).collect();
    let give_back = |won: &mut [Option<HoldGuard>], refused: &Refusals| {
        for (index, guard) in won.iter_mut().enumerate() {
            let keeps_place = refused[index].is_none() && is_reserved(index);
            if let Some(guard) = guard.take() {
                // A hold that its owner entered again may have more names, for which this waiter does not wait.
                let waits_for = |own: &Names| *own == guard.hold().grant.claim().queued_under();
                let entry = entries[index]
                    .as_ref()
                    .filter(|(_, own)| keeps_place && waits_for(own));
                let entry = entry.map(|(entry, _)| entry.clone());
                guard.give_back(entry);
            }
        }
    };
    let mut is_lost = false;
    while let Some((index, attempted)) = attempts.next().await {
        match attempted {
            Ok(guard) => won[index] = Some(guard),
            Err(refusal) if refusal.reason == LossReason::Final => return Err((index, refusal.error)),
            Err(refusal) => {
                refused[index] = Some(refusal);
                is_lost = true;
            }
        }
        if is_lost {
            give_back(&mut won, &refused);
        }
    }
    drop(attempts);
    if !is_lost {
        // The rounds for the others may have taken long.
        for ((waiter, guard), refused) in waiters.iter().zip(&won).zip(&mut refused) {
            let check = |guard| Refusal::check_validity(waiter.request, guard).err();
            *refused = guard.as_ref().and_then(check);
        }
        if refused.iter().all(Option::is_none) {
            return Ok(SetRound::Won(won.into_iter().flatten().collect()));
        }
        give_back(&mut won, &refused);
    }
    for (waiter, refused) in waiters.iter_mut().zip(&refused) {
        if refused.is_none() {
            waiter.could_win = true;
        }
    }
    Ok(SetRound::Lost(refused))
}

/// Asks for one lock of a set.
async fn ask_member((index, waiter): (usize, &mut Waiting<'_>)) -> MemberError<Result<HoldGuard, Refusal>> {
    (index, waiter.ask().await)
}

/// The lock that is in the way.
#[derive(Clone, Copy)]
struct Blocked {
    by: usize,
    /// End of the time for which the set keeps its places at the other locks: as long as a waiter may take to come
    /// after a call.
    until: Instant,
}

impl Blocked {
    /// Takes the lock that stays locked for longest.
    fn by(waiters: &[Waiting<'_>], refused: &[Option<Refusal>]) -> Self {
        let by = longest(refused).map_or(0, |(index, _)| index);
        Self {
            by,
            until: Instant::now() + waiters[by].entry.waiter.comes_within,
        }
    }
}

/// Sleeps until another round is worthwhile for each lock that was refused. After a while only the lock in
/// the way keeps its place and is awaited: at the other locks, other waiters have waited long enough behind
/// the set.
async fn rest_together(
    waiters: &mut [Waiting<'_>],
    refused: &[Option<Refusal>],
    blocked: Blocked,
    has_one_ticket: bool,
) -> Result<(), MemberError<LockError>> {
    let pools = waiters.iter().map(|waiter| &waiter.request.client.pool);
    let closing: Vec<_> = pools.map(|pool| pool.closing.clone()).collect();
    let closed = select_all(closing.iter().map(|closing| Box::pin(closing.cancelled())));
    let resting = async {
        let members = waiters.iter_mut().enumerate();
        let (mut awaited, mut others): (Vec<_>, Vec<_>) =
            members.partition(|(index, _)| *index == blocked.by);
        let Some(awaited) = awaited.first_mut() else {
            return Ok(());
        };
        let mut awaited = pin!(rest_of(awaited, refused));
        let has_time = has_one_ticket && Instant::now() < blocked.until;
        if has_time {
            // The next round is worthwhile once the lock in the way is open. That round shows at once whether
            // another lock is in the way, and then the time for that lock begins. The others are polled
            // first: each takes in its refusal.
            tokio::select! {
                biased;
                Err(error) = try_join_all(others.iter_mut().map(|member| rest_of(member, refused))) => return Err(error),
                rested = &mut awaited => return rested,
                () = sleep_until(blocked.until) => {}
            }
        }
        for (index, waiter) in others {
            if let Some(refusal) = refused[index].as_ref().filter(|_| !has_time) {
                waiter.refused(refusal);
            }
            waiter.withdraw();
        }
        awaited.await
    };
    tokio::select! {
        biased;
        ((), index, _) = closed => Err((index, LockError::Closed)),
        rested = resting => rested,
    }
}

/// Sleep of a waiter that was refused. A waiter that was granted does not sleep.
async fn rest_of(
    (index, waiter): &mut (usize, &mut Waiting<'_>),
    refused: &[Option<Refusal>],
) -> Result<(), MemberError<LockError>> {
    match &refused[*index] {
        Some(refusal) => waiter.rest_after(refusal).await.map_err(|error| (*index, error)),
        None => Ok(()),
    }
}

/// Gives all waiters of a set one ticket: a random time of at most [`SPREAD`] after the latest ticket that they drew,
/// so that no two sets have the same. Returns `None` if the clocks of their masters are too far apart or unknown.
fn agree(waiters: &mut [Waiting<'_>]) -> Option<u64> {
    let random = &waiters.first()?.request.client.pool.random;
    let later = u64::try_from(random.within(SPREAD).as_micros()).unwrap_or(0);
    let latest = waiters.iter().map(Waiting::ticket).max()? + later;
    let all = waiters.iter_mut().all(|waiter| waiter.take_ticket(latest));
    all.then_some(latest)
}

/// Refused lock that stays locked for longest.
fn longest(refused: &[Option<Refusal>]) -> Option<MemberError<&LockError>> {
    let errors = refused.iter().enumerate();
    let errors = errors.filter_map(|(index, refused)| Some((index, &refused.as_ref()?.error)));
    errors.max_by_key(|(_, error)| match error {
        LockError::Contended { retry_after, .. } => *retry_after,
        _ => Duration::MAX,
    })
}
