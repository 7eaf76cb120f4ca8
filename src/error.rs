//! Errors: one enum per operation, each with what every master answered.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::rounded::Rounded;
use crate::votes::{Vote, Votes};

/// A value that cannot be used, found before any master was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed; allowed: {allowed}")]
#[non_exhaustive]
pub struct InvalidInput {
    /// The option or variable that holds the value.
    pub field: &'static str,
    /// The value as it was given (credentials removed).
    pub value: String,
    /// What would be accepted.
    pub allowed: String,
}

impl InvalidInput {
    pub(crate) fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self {
            field,
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}

/// Why a server cannot serve as an independent master.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// It replicates another server, so it has no vote of its own.
    #[error("it is a replica, not a master")]
    Replica,
    /// It is part of a Redis Cluster, which is not one independent vote.
    #[error("it is a node of a Redis Cluster; an independent master is needed")]
    Cluster,
    /// Its version lacks commands that the protocol needs.
    #[error("its version {version} is older than {needed}")]
    TooOld {
        /// What the server says it is.
        version: String,
        /// The oldest version that will do.
        needed: &'static str,
    },
    /// It is the same server as another node, reached by another name.
    #[error("it is the same server as {other}")]
    SameServer {
        /// The node that was connected first.
        other: Arc<str>,
    },
    /// It may evict lock keys when its memory is full.
    #[error(
        "it evicts keys under memory pressure (maxmemory-policy {policy}); set noeviction or allow it in the builder"
    )]
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// It belongs to a set with another number of masters, and so do too many others of the list.
    #[error(
        "it belongs to a set of {masters} masters, and {listed} are listed here; list the same masters in every \
         client, or, once no client uses it with another list, DEL multilock_masters there"
    )]
    OtherSet {
        /// The number that it stores under `multilock_masters`.
        masters: usize,
        /// The number that this client lists.
        listed: usize,
    },
    /// It does not let this client in, or not do what the protocol needs.
    #[error("it denies access: {error}")]
    Denied {
        /// The server's own words.
        error: String,
    },
}

/// Why a node could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The server answered and will not do until somebody changes its configuration or ours.
    #[error("{0}")]
    Unfit(#[from] Unfit),
    /// It could not be reached, or is not ready (yet).
    #[error("{0}")]
    Unavailable(String),
}

impl NodeError {
    /// Whether it may be over without anybody changing a configuration. A master is a replica for a
    /// moment while it is failed over, and two addresses lead to one while they change places.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Unfit(Unfit::Replica | Unfit::SameServer { .. }) => true,
            Self::Unfit(_) => false,
        }
    }
}

/// What [`MastersBuilder::connect`](crate::MastersBuilder::connect) may answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// An option is out of its range. No master was touched.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// A server answered that can never be one of these masters.
    #[error("{node} cannot be used: {reason}")]
    Unfit {
        /// The node's address.
        node: Arc<str>,
        /// What is wrong with it.
        reason: Unfit,
    },
    /// Fewer than a majority could be reached.
    #[error("only {reached} of {} masters could be reached, {needed} are needed: {}", .nodes.len(), NodeReport(.nodes))]
    TooFew {
        /// Masters that are connected.
        reached: usize,
        /// The majority.
        needed: usize,
        /// What every node said; `None` for a connected one.
        nodes: Vec<(Arc<str>, Option<NodeError>)>,
    },
}

/// Lists what every node said, for people.
struct NodeReport<'a>(&'a [(Arc<str>, Option<NodeError>)]);

impl fmt::Display for NodeReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (node, error)) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            match error {
                Some(error) => write!(f, "{separator}{node}: {error}")?,
                None => write!(f, "{separator}{node}: connected")?,
            }
        }
        Ok(())
    }
}

/// A lease that is longer than what needs no agreement (30 s), and that not every master has agreed to.
///
/// Every client has to reckon with the longest lease of any other: a master that was started anew has no
/// vote for so long. So a longer one is stored on every master before it is asked for the first time, and
/// for that all of them must be connected at once; from then on it is in force for every client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a lease of {} is not in force: {} to confirm it; all masters must be connected at once for that \
     (where it is confirmed, GET multilock_charter begins with {} or more)",
    Rounded(*.lease), Awaited(.unconfirmed), .lease.as_millis()
)]
#[non_exhaustive]
pub struct Unchartered {
    /// The lease that was asked for.
    pub lease: Duration,
    /// The masters that have not confirmed it on the connection that stands; empty when they have at
    /// this very moment.
    pub unconfirmed: Vec<Arc<str>>,
}

struct Awaited<'a>(&'a [Arc<str>]);

impl fmt::Display for Awaited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "{one} has"),
            all => write!(f, "{} have", all.join(", ")),
        }
    }
}

/// What taking a lock may answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// An option is out of its range. No master was asked.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Others hold it, or several contenders got a part each.
    #[error("held by another, worth trying again in {}: {votes}", Rounded(*.retry_after))]
    Contended {
        /// When a new attempt could succeed at the earliest, unless the holder releases before.
        retry_after: Duration,
        /// What every master answered.
        votes: Votes,
    },
    /// Too few masters have a vote to decide: they did not answer, or not in time, or with an error, or
    /// are in quarantine. The message says which.
    #[error("{}: {votes}", Voteless(.votes))]
    Unreachable {
        /// What every master answered.
        votes: Votes,
    },
    /// The masters granted, but too few of them accepted a fencing token: some were lost between
    /// being asked and being asked for a larger one, or store one that nothing can be above.
    #[error("too few masters accepted a fencing token: {votes}")]
    Unfenced {
        /// What every master answered.
        votes: Votes,
    },
    /// So many masters deny what the protocol needs that no quorum can be had until somebody
    /// changes their configuration. Waiting would not help, so [`lock`](crate::MultiLock::lock)
    /// returns it at once.
    #[error("too many masters cannot be used until their configuration or ours is changed: {votes}")]
    Misconfigured {
        /// What every master answered.
        votes: Votes,
    },
    /// The masters granted, but so slowly that less than the wanted validity was left.
    #[error("granted too late, {} of validity left: {votes}", Rounded(*.validity))]
    TooLate {
        /// What was left of the lease after the last answer that was needed.
        validity: Duration,
        /// What every master answered.
        votes: Votes,
    },
    /// The lease is not in force yet. [`lock`](crate::MultiLock::lock) waits for it.
    #[error(transparent)]
    Unchartered(#[from] Unchartered),
    /// [`Masters::close`](crate::Masters::close) was called, or the tokio runtime has ended in which the
    /// masters were connected.
    #[error("the masters were closed, or the tokio runtime in which they were connected has ended")]
    Closed,
    /// The time given by [`wait`](crate::MultiLock::wait) passed.
    #[error("timed out after {}{}", Rounded(*.waited), Because(.last.as_deref()))]
    TimedOut {
        /// How long the call waited.
        waited: Duration,
        /// What stood in the way on the last round that was completed, if one was.
        last: Option<Box<LockError>>,
    },
}

/// Why too few masters had a vote, for people.
struct Voteless<'a>(&'a Votes);

impl fmt::Display for Voteless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(late) = Lateness::of(self.0) {
            return late.fmt(f);
        }
        let (mut silent, mut failed, mut quarantine) = (false, false, None);
        for node in self.0 {
            match &node.vote {
                Vote::NotSent { .. } | Vote::Late { .. } | Vote::Unknown { .. } => silent = true,
                Vote::Failed { .. } => failed = true,
                Vote::Quarantined { remaining } => quarantine = quarantine.max(Some(*remaining)),
                Vote::Granted | Vote::Refused { .. } | Vote::NotHeld | Vote::Revoked | Vote::Pending => {}
            }
        }
        match (silent, failed, quarantine) {
            (false, false, Some(remaining)) => write!(
                f,
                "too many masters are in quarantine, the last one for {}, as each is that was started less \
                 than the longest lease ago; for masters that are thrown away set Quarantine::Off",
                Rounded(remaining)
            ),
            (false, true, None) => f.write_str("too many masters answered with an error"),
            (false, true, Some(_)) => {
                f.write_str("too many masters answered with an error or are in quarantine")
            }
            (true, _, None) => f.write_str("too few masters answered"),
            (true, _, Some(_)) => f.write_str("too few masters answered that are not in quarantine"),
            (false, false, None) => f.write_str("too few masters had a vote"),
        }
    }
}

/// What the node deadline alone stands in the way of: masters that are there, or may be, and answer later.
struct Lateness {
    within: Duration,
    /// The longest that an answer took, where late ones have come.
    took: Option<Duration>,
    /// Not one master answered in time.
    all: bool,
}

impl Lateness {
    /// `None` where anything else stands in the way, or may: some answer, and of the others nothing has
    /// come at all.
    fn of(votes: &Votes) -> Option<Self> {
        let (mut deadline, mut longest, mut all) = (None, None, true);
        for node in votes {
            match &node.vote {
                Vote::Late { within, took } => {
                    deadline = Some(*within);
                    longest = longest.max(*took);
                }
                Vote::Granted | Vote::Refused { .. } | Vote::NotHeld | Vote::Revoked | Vote::Pending => {
                    all = false;
                }
                Vote::NotSent { .. }
                | Vote::Unknown { .. }
                | Vote::Failed { .. }
                | Vote::Quarantined { .. } => return None,
            }
        }
        let late = Self {
            within: deadline?,
            took: longest,
            all,
        };
        (all || longest.is_some()).then_some(late)
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.all {
            "no master answers"
        } else {
            "too few masters answer"
        };
        let within = Rounded(self.within);
        match self.took {
            Some(took) => write!(
                f,
                "{who} in time: answers took up to {}, and are awaited for {within}; set \
                 MastersBuilder::node_timeout to more than they take",
                Rounded(took)
            ),
            None => write!(
                f,
                "{who} in time, which is within {within}; where they are up but that far away, set \
                 MastersBuilder::node_timeout to more than they take"
            ),
        }
    }
}

struct Because<'a>(Option<&'a LockError>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |last| write!(f, "; last: {last}"))
    }
}

impl LockError {
    /// What every master answered on the last round, where there was one.
    pub fn votes(&self) -> Option<&Votes> {
        match self {
            Self::Invalid(_) | Self::Unchartered(_) | Self::Closed => None,
            Self::Contended { votes, .. }
            | Self::Unreachable { votes }
            | Self::Unfenced { votes }
            | Self::Misconfigured { votes }
            | Self::TooLate { votes, .. } => Some(votes),
            Self::TimedOut { last, .. } => last.as_ref().and_then(|last| last.votes()),
        }
    }
}

/// The hold is gone: its validity has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hold's validity has ended")]
#[non_exhaustive]
pub struct Lost;

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// Its validity ended before a quorum had confirmed an extension.
    Expired,
    /// So many masters serve somebody else, or an operator, that no quorum is left for it.
    TakenAway,
    /// So many masters have forgotten it, or serve somebody else, that no quorum keeps it, and none of
    /// them could be given it again.
    Forgotten,
    /// [`Masters::close`](crate::Masters::close) released it.
    Closed,
}

/// The loss of a hold, as [`MultiLockGuard::lost`](crate::MultiLockGuard::lost) reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hold was lost ({cause:?}): {votes}")]
#[non_exhaustive]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// What every master answered last.
    pub votes: Votes,
}

/// What [`MultiLock::run`](crate::MultiLock::run) may answer: the fate of the lock, apart from what the
/// body returned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<T> {
    /// The lock was not acquired; the body did not begin.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The hold was lost and the body was dropped at its next await.
    #[error(transparent)]
    Lost(Loss),
    /// The body came to its end, but the hold had been lost by then or its release is not confirmed.
    #[error("the body has ended, but {error}")]
    Unlock {
        /// What the body returned.
        output: T,
        /// What became of the lock.
        error: UnlockError,
    },
}

/// What [`MultiLockGuard::extend`](crate::MultiLockGuard::extend) may answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lease is out of its range. No master was asked; the hold is as it was.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The lease is not in force yet. The hold is as it was.
    #[error(transparent)]
    Unchartered(#[from] Unchartered),
    /// The validity had ended before a quorum confirmed. Nothing revives a hold.
    #[error("the hold is lost: {votes}")]
    Lost {
        /// What every master answered; empty when the hold was lost before any was asked.
        votes: Votes,
    },
    /// No quorum confirmed. The hold is as it was and keeps the validity it had.
    #[error("not extended, {} of validity left: {votes}", Rounded(*.validity))]
    NotExtended {
        /// What is left of the old validity.
        validity: Duration,
        /// What every master answered.
        votes: Votes,
    },
}

/// What [`MultiLockGuard::unlock`](crate::MultiLockGuard::unlock) may answer. In each case this guard
/// has given up its hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The hold had ended before: its validity had passed, or too many masters no longer had it.
    /// What was done under it may have overlapped with another holder.
    #[error("the hold was lost before it was released: {votes}")]
    WasLost {
        /// What every master answered: to the release, or last before it where this guard sent none,
        /// because others are in the hold or because it was released when it was found lost.
        votes: Votes,
    },
    /// Too few masters confirmed the release. They are told again in the background; at the latest
    /// the lease frees the name.
    #[error("release not confirmed, free in {} at the latest: {votes}", Rounded(*.free_within))]
    Unconfirmed {
        /// The longest that a master may keep the name.
        free_within: Duration,
        /// What every master answered.
        votes: Votes,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn late(took: Option<u32>) -> Vote {
        Vote::Late {
            within: 50 * MS,
            took: took.map(|ms| ms * MS + Duration::from_nanos(123_456)),
        }
    }

    fn unreachable(votes: &[Vote]) -> String {
        let nodes: Vec<Arc<str>> = (0..votes.len()).map(|n| format!("m{n}").into()).collect();
        let votes = Votes::new(nodes.iter(), votes);
        LockError::Unreachable { votes }.to_string()
    }

    #[test]
    fn a_node_deadline_that_is_too_short_is_told_as_what_is_in_the_way() {
        let set = "set MastersBuilder::node_timeout to more than they take: m0: ";
        let text = unreachable(&[late(Some(60)), late(Some(75)), late(None)]);
        let why = "no master answers in time: answers took up to 75ms, and are awaited for 50ms; ";
        assert!(text.starts_with(&format!("{why}{set}")), "{text}");

        let text = unreachable(&[late(None), late(None)]);
        let why = "no master answers in time, which is within 50ms; where they are up but that far away, ";
        assert!(text.starts_with(&format!("{why}{set}")), "{text}");

        let text = unreachable(&[Vote::Granted, late(Some(60)), late(Some(60))]);
        let why = "too few masters answer in time: answers took up to 60ms, and are awaited for 50ms; ";
        assert!(text.starts_with(&format!("{why}{set}")), "{text}");
    }

    /// What may be another's fault is not said to be the deadline's.
    #[test]
    fn masters_that_hang_or_are_gone_or_fail_are_not_told_as_far() {
        let gone = || Vote::NotSent {
            reason: "refused".into(),
        };
        let failed = || Vote::Failed { error: "BUSY".into() };
        for (votes, why) in [
            (
                [Vote::Granted, late(None), late(None)],
                "too few masters answered: m0",
            ),
            (
                [gone(), late(Some(60)), late(Some(60))],
                "too few masters answered: m0",
            ),
            (
                [failed(), late(Some(60)), late(Some(60))],
                "too few masters answered: m0",
            ),
            (
                [failed(), failed(), Vote::Pending],
                "too many masters answered with an error: m0",
            ),
        ] {
            let text = unreachable(&votes);
            assert!(text.starts_with(why), "{text}");
        }
    }
}
