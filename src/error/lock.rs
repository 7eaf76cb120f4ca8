//! Errors of taking a lock.

use std::sync::Arc;
use std::time::Duration;

use super::InvalidInput;
use super::faq::Faq;
use super::voteless::Voteless;
use crate::time::rounded::Rounded;
use crate::values::votes::{Vote, Votes};

/// Error of taking a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::LockError;
///
/// async fn charge(masters: &multilock::Masters) -> Result<bool, LockError> {
///     match masters.red_lock("invoice:42").try_lock().await {
///         Ok(guard) => { /* … */ drop(guard); Ok(true) }
///         // Another caller does it. Nothing is wrong.
///         Err(LockError::Contended { .. }) => Ok(false),
///         // Any other error is for the operators, with the answer of each master.
///         Err(error) => {
///             eprintln!("{error}");
///             for answer in error.votes().into_iter().flatten() {
///                 eprintln!("  {}: {}", answer.node, answer.vote);
///             }
///             Err(error)
///         }
///     }
/// }
/// assert!(charge(&masters).await?);
/// # Ok(()) }
/// ```
///
/// Every error is of one of three classes: [`is_contended`](Self::is_contended),
/// [`is_unreachable`](Self::is_unreachable), [`is_permanent`](Self::is_permanent). A wait that timed out is
/// of the class of its cause. In a handler of HTTP requests:
///
/// ```
/// use multilock::LockError;
///
/// /// The status, and the seconds for the header `Retry-After`.
/// fn status(error: &LockError) -> (u16, Option<u64>) {
///     let seconds = error.retry_after().map(|left| left.as_secs() + 1);
///     if error.is_contended() {
///         if let Some(holder) = error.holder() {
///             println!("held by {holder}");
///         }
///         (409, seconds) // Another request is at work: a conflict, and no outage.
///     } else if error.is_unreachable() {
///         (503, seconds)
///     } else {
///         assert!(error.is_permanent());
///         (500, None)
///     }
/// }
/// assert_eq!(status(&LockError::Closed), (500, None));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// An option is out of its range. No master was asked.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Other owners hold the names, or several contenders got a part of the votes each. A key of the same name that is no
    /// lock, such as a list, is in the way as well: [`inspect`](crate::MultiLock::inspect) shows it as
    /// [`NodeState::Foreign`](crate::NodeState::Foreign).
    #[error("held by {}{}, worth trying again in {}{}: {votes}", .holder.as_deref().unwrap_or("another"), in_brackets(.about.as_deref()), Rounded(*.retry_after), if_here(.votes))]
    Contended {
        /// Label of a holder's client ([`client_label`](crate::MastersBuilder::client_label)), if a master
        /// knows it; also of one that keeps the names locked by [`at_least`](crate::MultiLock::at_least). `None` for other
        /// libraries' clients, and if the names are only waited for.
        holder: Option<Arc<str>>,
        /// Text that the holder has set by [`about`](crate::MultiLock::about), if a master knows it.
        // A thin pointer: every result of a lock call has the room of the largest error.
        about: Option<Arc<String>>,
        /// Time until a new attempt can succeed at the earliest, unless the holder releases before.
        retry_after: Duration,
        /// Answer of each master.
        votes: Votes,
    },
    /// Too few masters have a vote to decide: they did not answer, or not in time, or with an error, or are
    /// in quarantine. The message names the cause.
    #[error("{}", Voteless(.votes))]
    Unreachable {
        /// Answer of each master.
        votes: Votes,
    },
    /// The masters granted, but too few of them accepted a fencing token. Some became unreachable before they
    /// were asked for a larger one, or store a token that no new one can exceed.
    #[error("too few masters accepted a fencing token ({faq}): {votes}", faq = Faq("fencing token"))]
    Unfenced {
        /// Answer of each master.
        votes: Votes,
    },
    /// No quorum is possible until a configuration changes or a key is deleted. Too many masters deny
    /// commands that the protocol needs, or have a spoilt fence; the votes name it. A wait would not help, so
    /// [`lock`](crate::MultiLock::lock) returns this error at once.
    #[error(
        "too many masters cannot be used until their configuration, ours or a key of theirs is changed \
         ({faq}): {votes}",
        faq = Faq("misconfigured")
    )]
    Misconfigured {
        /// Answer of each master.
        votes: Votes,
    },
    /// The masters granted, but so slowly that less than the wanted validity was left. Or the owner enters a hold again that
    /// is older than its `max_hold`, so that it is not extended for the wanted validity; then no master was asked.
    #[error("granted too late, {} of validity left ({faq}): {votes}", Rounded(*.validity), faq = Faq("too late"))]
    TooLate {
        /// Rest of the lease after the last answer that was needed.
        validity: Duration,
        /// Answer of each master.
        votes: Votes,
    },
    /// The owner reads these names and asks to write them. No master was asked, because two such owners would
    /// wait for each other for ever. Leave first, or ask to write from the beginning.
    #[error("the owner holds {held} to read, which it has to give up before it may write")]
    Upgrade {
        /// Names that it reads.
        held: String,
    },
    /// [`Masters::close`](crate::Masters::close) was called, or the tokio runtime has ended in which the
    /// masters were connected.
    #[error("the masters were closed, or the tokio runtime in which they were connected has ended ({faq})", faq = Faq("closed"))]
    Closed,
    /// The time given by [`wait`](crate::MultiLock::wait) passed.
    #[error("timed out after {}{}", Rounded(*.waited), because(.last.as_deref()))]
    TimedOut {
        /// Time for which the call waited.
        waited: Duration,
        /// Cause; there always is one.
        /// - Behind a task of this process that holds: [`Contended`](Self::Contended) with this client's own label.
        /// - Behind any other task of this process, or just after it: the last refusal of that task.
        /// - Otherwise the refusal of the last completed round, or [`Unreachable`](Self::Unreachable) without one.
        last: Option<Box<LockError>>,
    },
}

fn in_brackets(text: Option<&String>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Hint if these are the votes of a hold of this process, for a task behind it. Otherwise some master refuses.
fn if_here(votes: &Votes) -> &'static str {
    let is_refused = votes.iter().any(|node| matches!(node.vote, Vote::Refused { .. }));
    if is_refused || votes.granted() == 0 {
        ""
    } else {
        " (this process holds it; a task enters its own hold again by MultiLock::owner)"
    }
}

fn because(last: Option<&LockError>) -> String {
    last.map(|last| format!("; last: {last}")).unwrap_or_default()
}

impl LockError {
    /// Answers of the masters in the last round, if there was one. Behind a task of this process that holds the lock, no
    /// master is asked: these are the answers to that holder, so most of them are grants.
    pub fn votes(&self) -> Option<&Votes> {
        match self {
            Self::Invalid(_) | Self::Upgrade { .. } | Self::Closed => None,
            Self::Contended { votes, .. }
            | Self::Unreachable { votes }
            | Self::Unfenced { votes }
            | Self::Misconfigured { votes }
            | Self::TooLate { votes, .. } => Some(votes),
            Self::TimedOut { last, .. } => last.as_ref().and_then(|last| last.votes()),
        }
    }

    /// Whether other owners hold the names, or came in between. The masters work; a later call can succeed.
    pub fn is_contended(&self) -> bool {
        matches!(self.cause(), Self::Contended { .. })
    }

    /// Whether the masters could not decide: too few of them answered in time, have a vote, or are configured
    /// as needed. A later call can succeed once that has changed.
    pub fn is_unreachable(&self) -> bool {
        !self.is_contended() && !self.is_permanent()
    }

    /// Whether a later call ends in the same way until the program changes. An option is out of its range,
    /// the owner asks to write names that it reads, or the masters were closed.
    pub fn is_permanent(&self) -> bool {
        // Without a wildcard: each new error is put into its class here.
        match self.cause() {
            Self::Invalid(_) | Self::Upgrade { .. } | Self::Closed => true,
            Self::Contended { .. }
            | Self::Unreachable { .. }
            | Self::Unfenced { .. }
            | Self::Misconfigured { .. }
            | Self::TooLate { .. }
            | Self::TimedOut { .. } => false,
        }
    }

    /// Time until a new attempt can succeed at the earliest, unless the holder releases before; `None` if it
    /// is not known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause() {
            Self::Contended { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// [`client_label`](crate::MastersBuilder::client_label) of the holder's client, if a master knows it. The label
    /// is this client's own if a task of this process holds the lock.
    pub fn holder(&self) -> Option<&str> {
        match self.cause() {
            Self::Contended { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }

    /// Text that the holder has set by [`about`](crate::MultiLock::about), if a master knows it.
    pub fn about(&self) -> Option<&str> {
        match self.cause() {
            Self::Contended { about, .. } => about.as_ref().map(|about| about.as_str()),
            _ => None,
        }
    }

    /// Cause of a wait that timed out, or the error itself.
    fn cause(&self) -> &Self {
        match self {
            Self::TimedOut { last: Some(last), .. } => last.cause(),
            other => other,
        }
    }
}
