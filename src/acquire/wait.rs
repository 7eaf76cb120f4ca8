//! The wait for one lock, from the call until a quorum of the masters grants it.
//!
//! A waiter asks the masters only after something has happened that may have changed their answer.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::acquire::line_up::line_up;
use crate::acquire::outcome::LastRefusal;
use crate::acquire::patience::Patience;
use crate::acquire::waiting::Waiting;
use crate::error::LockError;
use crate::lock::hold_guard::HoldGuard;
use crate::protocol::tally::LossReason;

/// Waits until the lock is granted. The last refusal is left in `last`, for the error after the caller's time. `last` is
/// `None` while the waiter is behind another task of this process, because that task knows more.
///
/// # Cancel safety
///
/// Dropped at any point with its waiter, the call withdraws from the line and all queues, and rolls back.
pub(super) async fn wait_for_one(
    waiter: &mut Waiting<'_>,
    last: &mut LastRefusal,
) -> Result<HoldGuard, LockError> {
    let mut patience = Patience::of_a_wait_since(waiter.since);
    loop {
        // Tasks of one process may have permits at the same time, so each of them asks. Any other task asks with the turn in
        // the line, which is taken back from a task that is not polled in time.
        if waiter.request.permits.is_none()
            && !waiter.mailbox.has_turn()
            && let ControlFlow::Break(guard) = line_up(waiter, &mut patience, last).await?
        {
            return Ok(guard);
        }
        waiter.yield_to_foreign().await?;
        waiter.prepare();
        let refusal = match waiter.ask().await {
            Ok(guard) => return Ok(waiter.admit(guard)),
            Err(refusal) if refusal.reason == LossReason::Final => return Err(refusal.error),
            Err(refusal) => refusal,
        };
        let why = Arc::new(refusal.error.clone());
        waiter.note_refused(&refusal, &why);
        patience.log_if_due(waiter.request, Some(&why));
        *last = Some((0, why));
        waiter.rest_after(&refusal).await?;
    }
}
