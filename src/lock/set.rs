//! Several locks that are taken together: [`LockSet`].

use std::fmt;
use std::time::Duration;

use crate::acquire::call;
use crate::acquire::conflict::conflict;
use crate::acquire::outcome::{Guards, MemberError};
use crate::acquire::request::AcquireRequest;
use crate::error::{InvalidInput, LockError, UnlockError, answers_as_its_refusal};
use crate::lock::MultiLock;
use crate::lock::guard::MultiLockGuard;
use crate::lock::mode::Mode;
use crate::lock::options::LockOptions;
use crate::lock::owner::Owner;
use crate::lock::set_guard::{LockSetGuard, SetLoss, UnlockSetError};

/// Longest time for which one lock of a set waits for another one in a round, in node timeouts. A permit asks for up to four
/// seats in a row, and pending releases may go first.
const LONGEST_ROUND: u32 = 8;

/// Several locks that are taken together or not at all, each with its own masters, names, policy and lease.
///
/// For names on the same masters under one policy, one lock is better: `masters.red_lock(["a", "b"])`. That
/// is one round, and each master grants all of them or none.
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

/// Error of taking a [`LockSet`]: the refusal of one of its locks. None of the locks is held then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{error}", place(*.index, .error))]
#[non_exhaustive]
pub struct LockSetError {
    /// Index of the refused lock, from 0, in the order in which the set was put together; 0 for a set without locks.
    pub index: usize,
    /// Reason of the refusal.
    pub error: LockError,
}

/// Name of the refused lock, for people; nothing for a set without locks.
fn place(index: usize, error: &LockError) -> String {
    match error {
        LockError::Invalid(invalid) if invalid.field == NUMBER => String::new(),
        _ => format!("lock {} of the set: ", index + 1),
    }
}

/// Field of the refusal of a set without locks.
const NUMBER: &str = "locks";

/// Error of [`LockSet::run`]: the fate of the locks, apart from the output of the body.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunSetError<T> {
    /// The locks were not acquired; the body did not begin.
    #[error(transparent)]
    Lock(#[from] LockSetError),
    /// One of the holds was lost, and the body was dropped at its next await.
    #[error(transparent)]
    Lost(SetLoss),
    /// The body came to its end, but one of its holds had ended before. Another holder may have worked at the
    /// same time. The work is done, so a retry does it again.
    #[error("the body has ended, and another holder may have been at work meanwhile: {error}")]
    Overlapped {
        /// Output of the body; see [`into_output`](Self::into_output).
        output: T,
        /// Result of the unlock.
        error: UnlockSetError,
    },
}

answers_as_its_refusal!(LockSetError: Self { error, .. } => error);

impl<T> RunSetError<T> {
    /// Returns the output of the body, if it came to its end.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Overlapped { output, .. } => Some(output),
            Self::Lock(_) | Self::Lost(_) => None,
        }
    }
}

answers_as_its_refusal!(RunSetError<T>: Self::Lock(refused) => &refused.error);

impl<T> fmt::Debug for RunSetError<T> {
    /// Leaves out the output, which may be of any type.
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
    /// Makes a set of this lock and another one, to be taken together or not at all.
    pub fn and<N: Mode>(self, other: MultiLock<N>) -> LockSet {
        Self::all_of([self]).and(other)
    }

    /// Makes a set of these locks, to be taken together or not at all.
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
    /// Adds a lock to the set.
    pub fn and<N: Mode>(mut self, other: MultiLock<N>) -> Self {
        self.locks.push(other.into_options());
        self
    }

    /// Sets the longest time that [`lock`](Self::lock) may take for all locks. Without it, or with more than
    /// 365 days, `lock` waits without limit. Zero is one try.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets the owner of all holds. It enters the holds that it has already, as with [`MultiLock::owner`].
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Checks the options of all locks, as [`lock`](Self::lock) does first. Sends nothing, as [`MultiLock::check`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let account = || masters.red_lock("account:1");
    /// account().and(masters.red_lock("account:2")).check()?;
    /// let refused = account().and(account()).check().unwrap_err();
    /// assert_eq!(refused.index, 1, "the same name: {}", refused.error);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Invalid`] and [`LockError::Closed`], as from [`try_lock`](Self::try_lock).
    pub fn check(&self) -> Result<(), LockSetError> {
        self.request().map(drop)
    }

    /// Tries once, all locks at the same time. That takes as long as the slowest of their rounds. As soon as
    /// one lock is refused, the others are given back. Locks that only stay with other clients
    /// ([`MultiLock::sticky`]) are waited for, for one node timeout at most.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let _held = masters.red_lock("account:2").lock().await?;
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2"));
    /// let refused = set.try_lock().await.unwrap_err();
    /// assert_eq!(refused.index, 1, "the second one: {}", refused.error);
    /// // None of its locks is held.
    /// # tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    /// masters.red_lock("account:1").try_lock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The error of the first lock that was refused, as from [`MultiLock::try_lock`].
    /// - [`LockError::Invalid`] before any master is asked: if two locks want the same name on the same
    ///   masters, or a lock sets an option that the set excludes (`wait`, `owner`, `at_least`, `sticky`). Only
    ///   masters that are connected can be compared.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    pub async fn try_lock(&self) -> Result<LockSetGuard, LockSetError> {
        all_of(call::try_lock(&mut self.request()?).await)
    }

    /// Waits until all locks are granted, at most for the time set by [`wait`](Self::wait).
    ///
    /// The set waits in the queue of each lock, and holds none meanwhile. While one lock is in the way, the
    /// set keeps its places in the other queues for four node timeouts, at least 1 s and at most 10 s. So the
    /// oldest of several sets over the same locks has its turn first, if the clocks of enough masters are known when it
    /// begins to wait, and none of them is set back. After that the set waits in the queue
    /// of the lock in the way alone. If others hold each of the locks for longer than that, one after the
    /// other, the set gets the locks when they happen to be free together.
    ///
    /// During a round, a lock that the set has won keeps others out. If the future is not polled any more, that
    /// lasts for eight of the longest node timeouts and the lease at most. A hold that its owner has entered in another
    /// way as well has no such bound.
    ///
    /// # Errors
    ///
    /// The error of [`MultiLock::lock`] with the index of the lock.
    /// - [`LockError::TimedOut`] has the index of the lock that would have been in the way for longest.
    /// - [`LockError::Invalid`] as for [`try_lock`](Self::try_lock), and also during the wait: a master that
    ///   two locks share may be connected later.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, all that the masters may have granted is released in the
    /// background.
    pub async fn lock(&self) -> Result<LockSetGuard, LockSetError> {
        all_of(call::lock(&mut self.request()?, self.wait).await)
    }

    /// Acquires as [`lock`](Self::lock) does, runs the body and releases. If one of the holds is lost
    /// meanwhile, the body is dropped at its next await. Work that the body has spawned goes on, as with
    /// [`MultiLock::run`].
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
    /// The body is an async closure: `async |guard| …`. A closure that returns an async block, `|_| async move { … }`, does
    /// not compile here ("implementation of `AsyncFnOnce` is not general enough").
    ///
    /// # Errors
    ///
    /// - [`RunSetError::Lock`] when the body never began.
    /// - [`RunSetError::Lost`] when the body was dropped.
    /// - [`RunSetError::Overlapped`] with the output of the body, when it came to its end but one of the
    ///   locks did not last.
    ///
    /// A release that too few masters confirm is no error, as with [`MultiLock::run`].
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped at any point, the body is dropped and the locks are released in the
    /// background.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&LockSetGuard) -> T) -> Result<T, RunSetError<T>> {
        let guard = self.lock().await?;
        let output = tokio::select! {
            // Check for the loss first: no step of the body is taken after it.
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

    /// Checks the options of all locks. No master has been asked yet.
    fn request(&self) -> Result<Vec<AcquireRequest>, LockSetError> {
        let of_lock = |index: usize| move |error: LockError| LockSetError { index, error };
        if self.locks.is_empty() {
            return Err(of_lock(0)(InvalidInput::new(NUMBER, 0, "one or more").into()));
        }
        let mut all: Vec<AcquireRequest> = Vec::with_capacity(self.locks.len());
        for (index, lock) in self.locks.iter().enumerate() {
            all.push(
                lock.request_in_a_set(self.owner.as_ref())
                    .map_err(of_lock(index))?,
            );
        }
        if let Some((index, invalid)) = conflict(&all) {
            return Err(of_lock(index)(invalid.into()));
        }
        if all.len() > 1 {
            let node_timeouts = all.iter().map(|request| request.client.pool.config.node_timeout);
            let completes_within = node_timeouts.max().map(|longest| longest * LONGEST_ROUND);
            for request in &mut all {
                request.set_completes_within = completes_within;
            }
        }
        Ok(all)
    }
}

/// Outcome of a call for all locks.
fn all_of(acquired: Result<Guards, MemberError<LockError>>) -> Result<LockSetGuard, LockSetError> {
    acquired
        .map(|guards| LockSetGuard::new(guards.into_iter().map(MultiLockGuard::of).collect()))
        .map_err(|(index, error)| LockSetError { index, error })
}
