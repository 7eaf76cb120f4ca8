//! The options of a pool of masters, and every check on them.

use std::time::Duration;

use crate::error::InvalidInput;
use crate::namespace::Namespace;
use crate::time::validity::{drift, outlived};

/// Leases are numbers of milliseconds to a Lua script, exact up to here.
pub(crate) const MAX_LEASE: Duration = Duration::from_millis((1 << 53) - 1);
/// A deadline per node beyond this is a mistake in a unit.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest lease that clients need not agree upon.
const MAX_WITHOUT_CHARTER: Duration = Duration::from_secs(30);
/// More masters than this make every round slower and nothing safer.
const MAX_NODES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) lease: Duration,
    pub(crate) max_lease: Option<Duration>,
    /// The longest lease that every client reckons with although nobody has told it of any.
    pub(crate) lease_without_charter: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) allow_eviction: bool,
    pub(crate) fence_retention: Duration,
    pub(crate) quarantine: Quarantine,
    pub(crate) strict: bool,
    pub(crate) namespace: Namespace,
}

/// How long a master that was started again has no vote.
///
/// A master that comes back without its data has forgotten who holds, and would help a second holder
/// to a quorum. Nobody can tell from outside what it has forgotten; but once the longest lease has
/// passed since its start, nothing that it could have forgotten is alive any more. Until then its
/// answers do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Quarantine {
    /// As long as the longest lease that any client of these masters may have needs. The default.
    #[default]
    Auto,
    /// This long, which must not be less; longer once another client has longer leases.
    For(Duration),
    /// None, for masters that keep every acknowledged write through every restart, and for clusters
    /// that are thrown away. Such a client takes no part in what others agree upon: it may ask for any
    /// lease at once, stores nothing about it, and is refused by nobody for not knowing of longer ones.
    Off,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_lease: None,
            lease_without_charter: MAX_WITHOUT_CHARTER,
            node_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            drift_factor: 0.01,
            allow_eviction: false,
            fence_retention: Duration::from_secs(7 * 24 * 3600),
            quarantine: Quarantine::Auto,
            strict: false,
            namespace: Namespace::default(),
        }
    }
}

impl Config {
    /// The longest lease that a call site may ask for.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.max_lease.unwrap_or(self.lease)
    }

    /// The shortest lease that can still be valid when every node takes its full deadline, once to
    /// answer and once more to be asked again: 2 × node timeout + drift.
    fn shortest_lease(&self) -> Duration {
        let round_trips = self.node_timeout.saturating_mul(2);
        // drift is itself a share of the lease, so solve for the lease; then round up to whole ms.
        let fixed = round_trips + drift(Duration::ZERO, 0.0);
        let lease =
            Duration::try_from_secs_f64(fixed.as_secs_f64() / (1.0 - self.drift_factor)).unwrap_or(MAX_LEASE);
        whole_milliseconds(lease + Duration::from_micros(999))
    }

    /// The longest lease that this client reckons with before it has heard of any other.
    pub(crate) fn reckoned_lease(&self) -> Duration {
        self.longest_lease().max(self.lease_without_charter)
    }

    pub(crate) fn check(&self, nodes: usize) -> Result<(), InvalidInput> {
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(InvalidInput::new(
                "nodes",
                nodes,
                format!("1 to {MAX_NODES} masters"),
            ));
        }
        self.namespace.check()?;
        let smallest = Duration::from_millis(1);
        in_range("node_timeout", self.node_timeout, smallest, MAX_TIMEOUT)?;
        in_range("connect_timeout", self.connect_timeout, smallest, MAX_TIMEOUT)?;
        // Every client reckons with one percent at least for the clocks of all others.
        if !(0.01..=0.5).contains(&self.drift_factor) {
            return Err(InvalidInput::new(
                "drift_factor",
                self.drift_factor,
                "0.01 to 0.5",
            ));
        }
        in_range("lease", self.lease, self.shortest_lease(), MAX_LEASE)?;
        if let Some(max) = self.max_lease {
            in_range("max_lease", max, self.lease, MAX_LEASE)?;
        }
        in_range(
            "lease_without_charter",
            self.lease_without_charter,
            smallest,
            MAX_WITHOUT_CHARTER,
        )?;
        in_range(
            "fence_retention",
            self.fence_retention,
            self.longest_lease(),
            MAX_LEASE,
        )?;
        if let Quarantine::For(quarantine) = self.quarantine {
            let shortest = outlived(self.reckoned_lease(), self.drift_factor);
            in_range("quarantine", quarantine, shortest, MAX_LEASE)?;
        }
        Ok(())
    }

    /// The lease of a call site that asks for none, in the whole milliseconds that Redis counts in.
    pub(crate) fn default_lease(&self) -> Duration {
        whole_milliseconds(self.lease)
    }

    /// A lease asked for at a call site, in the whole milliseconds that Redis counts in.
    pub(crate) fn checked_lease(&self, lease: Duration) -> Result<Duration, InvalidInput> {
        in_range("lease", lease, self.shortest_lease(), self.longest_lease()).map_err(|mut error| {
            error
                .allowed
                .push_str(" (MastersBuilder::max_lease raises the limit)");
            error
        })?;
        Ok(whole_milliseconds(lease))
    }

    /// A minimum validity, which must be within what the lease can give.
    pub(crate) fn checked_min_validity(&self, min: Duration, lease: Duration) -> Result<(), InvalidInput> {
        let most = lease.saturating_sub(drift(lease, self.drift_factor));
        if min < most {
            return Ok(());
        }
        let allowed = format!(
            "less than {}, the lease minus drift",
            humantime::format_duration(most)
        );
        Err(InvalidInput::new(
            "min_validity",
            humantime::format_duration(min),
            allowed,
        ))
    }
}

pub(crate) fn in_range(
    field: &'static str,
    value: Duration,
    from: Duration,
    to: Duration,
) -> Result<(), InvalidInput> {
    if (from..=to).contains(&value) {
        return Ok(());
    }
    // Exact, for whoever takes over what is shown; nobody does so with thousands of years.
    let most = if to < MAX_LEASE {
        humantime::format_duration(to).to_string()
    } else {
        "285000years".into()
    };
    let allowed = format!("{} to {most}", humantime::format_duration(from));
    Err(InvalidInput::new(
        field,
        humantime::format_duration(value),
        allowed,
    ))
}

fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(config: &Config) -> String {
        config.check(3).expect_err("must be refused").to_string()
    }

    #[test]
    fn defaults_are_allowed() {
        assert_eq!(Config::default().check(5), Ok(()));
    }

    #[test]
    fn every_option_outside_its_range_is_named() {
        let default = Config::default;
        assert_eq!(
            default().check(0).expect_err("no nodes").to_string(),
            "nodes: 0 is not allowed; allowed: 1 to 64 masters"
        );
        assert_eq!(
            message(&Config {
                node_timeout: Duration::ZERO,
                ..default()
            }),
            "node_timeout: 0s is not allowed; allowed: 1ms to 1m"
        );
        assert_eq!(
            message(&Config {
                connect_timeout: Duration::MAX,
                ..default()
            })
            .split(" is")
            .nth(1),
            Some(" not allowed; allowed: 1ms to 1m")
        );
        assert_eq!(
            message(&Config {
                drift_factor: f64::NAN,
                ..default()
            }),
            "drift_factor: NaN is not allowed; allowed: 0.01 to 0.5"
        );
        assert_eq!(
            message(&Config {
                lease: Duration::from_millis(100),
                ..default()
            })
            .split("allowed: ")
            .nth(1)
            .map(|allowed| allowed.starts_with("104ms to ")),
            Some(true)
        );
        assert!(
            message(&Config {
                lease: Duration::MAX,
                ..default()
            })
            .starts_with("lease: ")
        );
        assert!(
            message(&Config {
                max_lease: Some(Duration::from_secs(1)),
                ..default()
            })
            .starts_with("max_lease: 1s is not allowed; allowed: 30s to ")
        );
    }

    /// One millisecond less than a lease may be forgotten.
    #[test]
    fn a_quarantine_shorter_than_the_longest_lease_is_refused() {
        let config = Config {
            quarantine: Quarantine::For(Duration::from_millis(29_999)),
            ..Config::default()
        };
        assert!(message(&config).starts_with("quarantine: 29s 999ms is not allowed; allowed: 31s 302ms to "));
        let short = Config {
            lease: Duration::from_secs(5),
            ..config
        };
        assert!(
            message(&short).contains("allowed: 31s 302ms to "),
            "others may have longer ones"
        );
        let lowered = Config {
            lease_without_charter: Duration::from_secs(5),
            ..short
        };
        assert_eq!(lowered.check(3), Ok(()));
    }

    #[test]
    fn leases_at_a_call_site_are_bounded_by_the_builder() {
        let config = Config::default();
        let lease = Duration::from_micros(10_000_900);
        assert_eq!(config.checked_lease(lease), Ok(Duration::from_secs(10)));
        let error = config
            .checked_lease(Duration::from_secs(31))
            .expect_err("above the maximum");
        assert_eq!(
            error.to_string(),
            "lease: 31s is not allowed; allowed: 104ms to 30s (MastersBuilder::max_lease raises the limit)"
        );
        let min = config.checked_min_validity(Duration::from_secs(30), Duration::from_secs(30));
        assert_eq!(
            min.expect_err("never reached").to_string(),
            "min_validity: 30s is not allowed; allowed: less than 29s 698ms, the lease minus drift"
        );
    }

    #[test]
    fn the_shortest_lease_leaves_room_for_two_deadlines() {
        for (timeout_ms, factor) in [(1, 0.0), (50, 0.01), (50, 0.5), (60_000, 0.08)] {
            let node_timeout = Duration::from_millis(timeout_ms);
            let config = Config {
                node_timeout,
                drift_factor: factor,
                ..Config::default()
            };
            let lease = config.shortest_lease();
            assert!(
                lease >= node_timeout * 2 + drift(lease, factor),
                "{timeout_ms} ms, {factor}"
            );
        }
    }
}
