//! Outcomes of a body that runs under a lock.

use std::fmt;

use super::faq::Faq;
use super::questions::answers_as_its_refusal;
use super::{LockError, Loss};
use crate::values::votes::{Confirmations, Votes};

/// Error of [`MultiLock::run`](crate::MultiLock::run): the fate of the lock, apart from the result of the
/// body.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
/// use multilock::{LossCause, RunError};
///
/// let report = masters.red_lock("report");
/// let job = report.run(async |_guard| {
///     cluster.iter().for_each(|master| master.freeze());
///     // The work. It is dropped here when the hold is lost.
///     std::future::pending::<()>().await;
/// });
/// match job.await {
///     Err(RunError::Lost(loss)) => assert_eq!(loss.cause, LossCause::Expired),
///     // The body has ended all the same: look at its output before the job is done again.
///     Err(error) => {
///         eprintln!("{error}");
///         println!("output: {:?}", error.into_output());
///     }
///     Ok(()) => println!("done"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<T> {
    /// The lock was not acquired; the body did not begin.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The hold was lost and the body was dropped at its next await.
    #[error(transparent)]
    Lost(Loss),
    /// The body came to its end, but its hold had ended before: another holder may have worked at the same
    /// time. The work is done, so a retry does it twice.
    #[error(
        "the body has ended, but its hold was lost before that, and another holder may have been at work meanwhile: \
         {} ({faq})",
        Confirmations(.votes),
        faq = Faq("lost")
    )]
    Overlapped {
        /// Output of the body; see [`into_output`](Self::into_output).
        output: T,
        /// Last answer of each master.
        votes: Votes,
    },
}

impl<T> RunError<T> {
    /// Returns the output of the body, if it came to its end.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Overlapped { output, .. } => Some(output),
            Self::Lock(_) | Self::Lost(_) => None,
        }
    }
}

answers_as_its_refusal!(RunError<T>: Self::Lock(error) => error);

impl<T> fmt::Debug for RunError<T> {
    /// Leaves out the output, because its type need not be `Debug`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => f.debug_tuple("Lock").field(error).finish(),
            Self::Lost(loss) => f.debug_tuple("Lost").field(loss).finish(),
            Self::Overlapped { votes, .. } => f
                .debug_struct("Overlapped")
                .field("votes", votes)
                .finish_non_exhaustive(),
        }
    }
}

/// Error of [`OnceJob::run`](crate::OnceJob::run): the reason why the job is not done.
///
/// `?` takes this type as an error if the error of the body can be shown, as `anyhow::Error` can.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::OnceError;
/// use std::time::Duration;
///
/// let report = masters.red_lock("report").once(Duration::from_secs(3600));
/// let failed = report.run(async |_guard| "x".parse::<u32>()).await;
/// assert!(matches!(failed, Err(OnceError::Body(_))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The lock was not acquired; the body did not begin.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The hold was lost and the body was dropped at its next await.
    #[error(transparent)]
    Lost(Loss),
    /// The body returned this error.
    #[error("the job failed: {0:#}")]
    Body(E),
}

answers_as_its_refusal!(OnceError<E>: Self::Lock(error) => error);
