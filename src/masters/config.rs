//! Options of a pool of masters, and all checks on them.

use std::time::Duration;

use crate::error::InvalidInput;
use crate::masters::client_label;
use crate::masters::namespace::Namespace;
use crate::time::validity::{LEAST_DRIFT_FACTOR, RESOLUTION, drift, outlived};
use crate::values::master_set::MasterSet;

/// Longest time. A Lua script counts times in milliseconds, which are exact up to here.
pub(crate) const MAX_TIME: Duration = Duration::from_millis((1 << 53) - 1);
/// Longest timeout for a node; a longer one is a mistake in a unit.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest lease of any lock, and default. A master that may have lost locks has no vote for as long, so no
/// client may have longer leases. A hold is renewed for as long as its guard lives, so it needs no longer
/// lease to last.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30);
/// Longest lease of a set for tests.
const MAX_FOR_TESTS: Duration = Duration::from_secs(24 * 3600);
/// Time that is longer than any wait or hold: a longer time to wait or to hold has no end.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Most masters. More of them make every round slower and nothing safer.
const MAX_NODES: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Lease of a lock without one of its own; if not set, the longest lease.
    pub(crate) lease: Option<Duration>,
    /// Longest lease of a set that is thrown away.
    pub(crate) for_tests: Option<Duration>,
    /// Longest hold of a lock without one of its own.
    pub(crate) max_hold: Option<Duration>,
    /// Most grants that stay with the client while nobody holds them.
    pub(crate) max_idle: usize,
    pub(crate) node_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) accepted: AcceptedRisks,
    pub(crate) require_all: bool,
    pub(crate) quarantine: Quarantine,
    pub(crate) rounds: Rounds,
    pub(crate) strict: bool,
    pub(crate) beside_redisson: bool,
    pub(crate) namespace: Namespace,
    /// Label as set; without one it is made when the client connects.
    pub(crate) client_label: Option<String>,
}

/// Risks that are accepted of a server although they may cost a guarantee.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AcceptedRisks {
    pub(crate) eviction: bool,
    /// The server does not report whether it evicts keys.
    pub(crate) unknown_eviction: bool,
    /// The server does not report whether it is a master.
    pub(crate) unknown_role: bool,
}

/// Time for which a master that may have lost locks has no vote.
///
/// A master that comes back without its data has forgotten its holders, and would help a second holder to a
/// quorum. Clients cannot see from outside which grants it has forgotten. But once the [longest
/// lease](LONGEST_LEASE) has passed, every grant that it could have forgotten has ended. Until then its
/// answers do not count.
///
/// Each master records since when its memory counts, under the key `multilock_set`. The time starts when the
/// first client meets this run of its server with this memory. So a master has no vote for 31 s
/// - after the first client of a new set,
/// - after a restart, with or without its data,
/// - after a promotion from a replica,
/// - after `FLUSHALL`,
/// - in the place of another master.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::{LockError, Masters, Quarantine};
/// use multilock::sim::Keep;
///
/// cluster.iter().for_each(|master| master.restart(Keep::Data));
/// // By default they have no vote, as they might have forgotten.
/// assert!(matches!(masters.red_lock("a").try_lock().await, Err(LockError::Unreachable { .. })));
/// // They keep every acknowledged write, so no quarantine is needed.
/// let trusting = cluster.connect(Masters::builder().quarantine(Quarantine::Off)).await?;
/// trusting.red_lock("a").try_lock().await?.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Quarantine {
    /// As long as the longest lease and its drift. The default.
    #[default]
    Auto,
    /// This long; it must not be less than `Auto`.
    For(Duration),
    /// None, for masters that keep every acknowledged write through every restart. Such a client must still
    /// list the same number of masters as all others. For tests there is
    /// [`for_tests`](crate::MastersBuilder::for_tests).
    Off,
}

/// Masters that a first attempt at a lock asks, if its policy needs fewer than all.
///
/// An attempt that asks only as many masters as are needed costs the others nothing. It is as safe as any, because
/// the quorum that granted excludes others. Its hold has no slack for a while: one master that forgets without being
/// noticed (`FLUSHALL` without [`strict`](crate::MastersBuilder::strict), an eviction) may let another holder in. So
/// the hold is taken on the other masters, too, once it is 10 ms old. Until its first renewal a step of one clock may
/// end it early. If one of the masters refuses or answers late, the others are asked at once.
///
/// The name and the addresses of the masters choose those that are asked. Clients that list the masters by the same addresses
/// choose the same ones, so two clients that want a name at once split the votes less often.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (_, cluster) = multilock::Masters::in_memory(5).await?;
/// use multilock::{Masters, Rounds, Vote};
///
/// let masters = cluster.connect(Masters::builder().rounds(Rounds::Thrifty)).await?;
/// let guard = masters.red_lock("invoice:42").lock().await?;
/// let not_asked = guard.votes().iter().filter(|answer| answer.vote == Vote::NotAsked).count();
/// assert_eq!(not_asked, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rounds {
    /// As many as are needed while the client is busy, else all. The default.
    #[default]
    Adaptive,
    /// All: each hold has its slack from the start.
    All,
    /// As many as are needed.
    Thrifty,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: None,
            for_tests: None,
            max_hold: None,
            max_idle: 64,
            node_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            drift_factor: LEAST_DRIFT_FACTOR,
            accepted: AcceptedRisks::default(),
            require_all: false,
            quarantine: Quarantine::Auto,
            rounds: Rounds::Adaptive,
            strict: false,
            beside_redisson: false,
            namespace: Namespace::default(),
            client_label: None,
        }
    }
}

impl Config {
    /// Longest lease that any client of these masters may ask for.
    pub(crate) fn longest_lease(&self) -> Duration {
        self.whole_for_tests().unwrap_or(LONGEST_LEASE)
    }

    /// Longest lease for tests, in the whole milliseconds in which masters record it.
    fn whole_for_tests(&self) -> Option<Duration> {
        self.for_tests.map(whole_milliseconds)
    }

    /// Set of `masters` masters, as this client describes it.
    pub(crate) fn set(&self, masters: usize) -> MasterSet {
        MasterSet {
            masters,
            for_tests: self.whole_for_tests(),
        }
    }

    /// Shortest lease that can still be valid if every node takes its full deadline twice, to answer and to be asked
    /// again: 2 × node timeout + drift.
    fn shortest_lease(&self) -> Duration {
        let round_trips = self.node_timeout.saturating_mul(2);
        // The drift is a part of the lease, so the equation is solved for the lease, and the result is
        // rounded up to whole ms.
        let fixed = round_trips + RESOLUTION;
        let lease =
            Duration::try_from_secs_f64(fixed.as_secs_f64() / (1.0 - self.drift_factor)).unwrap_or(MAX_TIME);
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
        self.namespace.check()?;
        client_label::check(self.client_label.as_deref())?;
        let smallest = Duration::from_millis(1);
        in_range("connect_timeout", self.connect_timeout, smallest, MAX_TIMEOUT)?;
        if !(LEAST_DRIFT_FACTOR..=0.5).contains(&self.drift_factor) {
            return Err(InvalidInput::new(
                "drift_factor",
                self.drift_factor,
                "0.01 to 0.5",
            ));
        }
        // A hold of the longest lease is to be valid after two node timeouts.
        let longest_timeout = match self.for_tests {
            None => whole_milliseconds(self.most_validity(self.longest_lease()) / 2),
            Some(_) => MAX_TIMEOUT,
        };
        in_range("node_timeout", self.node_timeout, smallest, longest_timeout)?;
        if let Some(longest) = self.for_tests {
            in_range("for_tests", longest, self.shortest_lease(), MAX_FOR_TESTS)?;
        }
        if let Some(lease) = self.lease {
            self.checked_lease(lease)?;
        }
        if let Some(max) = self.max_hold {
            checked_max_hold(max, self.default_lease())?;
        }
        if let Quarantine::For(quarantine) = self.quarantine {
            let shortest = outlived(self.longest_lease(), self.drift_factor);
            in_range("quarantine", quarantine, shortest, MAX_TIME)?;
        }
        Ok(())
    }

    /// Lease of a call without one of its own, in the whole milliseconds that Redis counts.
    pub(crate) fn default_lease(&self) -> Duration {
        self.lease.map_or(self.longest_lease(), whole_milliseconds)
    }

    /// Checks the lease of a call, and cuts it to the whole milliseconds that Redis counts.
    pub(crate) fn checked_lease(&self, lease: Duration) -> Result<Duration, InvalidInput> {
        let (lease, longest) = (whole_milliseconds(lease), self.longest_lease());
        in_range("lease", lease, self.shortest_lease(), longest).map_err(|mut error| {
            if lease > longest {
                error.allowed.push_str(ENOUGH);
            }
            error
        })?;
        Ok(lease)
    }

    /// Longest validity that a lease can give.
    pub(crate) fn most_validity(&self, lease: Duration) -> Duration {
        lease.saturating_sub(drift(lease, self.drift_factor))
    }

    /// Checks a time, which must be shorter than the longest validity of the lease.
    pub(crate) fn check_within_validity(
        &self,
        field: &'static str,
        time: Duration,
        lease: Duration,
    ) -> Result<(), InvalidInput> {
        let most = self.most_validity(lease);
        if time < most {
            return Ok(());
        }
        let allowed = format!(
            "less than {}, the lease minus drift",
            humantime::format_duration(most)
        );
        Err(InvalidInput::time(field, time, allowed))
    }
}

/// Reason why no longer lease is needed.
const ENOUGH: &str = "; a hold is renewed for as long as it lives, and max_hold bounds it";

/// Longest time for which a hold with this lease is renewed; `None` for a time without an end.
pub(crate) fn checked_max_hold(max: Duration, lease: Duration) -> Result<Option<Duration>, InvalidInput> {
    if max >= lease {
        return Ok(bounded(max));
    }
    let allowed = format!("{} or more, the lease", humantime::format_duration(lease));
    Err(InvalidInput::time("max_hold", max, allowed))
}

/// Time to wait or to hold; `None` for a time without an end.
pub(crate) fn bounded(time: Duration) -> Option<Duration> {
    (time <= FOR_EVER).then_some(time)
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
    // Exact, so that a shown value can be used as it is. Thousands of years need not be.
    let most = if to < MAX_TIME {
        humantime::format_duration(to).to_string()
    } else {
        "285000years".into()
    };
    let allowed = format!("{} to {most}", humantime::format_duration(from));
    Err(InvalidInput::time(field, value, allowed))
}

fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
