//! Answers of the masters: the evidence in errors and guards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::rounded::Rounded;
use crate::values::last_force::LastForce;

/// Word for a master that assents to an acquire.
const GRANTED: &str = "granted";

/// One master's answer in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vote {
    /// The master granted, extended or released, as asked.
    Granted,
    /// Another owner holds the name there, or waits for it with a smaller ticket.
    Refused {
        /// Time until that hold expires unless it is renewed, or that waiter asks again; `None` if the key
        /// has no expiry.
        remaining: Option<Duration>,
    },
    /// The hold that was to be extended or released is not there, or no longer.
    NotHeld,
    /// The owner was forced out by an operator.
    Revoked {
        /// Last force of the name, if the master remembers it.
        force: Option<Arc<LastForce>>,
    },
    /// The call did not take effect as asked: the server answered with an error, or its clock is wrong.
    Failed {
        /// Error of the server, in its own words.
        error: Arc<str>,
    },
    /// Not sent: the client has no connection.
    NotSent {
        /// Reason why it has none.
        reason: Arc<str>,
    },
    /// No answer came within the node timeout: the command may still be executed.
    Late {
        /// Deadline, which [`MastersBuilder::node_timeout`](crate::MastersBuilder::node_timeout) sets.
        within: Duration,
        /// Round trip of the master's last late answer, if there was one.
        took: Option<Duration>,
    },
    /// No usable answer came: the command may or may not have been executed.
    Unknown {
        /// Event in place of an answer.
        reason: Arc<str>,
    },
    /// The answer does not count, because the master may have forgotten a holder: it was started or wiped not long
    /// ago, is new to its set, or its clock stepped.
    Quarantined {
        /// Time for which its answers do not count.
        remaining: Duration,
    },
    /// The outcome was certain before this master answered.
    Pending,
    /// Not asked: a busy client asked as many masters as are needed ([`Rounds`](crate::Rounds)), and all of them
    /// granted. With [`beside_redisson`](crate::MastersBuilder::beside_redisson), a waiter may also ask the first
    /// master alone, and be refused there.
    NotAsked,
}

impl Vote {
    /// Whether the master may have a field of the asker after this answer to an acquire.
    pub(crate) fn may_have_granted(&self) -> bool {
        matches!(
            self,
            Self::Granted
                | Self::Quarantined { .. }
                | Self::Late { .. }
                | Self::Unknown { .. }
                | Self::Pending
        )
    }
}

impl Vote {
    /// Whether a master with this answer to an acquire may grant if it is asked again soon. The others in its way may have
    /// been there for a moment.
    pub(crate) fn may_soon_grant(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::NotAsked => true,
            Self::Failed { error } => error.starts_with("NOSCRIPT"),
            _ => false,
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str(GRANTED),
            Self::Refused {
                remaining: Some(left),
            } => {
                write!(f, "held by another for {}", Rounded(*left))
            }
            Self::Refused { remaining: None } => {
                f.write_str("held without expiry, perhaps by a key that is no lock")
            }
            Self::NotHeld => f.write_str("not held"),
            Self::Revoked { force: None } => f.write_str("owner was forced out"),
            Self::Revoked { force: Some(force) } => write!(f, "owner was forced out {force}"),
            Self::Failed { error } => write!(f, "failed: {error}"),
            Self::NotSent { reason } => write!(f, "not sent: {reason}"),
            Self::Late { within, took } => {
                let within = Rounded(*within);
                write!(
                    f,
                    "no usable answer: none within {within} (MastersBuilder::node_timeout)"
                )?;
                match took {
                    Some(took) => {
                        let took = Rounded(*took);
                        write!(f, ", and the last one took {took}, for which it is too short")
                    }
                    None => Ok(()),
                }
            }
            Self::Unknown { reason } => write!(f, "no usable answer: {reason}"),
            Self::Quarantined { remaining } => write!(f, "in quarantine for {}", Rounded(*remaining)),
            Self::Pending => f.write_str("not waited for"),
            Self::NotAsked => f.write_str("not asked"),
        }
    }
}

/// One master and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeVote {
    /// Address of the master, without credentials.
    pub node: Arc<str>,
    /// Answer of the master.
    pub vote: Vote,
}

/// Answers of all masters, in the order in which the masters were configured.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::Vote;
///
/// cluster.master(1).crash();
/// let guard = masters.red_lock("invoice:42").lock().await?;
/// let votes = guard.votes();
/// assert_eq!(votes.granted(), 2);
/// for answer in votes.iter().filter(|answer| answer.vote != Vote::Granted) {
///     println!("{}: {}", answer.node, answer.vote);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Votes(Vec<NodeVote>);

impl Votes {
    pub(crate) fn new<'a>(nodes: impl Iterator<Item = &'a Arc<str>>, votes: &[Vote]) -> Self {
        Self(
            nodes
                .zip(votes)
                .map(|(node, vote)| NodeVote {
                    node: Arc::clone(node),
                    vote: vote.clone(),
                })
                .collect(),
        )
    }

    /// One entry for each master.
    pub fn iter(&self) -> std::slice::Iter<'_, NodeVote> {
        self.0.iter()
    }

    /// Writes each answer once, behind the masters that gave it, with a word for masters that assented.
    fn write(&self, f: &mut fmt::Formatter<'_>, assented: &str) -> fmt::Result {
        let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
        for NodeVote { node, vote } in self {
            let answer = match vote {
                Vote::Granted => assented.to_owned(),
                vote => vote.to_string(),
            };
            match answers.iter_mut().find(|(known, _)| *known == answer) {
                Some((_, nodes)) => nodes.push(node),
                None => answers.push((answer, vec![node])),
            }
        }
        for (i, (answer, nodes)) in answers.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {answer}", nodes.join(", "))?;
        }
        Ok(())
    }

    /// Number of masters that granted.
    pub fn granted(&self) -> usize {
        self.iter().filter(|node| node.vote == Vote::Granted).count()
    }
}

impl<'a> IntoIterator for &'a Votes {
    type Item = &'a NodeVote;
    type IntoIter = std::slice::Iter<'a, NodeVote>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, GRANTED)
    }
}

/// Answers to a release or an extension. A master that assented has confirmed it, and has granted nothing.
pub(crate) struct Confirmations<'a>(pub(crate) &'a Votes);

impl fmt::Display for Confirmations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, "confirmed")
    }
}
