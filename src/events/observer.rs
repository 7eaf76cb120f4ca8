//! The list of events, for the log and for figures.

use std::time::Duration;

use tokio::time::Instant;

use super::kinds::{AcquireOutcome, HoldEnd, Op, PolicyKind, UnlockOutcome, VoteKind, WokenBy};
use crate::error::{LossCause, NodeError};
use crate::values::policy::Policy;

/// Events of a client, of calls for locks under one label, and of one master. An observer implements the ones that it takes
/// note of.
#[allow(unused_variables, reason = "the names are for implementations")]
pub(crate) trait EventObserver {
    /// A waiter goes on, because of this.
    fn woken(&self, by: WokenBy) {}

    /// The watchdog has tried to renew a hold, which had so much validity left when a quorum confirmed, if one did.
    fn renewed(&self, margin: Option<Duration>) {}

    /// Somebody has waited for the outcome of a guard that was given up.
    fn unlocked(&self, outcome: UnlockOutcome) {}

    /// An operator has taken names away.
    fn forced(&self) {}

    /// For each policy, whether a lock could be granted now.
    fn ready(&self, is_ready: impl Fn(Policy) -> bool) {}

    /// For how long the oldest hold of this client is held; zero where there is none.
    fn oldest_hold(&self, held_for: Duration) {}

    /// Number of holds without slack: exactly a quorum of more masters has them.
    fn holds_without_slack(&self, count: usize) {}

    /// Number of names that stay with the client while nobody holds them.
    fn idle_locks(&self, count: usize) {}

    /// Number of permits that the client holds.
    fn permits(&self, count: usize) {}

    /// A round is over; it is won where as many masters assented as were needed.
    fn round_ended(&self, op: Op, is_won: bool, took: Duration) {}

    /// A call for a lock has ended.
    fn acquired(&self, policy: PolicyKind, outcome: AcquireOutcome, took: Duration) {}

    /// Masters are asked for a new hold.
    fn asked(&self) {}

    /// Masters are asked for a larger fencing token.
    fn raised(&self) {}

    /// One more waits.
    fn waits(&self) {}

    /// One waits no longer.
    fn waited(&self) {}

    /// One more is held.
    fn held(&self) {}

    /// One is held no longer.
    fn ended(&self, end: HoldEnd, held_for: Duration) {}

    /// A hold was lost. It ends, too.
    fn lost(&self, cause: LossCause) {}

    /// There is a connection to the master.
    fn connected(&self) {}

    /// It is not the first one.
    fn reconnected(&self) {}

    /// There is no connection; `is_new` says whether for another reason than before.
    fn disconnected(&self, reason: &NodeError, is_new: bool) {}

    /// The client was closed, and with it the connection.
    fn closed(&self) {}

    /// The master has missed a deadline.
    fn kept_silent(&self) {}

    /// It has no vote for so long.
    fn in_quarantine(&self, remaining: Duration) {}

    /// Its clock stepped against this host's.
    fn clock_stepped(&self, by: Duration, no_vote_for: Duration) {}

    /// Its memory was wiped.
    fn memory_wiped(&self) {}

    /// Notices come from it again.
    fn subscribed_again(&self, is_confirmed: bool) {}

    /// It cannot do, or does not tell, all that others do.
    fn lacks(&self, missing: &str) {}

    /// Its user may not subscribe.
    fn denies_subscription(&self) {}

    /// It has answered a call that was sent at `sent`.
    fn answered(&self, op: Op, sent: Instant) {}

    /// Its answer came to this vote, if it is one.
    fn voted(&self, op: Op, vote: Option<VoteKind>) {}

    /// Number of releases that are owed to it.
    fn owed(&self, releases: usize) {}

    /// Values that change by themselves, while the master is connected.
    fn sampled(&self, quarantine: Duration, clock_offset_us: i64) {}
}
