//! Jobs that are to be done once in a period: [`OnceJob`].

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::timeout;

use crate::error::{InvalidInput, LockError, OnceError};
use crate::hold::job_mark;
use crate::lock::MultiLock;
use crate::lock::guard::MultiLockGuard;
use crate::lock::options::LockOptions;
use crate::masters::config::in_range;
use crate::protocol::job_mark::JobMark;
use crate::values::votes::Votes;

/// Longest time for which a job is not begun again.
const LONGEST_KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// A job that is to be done once in a period, by one process of many. Made by [`MultiLock::once`].
///
/// Making a job sends nothing to the masters. A job can be stored, and run any number of times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{Once, OnceJob};
/// use std::time::Duration;
///
/// let report: OnceJob = masters.red_lock("report").once(Duration::from_secs(3600));
/// for _ in 0..2 {
///     let outcome = report.run(async |_guard| Ok::<_, std::io::Error>(())).await?;
///     println!("{outcome:?}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until it is run"]
pub struct OnceJob {
    options: LockOptions,
    keep: Duration,
}

/// Outcome of [`OnceJob::run`], if no error kept the body from its end.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{Once, OnceError};
/// use std::time::Duration;
///
/// let report = masters.red_lock("report:2026-11-25").once(Duration::from_secs(3600));
/// match report.run(async |_guard| "12".parse::<u32>()).await {
///     Ok(Once::Ran(pages)) => println!("{pages} pages"),
///     Ok(Once::Unconfirmed(pages)) => eprintln!("{pages} pages, and another host may send them again"),
///     Ok(Once::Done { at, label, .. }) => println!("done at {at:?} by {label:?}"),
///     Ok(other) => println!("{:?}", other.into_output()),
///     Err(OnceError::Body(error)) => eprintln!("it is tried again at the next call: {error}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the body may not have run, or may run again"]
pub enum Once<T> {
    /// The body ran to its end, and a quorum of the masters has the mark.
    Ran(T),
    /// The body ran to its end, but no quorum is known to have the mark. The hold ended before, as by
    /// [`close`](crate::Masters::close). Or for a lease too many masters stored no mark, or stored it while somebody else
    /// had the name. Or the time was over by the clocks of too many. Another process may begin the job again.
    Unconfirmed(T),
    /// The body did not run, because the job is done.
    Done {
        /// Time at which it was done, by the masters' clocks. It may be late by a node timeout.
        at: SystemTime,
        /// Label of the client that did it ([`client_label`](crate::MastersBuilder::client_label)); `None` if that client has
        /// none.
        label: Option<Arc<str>>,
        /// Whether a quorum of the masters has the mark now, and no hold of the name, the job's own included. Otherwise the
        /// job may be begun again when the masters that have the mark cannot be reached.
        confirmed: bool,
    },
}

impl<T> Once<T> {
    /// Returns the output of the body, if it ran.
    ///
    /// ```
    /// use multilock::Once;
    ///
    /// assert_eq!(Once::Unconfirmed(7).into_output(), Some(7));
    /// ```
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Ran(output) | Self::Unconfirmed(output) => Some(output),
            Self::Done { .. } => None,
        }
    }
}

impl MultiLock {
    /// Makes this the lock of a job that is to be done once: [`OnceJob::run`] does not begin it again for the time `keep`
    /// after it was done. At most 7 days.
    ///
    /// For a schedule that several hosts have: the name stands for the job and its period. Not for one key for each
    /// request: every mark takes about 200 bytes of every master for the time `keep`, and more with a long name or label.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Once;
    /// use std::time::Duration;
    ///
    /// let day = "2026-11-25";
    /// let report = masters.red_lock(format!("report:{day}")).once(Duration::from_secs(36 * 3600));
    /// let ran = report.run(async |_guard| Ok::<_, std::io::Error>("sent")).await?;
    /// assert_eq!(ran, Once::Ran("sent"));
    /// // A host whose clock is an hour behind:
    /// let again = report.run(async |_guard| Ok::<_, std::io::Error>("sent twice")).await?;
    /// assert!(matches!(again, Once::Done { confirmed: true, .. }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Promise
    ///
    /// After [`Once::Ran`], or a confirmed [`Once::Done`], the body is not begun again for the time `keep` since it was done, while
    /// fewer masters lose the mark than two quorums have in common, and no master's clock steps forward. With three
    /// masters, two of which have to grant: while none loses the mark, unless all three had it. A body that had begun
    /// before is not stopped. `appendonly yes` and `appendfsync always` keep marks over a restart; a quarantine does
    /// not. If a master's clock is ahead of most others, the time ends earlier there, by the difference. While masters are
    /// out of reach, a clock that is ahead may prolong the time, by the difference.
    pub fn once(self, keep: Duration) -> OnceJob {
        OnceJob {
            options: self.into_options(),
            keep,
        }
    }
}

impl OnceJob {
    /// Acquires as [`MultiLock::lock`] does, and runs the body, unless the job is done. If the body returns `Ok`, the
    /// hold lasts until a quorum of the masters has the mark that the job is done. If it returns `Err`, the lock is
    /// released without a mark.
    ///
    /// ```no_run
    /// # async fn send() -> std::io::Result<()> { Ok(()) }
    /// # async fn job(masters: multilock::Masters) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let report = masters.red_lock("report:2026-11-25").wait(Duration::from_secs(60));
    /// let _ = report.once(Duration::from_secs(36 * 3600)).run(async |_guard| send().await).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// While one process runs the body, the others wait for it, at most for the time set by [`wait`](MultiLock::wait).
    ///
    /// The body is an async closure: `async |guard| …`. A closure that returns an async block, `|_| async move { … }`, does
    /// not compile here ("implementation of `AsyncFnOnce` is not general enough").
    ///
    /// # Errors
    ///
    /// - [`OnceError::Lock`] when the body never began, with the errors of [`MultiLock::lock`]. [`LockError::Invalid`] for a
    ///   `keep` of less than a millisecond or of more than 7 days; for several names; and for a lock with
    ///   [`owner`](MultiLock::owner), [`lease`](MultiLock::lease), [`at_least`](MultiLock::at_least),
    ///   [`sticky`](MultiLock::sticky) or [`write`](MultiLock::write).
    /// - [`OnceError::Lost`] when the hold was lost and the body was dropped at its next await. The job is not marked.
    /// - [`OnceError::Body`] with the error of the body. The job is not marked.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the body has ended, the body is dropped, the lock is released in the background, and
    /// the job is not marked. If it is dropped later, the lock is released as well, and some masters may have the mark: the
    /// job may then be done, or be begun again.
    pub async fn run<T, E>(
        &self,
        body: impl AsyncFnOnce(&MultiLockGuard) -> Result<T, E>,
    ) -> Result<Once<T>, OnceError<E>> {
        let guard = match self.options.lock_once(self.keep).await? {
            Ok(guard) => MultiLockGuard::of(guard),
            Err(mark) => return Ok(self.done(&mark).await),
        };
        let ended = tokio::select! {
            // Check for the loss first: no step of the body is taken after it.
            biased;
            loss = guard.lost() => return Err(OnceError::Lost(loss)),
            ended = body(&guard) => ended,
        };
        let output = match ended {
            Ok(output) => output,
            Err(error) => {
                self.release(guard).await;
                return Err(OnceError::Body(error));
            }
        };
        Ok(if self.finish(guard).await {
            Once::Ran(output)
        } else {
            Once::Unconfirmed(output)
        })
    }

    /// Forgets on all masters that the job is done, so that it can be run again. For operators.
    ///
    /// A mark that is still under way, to a master that was out of reach or from a client that has just read it, is kept out
    /// for 15 s. A mark that is sent later, or of a job that was done less than a node timeout before this call, counts
    /// again. So call it when all masters have been in reach for some seconds.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Once;
    /// use std::time::Duration;
    ///
    /// let report = masters.red_lock("report").once(Duration::from_secs(3600));
    /// assert_eq!(report.run(async |_| Ok::<_, ()>(1)).await, Ok(Once::Ran(1)));
    /// report.forget().await?;
    /// assert_eq!(report.run(async |_| Ok::<_, ()>(2)).await, Ok(Once::Ran(2)));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Unreachable`] when any master did not confirm it: a mark that is left on one of them counts. The
    ///   others have forgotten it all the same. Calling it again is safe.
    /// - [`LockError::Closed`] and [`LockError::Invalid`] as for [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, some masters may have forgotten it and others not. Call it again.
    pub async fn forget(&self) -> Result<Votes, LockError> {
        self.options.check_once(self.keep)?;
        self.options.request()?;
        let pool = &self.options.masters.client.pool;
        let votes = pool.evidence(&job_mark::forget(pool, &self.options.names).await);
        if votes.granted() < pool.slots.len() {
            return Err(LockError::Unreachable { votes });
        }
        Ok(votes)
    }

    /// Stores the mark, and releases the lock. Returns whether a quorum had the mark while the hold was valid. Masters may
    /// go on renewing the hold and store no mark, as when they are out of memory, so this lasts for a lease at most.
    async fn finish(&self, guard: MultiLockGuard) -> bool {
        let pool = &self.options.masters.client.pool;
        let (mark, patience) = (job_mark::made_now(pool, self.keep), pool.config.default_lease());
        let (guard, stored) = match guard.finish(&mark).await {
            Ok(was_valid) => return was_valid,
            Err(unfinished) => unfinished,
        };
        let owner = guard.hold().grant.field.text();
        let storing = job_mark::store(pool, &self.options.names, &mark, &owner, self.needed(), stored);
        let is_marked = tokio::select! {
            biased;
            _ = guard.lost() => false,
            // A client that is closed stores nothing any more.
            () = pool.closing.cancelled() => false,
            storing = timeout(patience, storing) => storing.unwrap_or(false),
        };
        self.release(guard).await;
        is_marked
    }

    async fn release(&self, guard: MultiLockGuard) {
        // The outcome does not depend on the release: a quorum has the mark, or the job may be begun again.
        let _ = self.options.unlock_after_a_body(guard).await;
    }

    async fn done<T>(&self, mark: &JobMark) -> Once<T> {
        let pool = &self.options.masters.client.pool;
        let confirmed = job_mark::confirm(pool, &self.options.names, mark, self.needed()).await;
        Once::Done {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(mark.at_ms),
            label: Some(Arc::clone(&mark.label)).filter(|label| !label.is_empty()),
            confirmed,
        }
    }

    fn needed(&self) -> usize {
        self.options.policy.needed(self.options.masters.len())
    }
}

impl LockOptions {
    /// Refuses the options that a job excludes.
    pub(crate) fn check_once(&self, keep: Duration) -> Result<(), InvalidInput> {
        in_range("once", keep, Duration::from_millis(1), LONGEST_KEEP)?;
        if self.names.len() > 1 {
            return Err(InvalidInput::new("names", &self.names, "one name with once"));
        }
        let excluded = if self.owner.is_some() {
            ("owner", "a hold that is entered again asks no master")
        } else if self.lease.is_some() {
            ("lease", "the hold is renewed until a quorum has the mark")
        } else if !self.at_least.is_zero() {
            ("at_least", "once tells by a mark that the job is done")
        } else if self.sticky {
            ("sticky", "a lock that stays asks no master")
        } else if self.kind.is_read_write() {
            ("write", "nobody reads a job")
        } else {
            return Ok(());
        };
        let (field, why) = excluded;
        Err(InvalidInput::new(
            field,
            "set",
            format!("not set with once: {why}"),
        ))
    }
}
