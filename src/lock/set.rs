//! Several locks that are taken together: [`LockSet`].

use std::fmt;
use std::time::Duration;

use crate::acquire::call;
use crate::acquire::conflict::conflict;
use crate::acquire::outcome::{Guards, MemberError};
use crate::acquire::request::AcquireRequest;
use crate::error::{InvalidInput, LockError, UnlockError};
use crate::lock::MultiLock;
use crate::lock::guard::MultiLockGuard;
use crate::lock::mode::Mode;
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::lock::set_guard::{LockSetGuard, SetLoss, UnlockSetError};

/// Several locks that are taken together or not at all, each with its own masters, names, policy and lease.
///
/// Names on the same masters under one policy are better one lock, `masters.red_lock(["a", "b"])`: that is one round, and
/// each master takes all of them or none.
///
/// ```no_run
/// # async fn transfer(here: multilock::Masters, there: multilock::Masters) -> Result<(), Box<dyn std::error::Error>> {
/// let set = here.red_lock("account:1").and(there.multi_lock("account:2")).lock().await?;
/// let tokens = set.fencing_tokens();
/// set.ensure_valid()?;
/// set.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a set of locks does nothing until one of its verbs is awaited"]
pub struct LockSet {
    locks: Vec<LockOptions>,
    wait: Option<Duration>,
    owner: Option<Owner>,
}

/// What taking a [`LockSet`] may answer: why one of its locks was not to be had. None of them is held then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock {} of the set: {error}", .index + 1)]
#[non_exhaustive]
pub struct LockSetError {
    /// Which one, from 0, in the order in which they were put together.
    pub index: usize,
    /// Why.
    pub error: LockError,
}

/// What [`LockSet::run`] may answer: the fate of the locks, apart from what the body returned.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunSetError<T> {
    /// The locks were not acquired; the body did not begin.
    #[error(transparent)]
    Lock(#[from] LockSetError),
    /// One of the holds was lost, and the body was dropped at its next await.
    #[error(transparent)]
    Lost(SetLoss),
    /// The body came to its end, but one of its holds had ended before: another holder may have been at work at the same
    /// time. The work is done, so a retry does it again.
    #[error("the body has ended, and another holder may have been at work meanwhile: {error}")]
    Overlapped {
        /// The output of the body; see [`into_output`](Self::into_output).
        output: T,
        /// What became of the locks.
        error: UnlockSetError,
    },
}

impl LockSetError {
    /// As [`LockError::is_contended`], of the lock that was refused.
    pub fn is_contended(&self) -> bool {
        self.error.is_contended()
    }

    /// As [`LockError::is_unreachable`], of the lock that was refused.
    pub fn is_unreachable(&self) -> bool {
        self.error.is_unreachable()
    }

    /// As [`LockError::is_permanent`], of the lock that was refused.
    pub fn is_permanent(&self) -> bool {
        self.error.is_permanent()
    }

    /// As [`LockError::retry_after`], of the lock that was refused.
    pub fn retry_after(&self) -> Option<Duration> {
        self.error.retry_after()
    }

    /// As [`LockError::holder`], of the lock that was refused.
    pub fn holder(&self) -> Option<&str> {
        self.error.holder()
    }
}

impl<T> RunSetError<T> {
    /// The output of the body, if it came to its end.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Overlapped { output, .. } => Some(output),
            Self::Lock(_) | Self::Lost(_) => None,
        }
    }

    /// As [`LockError::is_contended`], of locks that were not acquired.
    pub fn is_contended(&self) -> bool {
        self.refusal().is_some_and(LockSetError::is_contended)
    }

    /// As [`LockError::is_unreachable`], of locks that were not acquired.
    pub fn is_unreachable(&self) -> bool {
        self.refusal().is_some_and(LockSetError::is_unreachable)
    }

    /// As [`LockError::is_permanent`], of locks that were not acquired.
    pub fn is_permanent(&self) -> bool {
        self.refusal().is_some_and(LockSetError::is_permanent)
    }

    /// As [`LockError::retry_after`], of locks that were not acquired.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(LockSetError::retry_after)
    }

    /// As [`LockError::holder`], of locks that were not acquired.
    pub fn holder(&self) -> Option<&str> {
        self.refusal().and_then(LockSetError::holder)
    }

    fn refusal(&self) -> Option<&LockSetError> {
        match self {
            Self::Lock(error) => Some(error),
            _ => None,
        }
    }
}

impl<T> fmt::Debug for RunSetError<T> {
    /// Without the output, of any type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => f.debug_tuple("Lock").field(error).finish(),
            Self::Lost(loss) => f.debug_tuple("Lost").field(loss).finish(),
            Self::Overlapped { error, .. } => f
                .debug_struct("Overlapped")
                .field("error", error)
                .finish_non_exhaustive(),
        }
    }
}

impl<M: Mode> MultiLock<M> {
    /// This lock and another one, to be taken together or not at all.
    pub fn and<N: Mode>(self, other: MultiLock<N>) -> LockSet {
        Self::all_of([self]).and(other)
    }

    /// So many locks, to be taken together or not at all.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::MultiLock;
    ///
    /// let accounts = ["account:1", "account:2"].map(|account| masters.red_lock(account));
    /// let set = MultiLock::all_of(accounts).lock().await?;
    /// assert_eq!(set.guards().len(), 2);
    /// set.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub fn all_of(locks: impl IntoIterator<Item = Self>) -> LockSet {
        LockSet {
            locks: locks.into_iter().map(Self::into_options).collect(),
            wait: None,
            owner: None,
        }
    }
}

impl LockSet {
    /// One more.
    pub fn and<N: Mode>(mut self, other: MultiLock<N>) -> Self {
        self.locks.push(other.into_options());
        self
    }

    /// The longest that [`lock`](Self::lock) may take for all of them. Without it, or with more than 365 days, it waits for as
    /// long as it takes. Zero is one try.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Who is to hold all of them. It enters those that it holds already, as with [`MultiLock::owner`].
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Tries once, all of them at the same time: as long as the slowest of their rounds takes. As soon as one is refused, the
    /// others are given back.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let _held = masters.red_lock("account:2").lock().await?;
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2"));
    /// let refused = set.try_lock().await.unwrap_err();
    /// assert_eq!(refused.index, 1, "the second one: {}", refused.error);
    /// // Nothing is held of it.
    /// # tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    /// masters.red_lock("account:1").try_lock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// That of the first lock that was refused, as [`MultiLock::try_lock`] answers; or [`LockError::Invalid`], before any
    /// master is asked, also where two of them want the same name on the same masters (which
    /// is known of masters that are connected), or set what is the set's to say:
    /// `wait`, `owner`, `at_least`.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn try_lock(&self) -> Result<LockSetGuard, LockSetError> {
        all_of(call::try_lock(&mut self.request()?).await)
    }

    /// Waits until it has all of them, at most the time set by [`wait`](Self::wait).
    ///
    /// It stands in the queue of each, and holds none meanwhile. While one is in the way, the others are left to it for a
    /// second at most (or four node timeouts, if that is longer), so that the oldest of several sets over the same locks
    /// has its turn first; then it stands for that one alone. Where each of its locks is held by others for longer than that
    /// at a time, one after the other, it gets in when they happen to be free together.
    ///
    /// # Errors
    ///
    /// As [`MultiLock::lock`], with which lock it was: for [`LockError::TimedOut`] the one that would have been in the way
    /// for longest. [`LockError::Invalid`] as for [`try_lock`](Self::try_lock), also while it waits: a master that two of
    /// them share may be connected later.
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, whatever the masters may have granted is released in the background.
    pub async fn lock(&self) -> Result<LockSetGuard, LockSetError> {
        all_of(call::lock(&mut self.request()?, self.wait).await)
    }

    /// Acquires as [`lock`](Self::lock) does, runs the body and releases. If one of the holds is lost meanwhile, the body is
    /// dropped at its next await. Work that the body has spawned goes on, as with [`MultiLock::run`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{Owner, RunSetError};
    /// use std::time::Duration;
    ///
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2")).and(masters.red_lock("account:3"));
    /// let set = set.wait(Duration::from_secs(5)).owner(&Owner::new());
    /// match set.run(async |guard| guard.fencing_tokens().len()).await {
    ///     Ok(tokens) => assert_eq!(tokens, 3),
    ///     Err(RunSetError::Lost(lost)) => eprintln!("the work was dropped: {lost}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunSetError::Lock`] when the body never began, [`RunSetError::Lost`] when it was dropped, [`RunSetError::Overlapped`]
    /// with its output when it came to its end but one of the locks did not last. A release that too few masters confirm is no
    /// error, as with [`MultiLock::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropped at any point, the body is dropped and the locks are released in the background.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&LockSetGuard) -> T) -> Result<T, RunSetError<T>> {
        let guard = self.lock().await?;
        let output = tokio::select! {
            // The loss first: no step of the body is taken after it.
            biased;
            loss = guard.lost() => return Err(RunSetError::Lost(loss)),
            output = body(&guard) => output,
        };
        let Err(error) = guard.unlock().await else {
            return Ok(output);
        };
        for (lock, outcome) in self.locks.iter().zip(&error.outcomes) {
            match outcome {
                Err(UnlockError::Unconfirmed { free_within, votes }) => {
                    lock.warn_of_unconfirmed(*free_within, votes);
                }
                Err(UnlockError::WasLost { .. }) => return Err(RunSetError::Overlapped { output, error }),
                Ok(_) => {}
            }
        }
        Ok(output)
    }

    /// The options of all of them, checked. No master has been asked yet.
    fn request(&self) -> Result<Vec<AcquireRequest>, LockSetError> {
        let of_lock = |index: usize| move |error: LockError| LockSetError { index, error };
        if self.locks.is_empty() {
            return Err(of_lock(0)(InvalidInput::new("locks", 0, "one or more").into()));
        }
        let mut all: Vec<AcquireRequest> = Vec::with_capacity(self.locks.len());
        for (index, lock) in self.locks.iter().enumerate() {
            all.push(lock.terms_in_a_set(self.owner.as_ref()).map_err(of_lock(index))?);
        }
        if let Some((index, invalid)) = conflict(&all) {
            return Err(of_lock(index)(invalid.into()));
        }
        Ok(all)
    }
}

/// The outcome of a call for all locks.
fn all_of(acquired: Result<Guards, MemberError<LockError>>) -> Result<LockSetGuard, LockSetError> {
    acquired
        .map(|guards| LockSetGuard::new(guards.into_iter().map(MultiLockGuard::of).collect()))
        .map_err(|(index, error)| LockSetError { index, error })
}
