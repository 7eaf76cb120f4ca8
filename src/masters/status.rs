//! What a client knows of its masters without asking them.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::values::policy::{Policy, forgetful_allowed};

/// What a client knows of its masters, and has to do with them, at one moment: [`Masters::status`](crate::Masters::status).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::Policy;
///
/// cluster.master(2).crash();
/// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// let status = masters.status();
/// assert_eq!(status.voting(), 2);
/// assert!(status.is_ready(Policy::RedLock) && !status.is_ready(Policy::MultiLock));
/// for node in status.nodes.iter().filter(|node| !node.has_vote()) {
///     println!("{} has no vote: {:?}", node.node, node.connection);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// One for each master, in the order in which they were configured.
    pub nodes: Vec<NodeStatus>,
    /// Holds that this client has, whose guards live or that it still looks after. One that was leaked is not counted.
    pub holds: usize,
    /// Calls that wait for a lock.
    pub waiters: usize,
    /// Whether the client is closed, or the runtime has ended on which it was connected.
    pub closed: bool,
}

/// What a client knows of one master.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The master's address, without credentials.
    pub node: Arc<str>,
    /// What is known of it while it is connected, or why it is not.
    pub connection: Result<NodeConnection, NodeError>,
    /// Releases that it is still owed: they are sent as soon as it can take them.
    pub owed_releases: usize,
    /// Whether so many are owed that it is asked for no new hold.
    pub is_overloaded: bool,
}

/// What a client knows of a master that it is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeConnection {
    /// The server's version, as it tells it.
    pub version: Arc<str>,
    /// What it can do of what not every server can.
    pub capabilities: Capabilities,
    /// What the last answer took that counted in a vote; before the first, what it took to set up the connection, which is
    /// several round trips.
    pub round_trip: Duration,
    /// Whether it has missed a node deadline, and given no sign of life since.
    pub is_silent: bool,
    /// For how much longer it has no vote, because it may have forgotten who holds: it was started not long ago, its memory
    /// was wiped, or its clock stepped. Zero when it has one.
    pub quarantine: Duration,
    /// How far its wall clock is ahead of this host's, in microseconds, by what it told last; negative where it is behind.
    /// No better than half a round trip.
    pub clock_offset_us: i64,
}

impl Status {
    /// How many masters have a vote: they are connected, answer, are not in quarantine and are not owed too many releases.
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.has_vote()).count()
    }

    /// Whether a lock under this policy could be granted now, as far as is known: for a readiness check. Masters in
    /// quarantine count where there are so few of them that the policy can bear them, as in a vote.
    ///
    /// It says nothing about who holds what. A process is not to be killed for it: masters that come back are found by
    /// themselves. False for a policy that these masters do not allow.
    ///
    /// ```no_run
    /// # use multilock::{Masters, Policy};
    /// # fn ready(masters: &Masters) -> bool {
    /// masters.status().is_ready(Policy::RedLock)
    /// # }
    /// ```
    pub fn is_ready(&self, policy: Policy) -> bool {
        self.ready_in(policy) == Some(Duration::ZERO)
    }

    /// Time until a lock under this policy can be granted, as far as is known: zero where it can be now, else until the
    /// quarantine of enough masters has ended. `None` where too few masters are connected and answer, or the client is
    /// closed, or these masters do not allow the policy.
    ///
    /// [`Masters::ready`](crate::Masters::ready) waits for it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Policy;
    /// use multilock::sim::Keep;
    ///
    /// cluster.iter().for_each(|master| master.restart(Keep::Data));
    /// # tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// let first_lock = masters.status().ready_in(Policy::RedLock).expect("all are connected");
    /// assert!((29..31).contains(&first_lock.as_secs()), "{first_lock:?}");
    /// # Ok(()) }
    /// ```
    pub fn ready_in(&self, policy: Policy) -> Option<Duration> {
        let needed = policy.checked(self.nodes.len()).ok().filter(|_| !self.closed)?;
        let ends = self.nodes.iter().map(NodeStatus::quarantine);
        let moments = std::iter::once(Duration::ZERO).chain(ends);
        moments
            .filter(|after| self.counted(*after, needed) >= needed)
            .min()
    }

    /// How many masters count towards so many grants once this much time has passed.
    fn counted(&self, after: Duration, needed: usize) -> usize {
        let remembers = |node: &&NodeStatus| node.quarantine() <= after;
        let forgetful = self.nodes.iter().filter(|node| !remembers(node)).count();
        let all_count = forgetful <= forgetful_allowed(needed, self.nodes.len());
        let asked = self.nodes.iter().filter(|node| node.is_there());
        asked.filter(|node| all_count || remembers(node)).count()
    }

    /// Whether it tells anything else than `before` that somebody may want to act upon.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        self.closed != before.closed
            || self.nodes.len() != before.nodes.len()
            || self
                .nodes
                .iter()
                .zip(&before.nodes)
                .any(|(node, before)| node.differs(before))
    }
}

impl NodeStatus {
    /// Whether its answers count: it is connected, answers, is not in quarantine and is not owed too many releases.
    pub fn has_vote(&self) -> bool {
        self.is_there() && self.quarantine().is_zero()
    }

    /// For how much longer it has no vote although it is connected.
    fn quarantine(&self) -> Duration {
        self.connection
            .as_ref()
            .map_or(Duration::ZERO, |connection| connection.quarantine)
    }

    fn is_there(&self) -> bool {
        !self.is_overloaded
            && self
                .connection
                .as_ref()
                .is_ok_and(|connection| !connection.is_silent)
    }

    fn differs(&self, before: &Self) -> bool {
        let connections = (&self.connection, &before.connection);
        self.is_overloaded != before.is_overloaded
            || match connections {
                (Ok(now), Ok(before)) => now.differs(before),
                (Err(now), Err(before)) => now != before,
                _ => true,
            }
    }
}

impl NodeConnection {
    fn differs(&self, before: &Self) -> bool {
        self.version != before.version
            || self.capabilities != before.capabilities
            || self.is_silent != before.is_silent
            || self.quarantine.is_zero() != before.quarantine.is_zero()
    }
}

#[cfg(test)]
mod tests;
