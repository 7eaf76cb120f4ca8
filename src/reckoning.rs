//! The longest lease of anybody, as far as this client knows: quarantine, revocation marks and doubt
//! about a clock are as long as that, and not as long as this client's own leases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::{Config, Quarantine};
use crate::validity::drift;

/// Servers tell their uptime in whole seconds.
const UPTIME_RESOLUTION: Duration = Duration::from_secs(1);

/// What a client reckons with. It is only ever raised.
#[derive(Debug)]
pub(crate) struct Reckoning {
    quarantine: Quarantine,
    drift_factor: f64,
    longest_ms: AtomicU64,
    /// Kept apart, because it is asked for with every vote.
    quarantine_us: AtomicU64,
}

impl Reckoning {
    pub(crate) fn new(config: &Config) -> Self {
        let reckoning = Self {
            quarantine: config.quarantine,
            drift_factor: config.drift_factor,
            longest_ms: AtomicU64::new(0),
            quarantine_us: AtomicU64::new(0),
        };
        reckoning.learn(config.reckoned_lease());
        reckoning
    }

    /// The longest lease that anybody may have.
    pub(crate) fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.longest_ms.load(Ordering::Acquire))
    }

    /// How long a master's memory must reach back for its votes to count.
    pub(crate) fn quarantine(&self) -> Duration {
        Duration::from_micros(self.quarantine_us.load(Ordering::Acquire))
    }

    /// The time after which nothing is alive any more that a master may have forgotten now.
    pub(crate) fn outlived(&self) -> Duration {
        outlived(self.longest_lease(), self.drift_factor)
    }

    /// Takes in that somebody may have leases of this length.
    pub(crate) fn learn(&self, lease: Duration) {
        self.longest_ms.fetch_max(whole_ms(lease), Ordering::AcqRel);
        let quarantine = match self.quarantine {
            Quarantine::Auto => self.outlived(),
            Quarantine::For(quarantine) => quarantine.max(self.outlived()),
            Quarantine::Off => Duration::ZERO,
        };
        let us = u64::try_from(quarantine.as_micros()).unwrap_or(u64::MAX);
        self.quarantine_us.fetch_max(us, Ordering::AcqRel);
    }
}

/// The time after which a lease of this length has ended by every clock: the lease by the fastest one,
/// and a second because servers tell their uptime in whole ones.
pub(crate) fn outlived(lease: Duration, drift_factor: f64) -> Duration {
    lease
        .saturating_add(drift(lease, drift_factor))
        .saturating_add(UPTIME_RESOLUTION)
}

fn whole_ms(lease: Duration) -> u64 {
    u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn config(lease: u64, quarantine: Quarantine) -> Config {
        Config {
            lease: seconds(lease),
            quarantine,
            ..Config::default()
        }
    }

    #[test]
    fn a_client_with_short_leases_reckons_with_those_that_need_no_charter() {
        let reckoning = Reckoning::new(&config(10, Quarantine::Auto));
        assert_eq!(reckoning.longest_lease(), seconds(30));
        assert_eq!(reckoning.quarantine(), Duration::from_millis(31_302));
        let lowered = Config {
            lease_without_charter: seconds(1),
            ..config(10, Quarantine::Auto)
        };
        assert_eq!(Reckoning::new(&lowered).longest_lease(), seconds(10));
    }

    #[test]
    fn what_is_learnt_only_raises() {
        let reckoning = Reckoning::new(&config(60, Quarantine::For(seconds(100))));
        assert_eq!(reckoning.quarantine(), seconds(100));
        reckoning.learn(seconds(300));
        reckoning.learn(seconds(40));
        assert_eq!(reckoning.longest_lease(), seconds(300));
        assert_eq!(reckoning.quarantine(), Duration::from_millis(304_002));
    }

    #[test]
    fn without_quarantine_nothing_is_waited_for_at_a_start() {
        let reckoning = Reckoning::new(&config(10, Quarantine::Off));
        reckoning.learn(seconds(300));
        assert_eq!(reckoning.quarantine(), Duration::ZERO);
        assert_eq!(reckoning.outlived(), Duration::from_millis(304_002));
    }
}
