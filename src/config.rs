//! The options of a pool of masters, and every check on them.

use std::time::Duration;

use crate::error::InvalidInput;
use crate::validity::drift;

/// Leases are numbers of milliseconds to a Lua script, exact up to here.
const MAX_LEASE: Duration = Duration::from_millis((1 << 53) - 1);
/// A deadline per node beyond this is a mistake in a unit.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// More masters than this make every round slower and nothing safer.
const MAX_NODES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) lease: Duration,
    pub(crate) max_lease: Option<Duration>,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) allow_eviction: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_lease: None,
            node_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            drift_factor: 0.01,
            allow_eviction: false,
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

    pub(crate) fn check(&self, nodes: usize) -> Result<(), InvalidInput> {
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(InvalidInput::new(
                "nodes",
                nodes,
                format!("1 to {MAX_NODES} masters"),
            ));
        }
        let smallest = Duration::from_millis(1);
        in_range("node_timeout", self.node_timeout, smallest, MAX_TIMEOUT)?;
        in_range("connect_timeout", self.connect_timeout, smallest, MAX_TIMEOUT)?;
        if !(0.0..=0.5).contains(&self.drift_factor) {
            return Err(InvalidInput::new("drift_factor", self.drift_factor, "0 to 0.5"));
        }
        in_range("lease", self.lease, self.shortest_lease(), MAX_LEASE)?;
        if let Some(max) = self.max_lease {
            in_range("max_lease", max, self.lease, MAX_LEASE)?;
        }
        Ok(())
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
    let allowed = format!(
        "{} to {}",
        humantime::format_duration(from),
        humantime::format_duration(to)
    );
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
            "drift_factor: NaN is not allowed; allowed: 0 to 0.5"
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
