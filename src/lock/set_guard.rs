//! Guards of sets: proof of several holds at once.

use std::fmt;
use std::time::Duration;

use futures::future::{join_all, ready, select_all};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::error::{Loss, Lost, UnlockError};
use crate::lock::guard::MultiLockGuard;
use crate::lock::hold_guard::Unlocked;
use crate::lock::mode::Either;
use crate::values::token::FencingToken;

/// Proof of several holds, valid for as long as all of them are.
///
/// Dropping it gives all holds up in the background, as with [`MultiLockGuard`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::UnlockSetError;
///
/// let set = masters.red_lock("account:1").and(masters.red_lock("account:2")).lock().await?;
/// set.ensure_valid()?;
/// for (guard, token) in set.guards().iter().zip(set.fencing_tokens()) {
///     assert_eq!(guard.fencing_token(), token);
/// }
/// println!("valid for {:?}", set.validity());
/// if let Err(UnlockSetError { outcomes, .. }) = set.unlock().await {
///     println!("{outcomes:?}");
/// }
/// # Ok(()) }
/// ```
#[must_use = "a guard that is dropped at once releases its locks at once"]
#[clippy::has_significant_drop]
pub struct LockSetGuard {
    guards: Vec<MultiLockGuard<Either>>,
}

/// The loss of one of several holds, as [`LockSetGuard::lost`] reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock {} of the set: {loss}", .index + 1)]
#[non_exhaustive]
pub struct SetLoss {
    /// Index of the lost lock, from 0, in the order in which the set was put together.
    pub index: usize,
    /// Loss of its hold.
    pub loss: Loss,
}

/// Error of [`LockSetGuard::unlock`], with the outcome for each lock. All holds were given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", failures(.outcomes))]
#[non_exhaustive]
pub struct UnlockSetError {
    /// One outcome for each lock, in the order in which the set was put together; at least one is an error.
    pub outcomes: Vec<Result<Unlocked, UnlockError>>,
}

fn failures(outcomes: &[Result<Unlocked, UnlockError>]) -> String {
    let failure = |(index, outcome): (usize, &Result<Unlocked, UnlockError>)| {
        let error = outcome.as_ref().err()?;
        Some(format!("lock {} of the set: {error}", index + 1))
    };
    let failures: Vec<String> = outcomes.iter().enumerate().filter_map(failure).collect();
    failures.join("; ")
}

impl LockSetGuard {
    pub(crate) fn new(guards: Vec<MultiLockGuard<Either>>) -> Self {
        Self { guards }
    }

    /// Guards of the locks, in the order in which the set was put together.
    pub fn guards(&self) -> &[MultiLockGuard<Either>] {
        &self.guards
    }

    /// Takes the set apart, so that the guards can be given up one by one. The guards come in the order in which the
    /// set was put together.
    #[must_use = "dropping the guards releases the locks"]
    pub fn into_guards(self) -> Vec<MultiLockGuard<Either>> {
        self.guards
    }

    /// Shortest validity of all holds, from the clock at this call; zero when one of the holds is lost.
    pub fn validity(&self) -> Duration {
        let validities = self.guards.iter().map(MultiLockGuard::validity);
        validities.min().unwrap_or_default()
    }

    /// Whether the validity of all holds has not ended.
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// Checks the validity, in one line before a side effect: `set.ensure_valid()?`.
    ///
    /// # Errors
    ///
    /// [`Lost`] when one of the holds has no validity left.
    pub fn ensure_valid(&self) -> Result<(), Lost> {
        if self.is_valid() { Ok(()) } else { Err(Lost) }
    }

    /// Tokens of the locks, each for the resource that its lock guards. There is no token for all locks
    /// together.
    pub fn fencing_tokens(&self) -> Vec<FencingToken> {
        self.guards.iter().map(MultiLockGuard::fencing_token).collect()
    }

    /// Resolves when one of the holds is lost, as [`MultiLockGuard::lost`] does. The other holds last until
    /// this guard is given up.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2")).lock().await?;
    /// masters.red_lock("account:2").force_release().await?;
    /// let lost = set.lost().await;
    /// assert_eq!(lost.index, 1, "{}", lost.loss);
    /// assert!(!set.is_valid());
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call only observes the holds, so the future can be dropped and made again at any point.
    pub async fn lost(&self) -> SetLoss {
        let losses = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        let (loss, index, _) = select_all(losses).await;
        SetLoss { index, loss }
    }

    /// Returns a token that is cancelled when one of the holds is lost, as by
    /// [`MultiLockGuard::cancellation_token`]. Giving the set up does not cancel it, nor does giving up a guard that was
    /// taken out of the set. A task watches for each token.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2")).lock().await?;
    /// let lost = set.cancellation_token();
    /// let worker = tokio::spawn(async move { lost.cancelled().await });
    /// masters.red_lock("account:2").force_release().await?;
    /// worker.await?;
    /// # Ok(()) }
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        let token = CancellationToken::new();
        // If the runtime ends before the holds, nobody would tell of a loss: the token is cancelled then.
        let cancels = token.clone().drop_guard();
        let ended = self.guards.iter().map(|guard| {
            let hold = guard.hold().clone();
            async move { hold.ended().await }
        });
        let ended: FuturesUnordered<_> = ended.collect();
        let here = Handle::try_current();
        let runtime = here.as_ref().unwrap_or(&self.guards[0].pool().runtime);
        runtime.spawn(async move {
            // A hold that was given up is never lost, and the others are watched on.
            if !ended.any(|cause| ready(cause.is_some())).await {
                cancels.disarm();
            }
        });
        token
    }

    /// Whether somebody else is known to wait for one of the names.
    pub fn is_wanted(&self) -> bool {
        self.guards.iter().any(MultiLockGuard::is_wanted)
    }

    /// Resolves when somebody else waits for one of the names, as [`MultiLockGuard::wanted`] does. Guards that read
    /// are never told, nor are permits.
    ///
    /// # Cancel safety
    ///
    /// The call only observes the holds, so the future can be dropped and made again at any point.
    pub async fn wanted(&self) {
        let wanted = self.guards.iter().map(|guard| Box::pin(guard.wanted()));
        select_all(wanted).await;
    }

    /// Leaves all holds at once. Returns the result of [`MultiLockGuard::unlock`] for each.
    ///
    /// # Errors
    ///
    /// [`UnlockSetError`] when one of the holds had been lost, or its release is not confirmed. All holds are
    /// given up in each case.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, the releases go on in the background.
    pub async fn unlock(self) -> Result<Vec<Unlocked>, UnlockSetError> {
        let outcomes = join_all(self.guards.into_iter().map(MultiLockGuard::unlock)).await;
        let unlocked: Result<Vec<Unlocked>, ()> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().copied().map_err(drop))
            .collect();
        unlocked.map_err(|()| UnlockSetError { outcomes })
    }
}

impl fmt::Debug for LockSetGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.guards).finish()
    }
}
