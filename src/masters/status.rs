//! A client's knowledge of its masters, without asking them.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::capabilities::Capabilities;
use crate::error::NodeError;
use crate::values::policy::{Policy, forgetful_allowed};

/// A client's knowledge of its masters, and its own load, at one moment:
/// [`Masters::status`](crate::Masters::status).
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
    /// Status of each master, in the order in which they were configured.
    pub nodes: Vec<NodeStatus>,
    /// Holds of this client with a live guard, or that it still renews or releases. A leaked hold does not
    /// count.
    pub holds: usize,
    /// Grants that stay with this client while nobody holds them ([`sticky`](crate::MultiLock::sticky)).
    pub idle: usize,
    /// Calls that wait for a lock.
    pub waiters: usize,
    /// Whether the client is closed, or the runtime has ended on which it was connected.
    pub closed: bool,
}

/// A client's knowledge of one master.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Address of the master, without credentials.
    pub node: Arc<str>,
    /// State of the connection, or the reason why there is none.
    pub connection: Result<NodeConnection, NodeError>,
    /// Pending releases: they are sent as soon as the master can take them.
    pub pending_releases: usize,
    /// Whether the backlog of releases is so large that the master is sent no call for a new hold.
    pub is_overloaded: bool,
}

/// A client's knowledge of a master to which it is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeConnection {
    /// Server's version by its own report.
    pub version: Arc<str>,
    /// Capabilities that not every server has.
    pub capabilities: Capabilities,
    /// Round trip of the last answer that counted as a vote. Before the first one, it is the time of the
    /// connection's set-up, which is several round trips.
    pub round_trip: Duration,
    /// Whether the master has missed a node timeout, and sent nothing since.
    pub is_silent: bool,
    /// Whether the master has answered the last question for a lock with an error, in the last 10 seconds: its memory is
    /// full, it cannot write to its disk, it is busy with a script, or it denies a command. An error that depends on the
    /// name does not count, such as a denied key. False again after 10 seconds without a question, as only a question
    /// can tell.
    pub is_refusing: bool,
    /// Time for which the master has no vote, because it may have forgotten its holders: it was started not long ago,
    /// its memory was wiped, or its clock stepped. Zero if it has a vote.
    pub quarantine: Duration,
    /// Time by which its wall clock is ahead of this host's, in microseconds, by its last answer; negative if
    /// it is behind. No more exact than half a round trip.
    pub clock_offset_us: i64,
}

impl Status {
    /// Number of masters that have a vote: they are connected, answer without an error, are not in quarantine and have no
    /// large backlog. None once the client is closed.
    pub fn voting(&self) -> usize {
        let voting = self.nodes.iter().filter(|node| node.has_vote());
        if self.closed { 0 } else { voting.count() }
    }

    /// Whether a lock under this policy could be granted now, by this client's knowledge: for a readiness
    /// check. Masters in quarantine count, as in a vote, if they are so few that the policy tolerates them.
    ///
    /// The answer does not depend on holders. Do not kill a process because of it: the client reconnects to masters
    /// by itself. False for a policy that these masters do not allow.
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

    /// Time until a lock under this policy can be granted, by this client's knowledge: zero if that is now, else the
    /// time until the quarantine of enough masters has ended. `None` if
    /// - too few masters are connected and answer without an error,
    /// - the client is closed,
    /// - these masters do not allow the policy.
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

    /// Number of masters that count towards `needed` grants once this much time has passed.
    fn counted(&self, after: Duration, needed: usize) -> usize {
        let remembers = |node: &&NodeStatus| node.quarantine() <= after;
        let forgetful = self.nodes.iter().filter(|node| !remembers(node)).count();
        let all_count = forgetful <= forgetful_allowed(needed, self.nodes.len());
        let asked = self.nodes.iter().filter(|node| node.is_there());
        asked.filter(|node| all_count || remembers(node)).count()
    }

    /// Whether the status differs from `before` in a way that a program may act upon.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        let nodes = self.nodes.iter().map(NodeStatus::shown);
        self.closed != before.closed || nodes.ne(before.nodes.iter().map(NodeStatus::shown))
    }
}

impl NodeStatus {
    /// Whether the master's answers count: it is connected, answers without an error, is not in quarantine and has no large
    /// backlog.
    pub fn has_vote(&self) -> bool {
        self.is_there() && self.quarantine().is_zero()
    }

    /// Time for which the master has no vote although it is connected.
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
                .is_ok_and(|connection| !connection.is_silent && !connection.is_refusing)
    }

    /// Parts of the status that a program may act upon.
    fn shown(&self) -> impl PartialEq {
        let connection = self.connection.as_ref().map(|connection| {
            let has_quarantine = !connection.quarantine.is_zero();
            (
                &connection.version,
                connection.capabilities,
                connection.is_silent,
                connection.is_refusing,
                has_quarantine,
            )
        });
        (self.is_overloaded, connection)
    }
}

#[cfg(test)]
mod tests;
