//! What taking a lock may answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::InvalidInput;
use super::faq::Faq;
use super::voteless::Voteless;
use crate::time::rounded::Rounded;
use crate::values::votes::Votes;

/// What taking a lock may answer.
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
///         // Somebody else does it. Nothing is wrong.
///         Err(LockError::Contended { .. }) => Ok(false),
///         // Everything else is for the operators, with what each master said.
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
/// [`is_unreachable`](Self::is_unreachable), [`is_permanent`](Self::is_permanent). A wait that timed out is of the class of
/// its cause. In a handler of HTTP requests:
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
    /// Others hold it, or several contenders got a part each.
    #[error("held by {}, worth trying again in {}: {votes}", .holder.as_deref().unwrap_or("another"), Rounded(*.retry_after))]
    Contended {
        /// What the client calls itself that holds ([`client_label`](crate::MastersBuilder::client_label)), or one of
        /// them, where a master told. `None` for other libraries' clients, and where nobody holds any more.
        holder: Option<Arc<str>>,
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
    #[error("too few masters accepted a fencing token ({faq}): {votes}", faq = Faq("fencing token"))]
    Unfenced {
        /// What every master answered.
        votes: Votes,
    },
    /// So many masters deny what the protocol needs, or keep no token in a fence, that no quorum
    /// can be had until somebody changes their configuration or deletes the key, which the votes name. Waiting
    /// would not help, so [`lock`](crate::MultiLock::lock)
    /// returns it at once.
    #[error(
        "too many masters cannot be used until their configuration, ours or a key of theirs is changed \
         ({faq}): {votes}",
        faq = Faq("misconfigured")
    )]
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
    /// The owner reads these names and asks to write them. Two that did so would wait for each other for ever, so no
    /// master was asked: leave first, or ask to write from the beginning.
    #[error("the owner holds {held} to read, which it has to give up before it may write")]
    Upgrade {
        /// The names that it reads.
        held: String,
    },
    /// [`Masters::close`](crate::Masters::close) was called, or the tokio runtime has ended in which the
    /// masters were connected.
    #[error("the masters were closed, or the tokio runtime in which they were connected has ended")]
    Closed,
    /// The time given by [`wait`](crate::MultiLock::wait) passed.
    #[error("timed out after {}{}", Rounded(*.waited), Because(.last.as_deref()))]
    TimedOut {
        /// How long the call waited.
        waited: Duration,
        /// The cause; there always is one. Behind another task of this process: [`Contended`](Self::Contended) by this client's own
        /// label while that task holds, else the last refusal of that task. Otherwise the refusal by the last round that was
        /// completed, or [`Unreachable`](Self::Unreachable) if none was.
        last: Option<Box<LockError>>,
    },
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
            Self::Invalid(_) | Self::Upgrade { .. } | Self::Closed => None,
            Self::Contended { votes, .. }
            | Self::Unreachable { votes }
            | Self::Unfenced { votes }
            | Self::Misconfigured { votes }
            | Self::TooLate { votes, .. } => Some(votes),
            Self::TimedOut { last, .. } => last.as_ref().and_then(|last| last.votes()),
        }
    }

    /// Whether another one holds the names or was in between. Nothing is wrong with the masters; a later call can succeed.
    pub fn is_contended(&self) -> bool {
        self.class() == RetryClass::Contended
    }

    /// Whether the masters could not decide: too few of them answered in time, have a vote, or are set up as is needed. A later
    /// call can succeed, once they do.
    pub fn is_unreachable(&self) -> bool {
        self.class() == RetryClass::Unreachable
    }

    /// Whether a later call ends in the same way as long as the program does not change: an option is out of its range,
    /// the owner asks to write what it reads, or the masters were closed.
    pub fn is_permanent(&self) -> bool {
        self.class() == RetryClass::Permanent
    }

    /// Time until a new attempt can succeed at the earliest, unless the holder releases before; `None` if nothing is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.cause() {
            Self::Contended { retry_after, .. } => Some(*retry_after),
            _ => None,
        }
    }

    /// The [`client_label`](crate::MastersBuilder::client_label) of the client that holds, if a master has told it. It is this
    /// client's own label where a task of this process holds.
    pub fn holder(&self) -> Option<&str> {
        match self.cause() {
            Self::Contended { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }

    /// The error behind a wait that timed out.
    fn cause(&self) -> &Self {
        match self {
            Self::TimedOut { last: Some(last), .. } => last.cause(),
            other => other,
        }
    }

    fn class(&self) -> RetryClass {
        match self.cause() {
            Self::Contended { .. } => RetryClass::Contended,
            Self::Unreachable { .. }
            | Self::Unfenced { .. }
            | Self::Misconfigured { .. }
            | Self::TooLate { .. }
            | Self::TimedOut { .. } => RetryClass::Unreachable,
            Self::Invalid(_) | Self::Upgrade { .. } | Self::Closed => RetryClass::Permanent,
        }
    }
}

/// The answer to the question of a caller: now, later, or never?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryClass {
    Contended,
    Unreachable,
    Permanent,
}
