//! One try: enters the hold that the owner has, or attempts a new one.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::attempt::attempt;
use crate::acquire::refusal::Refusal;
use crate::acquire::request::AcquireRequest;
use crate::acquire::seats;
use crate::error::{ExtendError, InvalidInput, LockError};
use crate::hold::HoldView;
use crate::hold::extend::extend;
use crate::hold::grant::Hold;
use crate::lock::hold_guard::HoldGuard;
use crate::lock::owner::OwnerRelation;
use crate::protocol::caption::Caption;
use crate::protocol::kind::HoldKind;
use crate::protocol::tally::LossReason;
use crate::protocol::waiter::Precedence;
use crate::queue::QueueEntry;
use crate::round::clocks::Clocks;
use crate::time::clock::Moment;
use crate::values::names::Names;
use crate::values::token::FencingToken;

/// Tries once.
pub(crate) async fn acquire(request: &AcquireRequest) -> Result<HoldGuard, Refusal> {
    acquire_as(request, Precedence::Tried, None).await
}

/// Asks once, by the masters' clocks in `clocks` if they have just been read.
pub(crate) async fn acquire_as(
    request: &AcquireRequest,
    precedence: Precedence<&QueueEntry>,
    clocks: Option<Clocks>,
) -> Result<HoldGuard, Refusal> {
    let pool = &request.client.pool;
    if pool.is_closed() {
        return Err(LockError::Closed.into());
    }
    match reenter(request)? {
        Reentry::Entered(guard) => return Ok(guard),
        Reentry::Short(hold, lease, is_needed) => {
            if let Some(guard) = extend_and_enter(request, hold, lease, is_needed).await? {
                return Ok(guard);
            }
        }
        Reentry::Outside => {}
    }
    if let Some(guard) = request.take_idle() {
        return Ok(guard);
    }
    pool.wait_for_backlog(request.needed).await;
    if pool.is_closed() {
        return Err(LockError::Closed.into());
    }
    match request.permits {
        None => attempt(request, None, precedence, clocks).await,
        Some(permits) => seats::attempt_one(request, permits, precedence, clocks).await,
    }
}

/// Whether the owner enters a hold of its own once more.
pub(crate) enum Reentry {
    Entered(HoldGuard),
    /// The hold has to be extended to the lease first; the flag tells whether the entry fails otherwise.
    Short(Hold, Duration, bool),
    /// The owner holds none of the names.
    Outside,
}

/// Enters the hold that the owner has, if enough of it is left. Most entries end here, without an await.
pub(crate) fn reenter(request: &AcquireRequest) -> Result<Reentry, Refusal> {
    let (hold, view) = match request.relation() {
        OwnerRelation::Inside(hold, view) => (hold, view),
        OwnerRelation::Overlapping(held) => return Err(overlapping(request, &held).into()),
        OwnerRelation::Outside => return Ok(Reentry::Outside),
    };
    if !view.kind.includes(request.kind) {
        return Err(of_another_kind(request, &hold, view.kind));
    }
    suits(request, &hold)?;
    if let Some((lease, is_needed)) = extension(request, &hold, view) {
        return Ok(Reentry::Short(hold, lease, is_needed));
    }
    Ok(enter(request, hold, view.at)?.map_or(Reentry::Outside, Reentry::Entered))
}

/// Extends the hold, and enters it. Returns `None` when its validity ended or it was leaked meanwhile.
///
/// The entry counts only once nothing can fail any more. So a failed or cancelled re-entry leaves the hold
/// unchanged.
async fn extend_and_enter(
    request: &AcquireRequest,
    hold: Hold,
    lease: Duration,
    is_needed: bool,
) -> Result<Option<HoldGuard>, Refusal> {
    match extend(&request.client, &hold, lease).await {
        Err(ExtendError::NotExtended { votes, .. }) if is_needed => {
            let error = LockError::Unreachable { votes };
            Err(Refusal::new(error, LossReason::Unreachable, hold.grant.votes()))
        }
        // If the remaining validity suffices, an extension that fails does not matter. No longer lease is
        // wanted then, and a crash leaves the names locked for as long as they have to be. The entry
        // detects a lost hold.
        _ => enter(request, hold, request.client.pool.clock.now()),
    }
}

/// Enters the hold at `now`. Returns `None` when its validity ended or it was leaked meanwhile.
fn enter(request: &AcquireRequest, hold: Hold, now: Moment) -> Result<Option<HoldGuard>, Refusal> {
    match request.enter(hold, now) {
        Ok(guard) => {
            request.keep(guard.hold(), now);
            Ok(Some(guard))
        }
        // A new attempt would be refused because of the owner's own hold.
        Err(hold)
            if !hold
                .with_state(|state, number| state.view(number, now))
                .left
                .is_zero() =>
        {
            let its = hold.grant.kind();
            if !its.includes(request.kind) {
                return Err(of_another_kind(request, &hold, its));
            }
            Err(Refusal::too_late(request, hold.remaining(), hold.grant.votes()))
        }
        Err(_) => Ok(None),
    }
}

/// Lease of the extension that an entry is to be preceded by, and whether the entry fails without it.
#[inline]
fn extension(request: &AcquireRequest, hold: &Hold, view: HoldView) -> Option<(Duration, bool)> {
    let HoldView { at, left, lease, .. } = view;
    let is_beyond_its_lease = || {
        let most = request.client.pool.config.most_validity(lease);
        request.min_validity >= most || request.at_least >= most
    };
    let is_longer = request.lease > lease && (!request.renew || is_beyond_its_lease());
    let is_needed = is_longer || left < request.at_least;
    let is_short = left < lease / 3 || left <= request.min_validity;
    // Entries that extend a hold beyond its bound would let it last for ever.
    let is_wanted = is_needed || is_short && !hold.with_state(|state, _| state.is_past_bound(at));
    is_wanted.then_some((if is_longer { request.lease } else { lease }, is_needed))
}

/// Checks that the hold suits the request, apart from its time.
fn suits(request: &AcquireRequest, hold: &Hold) -> Result<(), InvalidInput> {
    // The hold was granted, and is renewed, by this number of masters only.
    if request.needed > hold.grant.needed {
        let allowed = format!(
            "a policy of at most {} grants, with which the owner holds {}",
            hold.grant.needed, hold.grant.names
        );
        return Err(InvalidInput::new("policy", request.policy, allowed));
    }
    let is_published =
        |caption: &Option<Arc<Caption>>| caption.as_ref().is_some_and(|caption| caption.is_published);
    if is_published(&request.caption) && !is_published(&hold.grant.caption) {
        let allowed = format!(
            "false, as the owner holds {} without an announcement",
            hold.grant.names
        );
        return Err(InvalidInput::new("announced", true, allowed));
    }
    if request.fenced && hold.token() == FencingToken::NONE {
        let allowed = format!("false, as the owner holds {} without a token", hold.grant.names);
        return Err(InvalidInput::new("fenced", request.fenced, allowed));
    }
    Ok(())
}

/// Refuses an owner that has a hold of another kind. Two readers that both want to write would wait for each
/// other for ever.
fn of_another_kind(request: &AcquireRequest, hold: &Hold, its: HoldKind) -> Refusal {
    let names = &hold.grant.names;
    if (its, request.kind) == (HoldKind::Read, HoldKind::Write) {
        return LockError::Upgrade {
            held: names.to_string(),
        }
        .into();
    }
    let allowed = format!("{its}, as the owner holds {names}");
    InvalidInput::new("kind", request.kind, allowed).into()
}

fn overlapping(request: &AcquireRequest, held: &Names) -> InvalidInput {
    let allowed = format!("names within {held}, which the owner holds, or apart from them");
    InvalidInput::new("names", &request.names, allowed)
}
