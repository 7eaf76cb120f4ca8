//! A leader's term, as its body sees it: [`Leadership`].

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::{Loss, Lost};
use crate::hold::grant::Hold;
use crate::lock::guard::MultiLockGuard;
use crate::round::pool::Pool;
use crate::values::holder::Holder;
use crate::values::token::FencingToken;
use crate::values::votes::Votes;

/// Term of a leader, which [`lead`](crate::MultiLock::lead) hands to its body.
///
/// A `Leadership` is owned and cheap to clone, for the tasks that work for the leader. It does not hold the lock:
/// `lead` does, and gives the lock up when the body ends. A clone that is used after that has no validity left.
///
/// As with a [guard](MultiLockGuard), a process may be paused *after* it checked the validity. Only a
/// resource that checks [fencing tokens](Self::fencing_token) itself can reject its writes.
///
/// ```
/// # async fn write(part: u32, token: multilock::FencingToken) {}
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::Leadership;
///
/// async fn work(leadership: Leadership) {
///     for part in 0..3 {
///         write(part, leadership.fencing_token()).await;
///     }
/// }
///
/// let scheduler = masters.red_lock("scheduler");
/// let leading = tokio::spawn(async move {
///     scheduler.lead(async |leadership| {
///         // A task of its own, which ends with the term at the latest.
///         let is_over = leadership.cancellation_token();
///         tokio::spawn(is_over.run_until_cancelled_owned(work(leadership))).await
///     }).await
/// });
/// assert!(leading.await???.is_some(), "the work came to its end");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Leadership {
    hold: Hold,
    /// Cancelled when the term is over or is to end.
    pub(super) end: CancellationToken,
    holder: Holder,
    /// Not kept alive by a clone that outlives the term.
    pool: Weak<Pool>,
}

impl Leadership {
    /// Describes the term of a guard.
    pub(crate) fn of(guard: &MultiLockGuard) -> Self {
        Self {
            hold: guard.hold().clone(),
            end: guard.cancellation_token(),
            holder: guard.holder(),
            pool: Arc::downgrade(guard.pool()),
        }
    }

    /// Token of the term, larger than those of all terms before. Hand it to the resource with every write, as
    /// that of a [guard](MultiLockGuard::fencing_token).
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Time for which nobody else can lead, from the clock at this call; zero when the term is over.
    pub fn validity(&self) -> Duration {
        self.hold.remaining()
    }

    /// Whether validity is left.
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// Checks the validity, in one line before a side effect: `leadership.ensure_valid()?`.
    ///
    /// # Errors
    ///
    /// [`Lost`] when no validity is left.
    pub fn ensure_valid(&self) -> Result<(), Lost> {
        if self.is_valid() { Ok(()) } else { Err(Lost) }
    }

    /// Returns a token that is cancelled when the term is to end, or has ended without notice. It is cancelled
    /// - at `stop` of [`lead_until`](crate::MultiLock::lead_until), after [`step_down`](Self::step_down), and towards the end
    ///   of [`max_hold`](crate::MultiLock::max_hold), with the [`grace`](crate::MultiLock::grace) period left and the lock
    ///   still held,
    /// - at the [loss](Self::lost) of the lock,
    /// - when the body has ended or was dropped, before the lock is given up.
    ///
    /// Every call returns a child token: cancelling it ends the work under it, and has no other effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let stop = tokio::time::sleep(Duration::from_secs(60));
    /// let scheduler = masters.red_lock("scheduler");
    /// let led = scheduler.lead_until(stop, async |leadership| {
    ///     leadership.cancellation_token().cancelled().await;
    ///     assert!(leadership.is_valid(), "there is time to save the work");
    ///     "saved"
    /// });
    /// assert_eq!(led.await?, Some("saved"));
    /// # Ok(()) }
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        self.end.child_token()
    }

    /// Resolves when the lock is lost, as [`MultiLockGuard::lost`] does. The body is dropped then, so this is
    /// for the tasks that it has spawned. It does not resolve for a term that ended otherwise:
    /// [`cancellation_token`](Self::cancellation_token) does.
    ///
    /// # Cancel safety
    ///
    /// The call only observes the hold, so the future can be dropped and made again at any point.
    pub async fn lost(&self) -> Loss {
        let Some(cause) = self.hold.ended().await else {
            // A hold that was given up is never lost.
            return std::future::pending().await;
        };
        Loss {
            cause,
            votes: self.votes(),
        }
    }

    /// Whether another candidate is known to wait, as at [`wanted`](Self::wanted).
    pub fn is_wanted(&self) -> bool {
        self.hold.is_wanted()
    }

    /// Resolves when another candidate waits, as [`MultiLockGuard::wanted`] does: for leaders that take turns.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Leadership;
    ///
    /// async fn take_turns(leadership: Leadership) {
    ///     leadership.wanted().await;
    /// }
    /// let scheduler = masters.red_lock("scheduler");
    /// let (first, second) = (scheduler.clone(), scheduler);
    /// let first = tokio::spawn(async move { first.lead(take_turns).await });
    /// let second = tokio::spawn(async move { second.lead(async |_| ()).await });
    /// first.await??;
    /// second.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call only observes the hold, so the future can be dropped and made again at any point.
    pub async fn wanted(&self) {
        self.hold.wanted().await;
    }

    /// Asks that the term end. [`cancellation_token`](Self::cancellation_token) is cancelled, and the body has
    /// the [`grace`](crate::MultiLock::grace) period to come to its end.
    /// - If the body does, `lead` returns its output, as always.
    /// - If the body does not, it is dropped, the lock is given up, and the candidate campaigns again, behind all
    ///   that wait by then.
    ///
    /// Has no effect after the term.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let scheduler = masters.red_lock("scheduler").grace(Duration::ZERO);
    /// let mut terms = 0;
    /// let led = scheduler.lead(|leadership| {
    ///     terms += 1;
    ///     let term = terms;
    ///     async move {
    ///         if term < 3 {
    ///             leadership.step_down();
    ///             std::future::pending::<()>().await;
    ///         }
    ///         term
    ///     }
    /// });
    /// assert_eq!(led.await?, 3);
    /// # Ok(()) }
    /// ```
    pub fn step_down(&self) {
        self.end.cancel();
    }

    /// Holder of the lock, as [`inspect`](crate::MultiLock::inspect) reports it.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Last answer of each master, as [`MultiLockGuard::votes`].
    pub fn votes(&self) -> Votes {
        let votes = self.hold.grant.votes();
        let votes = self.pool.upgrade().map(|pool| pool.evidence(&votes));
        votes.unwrap_or_default()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("names", &self.hold.grant.names)
            .field("token", &self.fencing_token())
            .field("validity", &self.validity())
            .finish_non_exhaustive()
    }
}
