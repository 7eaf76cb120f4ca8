//! End of a hold with its last guard. The grant is handed on to the next task of the process, or it is
//! released, or the names stay locked for a while. Or the hold was lost before.
//!
//! [`dispose`] decides. [`UnsentRelease`] sends: at once for a caller that waits for the answers, else when it is
//! dropped. The grant of a sticky lock may stay with the client instead (`idle.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::LossCause;
use crate::events::{HoldEnd, log};
use crate::hold::client::ClientCore;
use crate::hold::grant::Grant;
use crate::hold::release::Release;
use crate::hold::retake;
use crate::hold::unsent_release::UnsentRelease;

/// Effect of a guard's end on its hold.
pub(crate) enum GuardEnd {
    /// This number of other guards is still in.
    StillHeld(u64),
    /// Other guards are still in, and only read. The downgrade is being sent.
    Downgraded(Box<Release>),
    /// The next task of this process has the hold.
    HandedOn,
    /// The grant stays with the client, and nobody has it.
    Stays,
    /// The grant is to be released.
    Release(UnsentRelease),
    /// The hold was lost, and another task releases it.
    Lost,
}

/// Hands a vacant grant on if that is allowed, or ends it. `known_valid` tells that the caller has just seen validity.
pub(crate) fn dispose(client: &Arc<ClientCore>, grant: &Arc<Grant>, known_valid: bool) -> GuardEnd {
    // The trace is taken before the next hold begins.
    let trace = grant.trace.take();
    let loss = if known_valid && trace.is_none() {
        None
    } else {
        grant.loss()
    };
    let end = give_up(client, grant);
    if let Some(cause) = loss
        && cause != LossCause::Closed
        && matches!(end, GuardEnd::Release(_))
    {
        // The watchdog had no time to notice the loss, and will not notice it any more.
        log::hold_lost(&grant.names, cause, &client.pool.evidence(&grant.votes()));
    }
    let Some(trace) = trace else {
        return end;
    };
    match (loss, &end) {
        (Some(cause), _) => trace.lost(cause),
        (None, GuardEnd::HandedOn) => trace.end(HoldEnd::HandedOn),
        (None, GuardEnd::Stays) => trace.end(HoldEnd::Stays),
        (None, GuardEnd::Release(release)) if !release.kept.is_zero() => trace.end(HoldEnd::Kept),
        (None, _) => trace.end(HoldEnd::Released),
    }
    end
}

fn give_up(client: &Arc<ClientCore>, grant: &Arc<Grant>) -> GuardEnd {
    let (pool, kept) = (&client.pool, grant.kept());
    // No task is let in while the names stay locked, after closing, or when it is the turn of other
    // libraries.
    let may_hand_off = kept.is_zero() && !pool.is_closed() && !pool.topics.yielding.is_due(&grant.names);
    if may_hand_off && grant.hand_on() {
        return GuardEnd::HandedOn;
    }
    if grant.is_spent() {
        // While others wait, each grant is for a few holds.
        if grant.state().elsewhere.is_none() {
            client
                .tokens
                .ran_out(&grant.names, grant.tokens.size(), grant.lease());
        }
    } else if may_hand_off && client.idle.keep(grant) {
        return GuardEnd::Stays;
    }
    if !kept.is_zero() {
        client.leaves_locked.store(true, Ordering::Relaxed);
        // The names stay locked for longer than the watchdog looks after the grant.
        retake::widen(pool, grant);
    }
    let release = UnsentRelease::of(pool, grant, kept);
    if release.is_none() && grant.state().is_taken_again() {
        // A task that has just joined the line has the grant.
        return GuardEnd::HandedOn;
    }
    client.schedule.forget(grant);
    client.idle.forget(grant);
    release.map_or(GuardEnd::Lost, GuardEnd::Release)
}
