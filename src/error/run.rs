//! Outcomes of a body that runs under a lock.

use std::time::Duration;

use super::{LockError, Loss, UnlockError};

/// What [`MultiLock::run`](crate::MultiLock::run) may answer: the fate of the lock, apart from what the
/// body returned.
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
///     ended => panic!("{ended:?}"),
/// }
/// # Ok(()) }
/// ```
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

impl<T> RunError<T> {
    /// As [`LockError::is_contended`], of a lock that was not acquired.
    pub fn is_contended(&self) -> bool {
        self.refusal().is_some_and(LockError::is_contended)
    }

    /// As [`LockError::is_unreachable`], of a lock that was not acquired.
    pub fn is_unreachable(&self) -> bool {
        self.refusal().is_some_and(LockError::is_unreachable)
    }

    /// As [`LockError::is_permanent`], of a lock that was not acquired.
    pub fn is_permanent(&self) -> bool {
        self.refusal().is_some_and(LockError::is_permanent)
    }

    /// As [`LockError::retry_after`], of a lock that was not acquired.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(LockError::retry_after)
    }

    /// As [`LockError::holder`], of a lock that was not acquired.
    pub fn holder(&self) -> Option<&str> {
        self.refusal().and_then(LockError::holder)
    }

    fn refusal(&self) -> Option<&LockError> {
        match self {
            Self::Lock(error) => Some(error),
            _ => None,
        }
    }
}
