//! List of events, for the log and for metrics.

use std::time::Duration;

use tokio::time::Instant;

use super::kinds::{AcquireOutcome, HoldEnd, Op, PolicyKind, UnlockOutcome, VoteKind, WokenBy};
use crate::error::LossCause;
use crate::values::policy::Policy;

/// Holds of a client at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) holds: usize,
    /// Number of holds that are permits.
    pub(crate) permits: usize,
    /// Number of holds without slack: exactly a quorum of more masters has them.
    pub(crate) without_slack: usize,
    /// Number of locks that stay with the client while nobody holds them.
    pub(crate) idle: usize,
    /// Age of the oldest hold that is not to last by design; zero if there is none.
    pub(crate) oldest: Duration,
}

/// Observer of a client, of calls for locks under one label, or of one master. An observer implements the events that
/// it notes.
#[allow(unused_variables, reason = "the names are for implementations")]
pub(crate) trait EventObserver {
    /// Notes that a waiter goes on, with the cause.
    fn woken(&self, by: WokenBy) {}

    /// Notes an attempt of the watchdog to renew a hold, with the validity that was left if a quorum confirmed.
    fn renewed(&self, margin: Option<Duration>) {}

    /// Notes the outcome of a guard that was given up, for a caller that has waited for it.
    fn unlocked(&self, outcome: UnlockOutcome) {}

    /// Notes that an operator has taken names away.
    fn forced(&self) {}

    /// Sets for each policy whether a lock could be granted now.
    fn ready(&self, is_ready: impl Fn(Policy) -> bool) {}

    /// Notes what the client holds now.
    fn surveyed(&self, survey: &Survey) {}

    /// Notes the end of a round. A round is won if as many masters assented as were needed.
    fn round_ended(&self, op: Op, is_won: bool, took: Duration) {}

    /// Notes the end of a call for a lock.
    fn acquired(&self, policy: PolicyKind, outcome: AcquireOutcome, took: Duration) {}

    /// Notes that masters are asked for a new hold.
    fn asked(&self) {}

    /// Notes that masters are asked for a larger fencing token.
    fn raised(&self) {}

    /// Counts another waiter.
    fn waits(&self) {}

    /// Notes that a waiter waits no longer.
    fn waited(&self) {}

    /// Counts another hold.
    fn held(&self) {}

    /// Notes the end of a hold.
    fn ended(&self, end: HoldEnd, held_for: Duration) {}

    /// Notes the loss of a hold, which also ends.
    fn lost(&self, cause: LossCause) {}

    /// Notes a connection to the master.
    fn connected(&self) {}

    /// Notes that the connection is not the first one.
    fn reconnected(&self) {}

    /// Notes that there is no connection.
    fn disconnected(&self) {}

    /// Notes that the client was closed, and with it the connection.
    fn closed(&self) {}

    /// Notes that the master's clock stepped against this host's.
    fn clock_stepped(&self) {}

    /// Notes that the master's memory was wiped.
    fn memory_wiped(&self) {}

    /// Notes the answer to a call that was sent at `sent`.
    fn answered(&self, op: Op, sent: Instant) {}

    /// Notes the vote of an answer, if it is one.
    fn voted(&self, op: Op, vote: Option<VoteKind>) {}

    /// Sets the number of pending releases.
    fn pending(&self, releases: usize) {}

    /// Sets values that change by themselves, while the master is connected.
    fn sampled(&self, quarantine: Duration, clock_offset_us: i64) {}
}
