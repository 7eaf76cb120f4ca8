//! Times for which a master may have forgotten a lease. They follow from the longest lease of any client of
//! the set, and not from this client's own lease.

use std::time::Duration;

use crate::masters::config::{Config, Quarantine};
use crate::time::validity::outlived;

/// Times that follow from the longest lease of any client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTiming {
    pub(crate) longest_lease: Duration,
    /// Time after which every lease has ended that a master may have forgotten now.
    pub(crate) outlived: Duration,
    /// Age that a master's memory must have for its votes to count.
    pub(crate) quarantine: Duration,
}

impl LeaseTiming {
    pub(crate) fn new(config: &Config) -> Self {
        let longest_lease = config.longest_lease();
        let outlived = outlived(longest_lease, config.drift_factor);
        let quarantine = match config.quarantine {
            Quarantine::Auto => outlived,
            Quarantine::For(quarantine) => quarantine.max(outlived),
            Quarantine::Off => Duration::ZERO,
        };
        Self {
            longest_lease,
            outlived,
            quarantine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_is_the_longest_lease_and_its_drift() {
        let of = |quarantine| {
            let config = Config {
                lease: Some(Duration::from_secs(1)),
                quarantine,
                ..Config::default()
            };
            LeaseTiming::new(&config).quarantine
        };
        // This client's own leases do not matter.
        assert_eq!(of(Quarantine::Auto), Duration::from_millis(30_302));
        let minute = Duration::from_secs(60);
        assert_eq!(of(Quarantine::For(minute)), minute);
        assert_eq!(of(Quarantine::Off), Duration::ZERO);
    }
}
