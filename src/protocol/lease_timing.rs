//! For how long a master may have forgotten a lease: by the longest lease of any client of the set, not by this client's own.

use std::time::Duration;

use crate::masters::config::{Config, Quarantine};
use crate::time::validity::outlived;

/// Times that follow from the longest lease of any client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTiming {
    pub(crate) longest_lease: Duration,
    /// Time after which nothing is alive any more that a master may have forgotten now.
    pub(crate) outlived: Duration,
    /// How far a master's memory must reach back for its votes to count.
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
        // Whatever this client's own leases are.
        assert_eq!(of(Quarantine::Auto), Duration::from_millis(30_302));
        let minute = Duration::from_secs(60);
        assert_eq!(of(Quarantine::For(minute)), minute);
        assert_eq!(of(Quarantine::Off), Duration::ZERO);
    }
}
