//! The sleep of a waiter between two attempts.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, sleep_until};

use crate::acquire::pauses::{OUTAGE, SPLIT};
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::waiting::{Asked, Waiting};
use crate::error::LockError;
use crate::events::WokenBy;
use crate::interop::subscription::{NoticeCounts, Subscription};
use crate::node::waiters::{Calls, Heard};
use crate::protocol::tally::LossReason;
use crate::values::votes::Vote;

/// A waiter that has heard nothing for so long asks again: a call may be lost, and its ticket counts only for three
/// times as long (`lua/queue.lua`).
const REASK: Duration = Duration::from_secs(5);
/// After the end of a lease, until every master has seen it end too.
const AFTER_LEASE: Duration = Duration::from_millis(2);
/// Behind clients of other libraries, which leave no order: soon after a round in which some masters granted.
const SOON: Duration = Duration::from_millis(5);
const SPREAD: Duration = Duration::from_millis(15);
/// Behind those that announce nothing: so often at first, and for so long; then every twentieth of the time waited.
const POLL: Duration = Duration::from_millis(50);
const POLLED: Duration = Duration::from_secs(2);
const RARELY: u32 = 20;

/// Sleeps until another attempt is worthwhile: until a quorum has become possible by what masters have called since
/// the last one was sent, or something else that may have changed their answers; what that was.
pub(super) async fn rest(
    request: &AcquireRequest,
    waiting: &mut Waiting<'_>,
    refusal: &Refusal,
    asked: &Asked,
) -> WokenBy {
    let blockers = &refusal.blockers;
    // A few masters may still report a waiter ahead that is just leaving.
    let is_first =
        refusal.reason == LossReason::Held && usize::from(blockers.behind_others) < request.blocking();
    if is_first && blockers.foreign_field && waiting.foreign.is_none() {
        // A release between the refusal and the subscription was announced to nobody: ask once more.
        waiting.foreign = Some(Subscription::begin(&request.client.pool, &request.names, request.kind).await);
        return WokenBy::Gap;
    }
    let timer = match refusal.reason {
        LossReason::Unreachable => waiting.pauses.next(OUTAGE),
        // It stands in no queue, so nobody calls it.
        LossReason::Held if !waiting.could_win => waiting.pauses.next(OUTAGE),
        LossReason::Held => alarm(request, waiting, refusal, is_first),
        _ => {
            sleep(waiting.pauses.next(SPLIT)).await;
            return WokenBy::Timer;
        }
    };
    let foreign = waiting.foreign.as_ref();
    let announced = foreign
        .filter(|_| is_first && blockers.foreign_field)
        .map(|foreign| {
            // Notices that came during the attempt count, except from masters that may have announced its own
            // rollback.
            let (now, noticed) = (
                foreign.heard(),
                asked.noticed.clone().unwrap_or_else(|| foreign.heard()),
            );
            (
                foreign,
                noticed.or(now, |node| waiting.rolled_back.contains(node)),
            )
        });
    tokio::select! {
        biased;
        by = called(&waiting.entry.calls, &asked.heard, &refusal.votes, request.needed) => by,
        () = released(announced, &refusal.votes) => WokenBy::Notice,
        () = appointed(&waiting.entry.calls) => WokenBy::Notice,
        () = sleep(timer) => WokenBy::Timer,
    }
}

/// When to ask again at the latest.
fn alarm(request: &AcquireRequest, waiting: &mut Waiting<'_>, refusal: &Refusal, is_first: bool) -> Duration {
    let left = match refusal.error {
        LockError::Contended { retry_after, .. } => retry_after,
        _ => REASK,
    };
    let latest = (left + AFTER_LEASE).min(REASK);
    let latest = waiting.may_keep_shut().map_or(latest, |rest| latest.min(rest));
    let soon = SOON + request.client.pool.random.within(SPREAD);
    let blockers = &refusal.blockers;
    if is_first && blockers.foreign_key {
        let waited = waiting.since.elapsed();
        let poll = if waited < POLLED {
            soon.max(waiting.pauses.next(POLL))
        } else {
            waited / RARELY
        };
        return poll.min(latest);
    }
    let some_granted = refusal.votes.contains(&Vote::Granted);
    if is_first && blockers.foreign_field && some_granted {
        return soon.min(latest);
    }
    latest
}

/// Resolves once so many masters are open to a waiter: they granted last time, and may again, or have called it since.
/// Or when calls may have been missed.
async fn called(calls: &Calls, since: &Heard, votes: &[Vote], needed: usize) -> WokenBy {
    let is_open = |(node, vote): &(usize, &Vote)| match vote {
        Vote::Granted => true,
        // Its vote would not count.
        Vote::Quarantined { .. } => false,
        _ => calls.called_since(*node, since),
    };
    loop {
        // First listen, then look: nothing falls in between.
        let mut notified = pin!(calls.notified());
        notified.as_mut().enable();
        calls.present();
        let open = votes.iter().enumerate().filter(is_open).count();
        if (needed..=votes.len()).contains(&open) {
            return WokenBy::Notice;
        }
        if calls.interrupted_since(since) {
            return WokenBy::Gap;
        }
        notified.await;
    }
}

/// Resolves when it is time to ask by what masters have told: the end of a short lease, or of the turn that is left to
/// clients of other libraries.
async fn appointed(calls: &Calls) {
    loop {
        let mut notified = pin!(calls.notified());
        notified.as_mut().enable();
        let Some(at) = calls.alarm() else {
            notified.await;
            continue;
        };
        tokio::select! {
            () = sleep_until(at + AFTER_LEASE) => return,
            () = notified => {}
        }
    }
}

/// Resolves when a client of another library has announced a release. What comes from a master that granted last time
/// may be this waiter's own rollback.
async fn released(announced: Option<(&Subscription, NoticeCounts)>, votes: &[Vote]) {
    match announced {
        Some((foreign, since)) => {
            let counts = |node: usize| votes.get(node).is_some_and(|vote| !vote.may_have_granted());
            foreign.released(&since, counts).await;
        }
        None => std::future::pending().await,
    }
}
