//! The last force of a name: the end of a hold by an operator.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Microseconds from 1970 to the year 10000. A later time has no text.
pub(crate) const YEAR_10000_US: u64 = 253_402_300_800_000_000;

/// The last time that an operator took a name away from a holder. Each master that did so remembers it for a day.
///
/// The holder that lost the name gets it by [`Loss::force`](crate::Loss::force), and everybody else by
/// [`Inspection::last_force`](crate::Inspection::last_force). If a name is taken away twice within a lease, the first
/// holder may get the second force.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// let report = masters.red_lock("report");
/// let guard = report.lock().await?;
/// report.clone().force_reason("stuck since Monday, #1234").force_release().await?;
///
/// let loss = guard.lost().await;
/// let force = loss.force().expect("the masters remember it");
/// assert_eq!(force.reason.as_deref(), Some("stuck since Monday, #1234"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastForce {
    /// Time of the force, by the clock of a master.
    pub at: SystemTime,
    /// Label of the client that took the name away ([`client_label`](crate::MastersBuilder::client_label)).
    pub by: Option<Arc<str>>,
    /// Reason ([`force_reason`](crate::MultiLock::force_reason)), if one was given.
    pub reason: Option<Arc<str>>,
}

impl LastForce {
    pub(crate) fn new(at_us: u64, by: Option<Arc<str>>, reason: Option<Arc<str>>) -> Self {
        Self {
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(at_us),
            by,
            reason,
        }
    }
}

impl fmt::Display for LastForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = self.by.as_deref().unwrap_or("a client without a label");
        write!(f, "by {by} at {}", humantime::format_rfc3339_seconds(self.at))?;
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}
