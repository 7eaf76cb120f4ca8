//! Reports of a hold that lasts for so long that its program may have forgotten it.

use std::time::Duration;

/// Number of leases after which a hold is reported.
const LONG: u32 = 10;
/// Value for a hold that is never reported.
const NEVER: u32 = u32::MAX;
/// Time after a report until the next one.
const AGAIN: Duration = Duration::from_secs(3600);

/// Age of a hold at its last report in the log, in seconds; 0 before the first. A number alone, as there is one for each
/// hold.
#[derive(Debug, Default)]
pub(super) struct AgeReport(u32);

impl AgeReport {
    /// Exempts the hold from reports.
    pub(super) fn exempt(&mut self) {
        self.0 = NEVER;
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.0 == NEVER
    }

    /// Whether a hold of this age is to be reported now: after ten leases, and then each hour. If so, it counts as
    /// reported.
    pub(super) fn take_due(&mut self, age: Duration, lease: Duration) -> bool {
        let due = match self.0 {
            0 => lease * LONG,
            reported_s => Duration::from_secs(reported_s.into()) + AGAIN,
        };
        let is_due = age >= due;
        if is_due {
            self.0 = u32::try_from(age.as_secs()).unwrap_or(NEVER).max(1);
        }
        is_due
    }
}
