//! Guards: proof of a hold.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::error::{ExtendError, Loss, Lost, UnlockError};
use crate::hold::extend;
use crate::hold::grant::{Grant, Hold};
use crate::lock::hold_guard::{HoldGuard, Unlocked};
use crate::lock::mode::{Either, Exclusive, Mode, Shared};
use crate::lock::owner::Owner;
use crate::protocol::job_mark::JobMark;
use crate::protocol::node_set::NodeSet;
use crate::round::pool::Pool;
use crate::values::holder::Holder;
use crate::values::names::Names;
use crate::values::token::FencingToken;
use crate::values::votes::Votes;

/// Guard of a lock under either policy, RedLock or MultiLock: proof of a hold, for as long as
/// [`validity`](Self::validity) is left.
///
/// A process may be paused *after* it checked the validity, and then goes on without the lock. Only a
/// resource that checks [fencing tokens](Self::fencing_token) itself can reject its writes.
///
/// Bind a guard to a name. `let _ = lock.lock().await?;` drops it at once, and neither the compiler nor
/// clippy warns. Write `let _guard = …` if the guard is not used.
///
/// Dropping the guard gives the hold up in the background. The drop does not block and works outside of a
/// runtime. It does not wait either, so the name may stay locked for a moment. Call [`unlock`](Self::unlock)
/// to know that the name is free or handed on. If the runtime is gone by then, the lease frees the name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{Lost, MultiLockGuard};
///
/// fn charge(guard: &MultiLockGuard) -> Result<(), Lost> {
///     // The last line before a step that cannot be undone:
///     guard.ensure_valid()?;
///     println!("charged under token {}", guard.fencing_token());
///     Ok(())
/// }
///
/// let guard = masters.red_lock("invoice:42").lock().await?;
/// charge(&guard)?;
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[must_use = "a guard that is dropped at once releases its lock at once"]
#[clippy::has_significant_drop]
pub struct MultiLockGuard<M = Exclusive> {
    inner: HoldGuard,
    mode: PhantomData<M>,
}

impl<M: Mode> MultiLockGuard<M> {
    /// Wraps the guard of a hold that has been entered.
    pub(crate) fn of(inner: HoldGuard) -> Self {
        Self {
            inner,
            mode: PhantomData,
        }
    }

    /// The same guard in another mode.
    pub(crate) fn in_mode<Other: Mode>(self) -> MultiLockGuard<Other> {
        MultiLockGuard::of(self.inner)
    }

    /// Stores that the job of the hold is done, and releases the hold: see [`HoldGuard::finish`].
    pub(crate) async fn finish(self, mark: &JobMark) -> Result<bool, (Self, NodeSet)> {
        let finished = self.inner.finish(mark).await;
        finished.map_err(|(guard, stored)| (Self::of(guard), stored))
    }

    pub(crate) fn hold(&self) -> &Hold {
        self.inner.hold()
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.client.pool
    }

    fn grant(&self) -> &Grant {
        &self.hold().grant
    }

    /// Time for which no other guard of these names can be valid, from the clock at this call; zero when the
    /// hold is lost. While a [`Shared`] guard is valid, other shared ones may be, but no [`Exclusive`] one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// let guard = masters.red_lock("report").lease(Duration::from_secs(10)).lock().await?;
    /// let before = guard.validity();
    /// tokio::time::sleep(Duration::from_secs(4)).await;
    /// assert_eq!(guard.validity(), before - Duration::from_secs(4));
    /// # Ok(()) }
    /// ```
    pub fn validity(&self) -> Duration {
        self.hold().remaining()
    }

    /// Whether the validity has not ended.
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// Checks the validity, in one line before a side effect: `guard.ensure_valid()?`.
    ///
    /// # Errors
    ///
    /// [`Lost`] when no validity is left.
    pub fn ensure_valid(&self) -> Result<(), Lost> {
        if self.is_valid() { Ok(()) } else { Err(Lost) }
    }

    /// End of the validity by the wall clock, for people and logs. Base decisions on
    /// [`validity`](Self::validity): a step of the wall clock does not change it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let guard = masters.red_lock("report").lock().await?;
    /// println!("held until {:?}, unless it is renewed", guard.expires_at());
    /// # assert!(guard.expires_at() > std::time::SystemTime::now());
    /// # Ok(()) }
    /// ```
    pub fn expires_at(&self) -> SystemTime {
        let now = SystemTime::now();
        now.checked_add(self.validity()).unwrap_or(now)
    }

    /// Number that orders this hold among all holds of its names. Hand it to the resource with every write,
    /// so that the resource can reject a smaller number than it has seen.
    /// - A hold that was handed on inside its process has a token of its own, above that of the hold before.
    /// - [Readers](crate::MultiLock::read) share a token: at least that of every writer that was complete
    ///   before they began, and smaller than that of every writer that begins later.
    /// - A lock that is not [`fenced`](crate::MultiLock::fenced) has [`FencingToken::NONE`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let earlier = masters.red_lock("invoice:42").lock().await?;
    /// let token = earlier.fencing_token();
    /// earlier.unlock().await?;
    /// let later = masters.red_lock("invoice:42").lock().await?;
    /// // UPDATE invoice SET …, token = $1 WHERE id = 42 AND token <= $1
    /// assert!(later.fencing_token() > token);
    /// # Ok(()) }
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.hold().token()
    }

    /// Number of other waiters when the names were granted, for a job that may end early if others wait. It is the
    /// highest number reported by a master that had granted by then. Each line of a process counts as one waiter. A
    /// hold that was handed on inside its process has the number of the first hold.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let guard = masters.red_lock("import").lock().await?;
    /// // A smaller batch if others wait for their turn.
    /// let rows = if guard.waiting() > 0 { 100 } else { 10_000 };
    /// # assert_eq!(rows, 10_000);
    /// # Ok(()) }
    /// ```
    pub fn waiting(&self) -> usize {
        usize::try_from(self.grant().behind.waiting).unwrap_or(usize::MAX)
    }

    /// Whether somebody else is known to wait for one of the names, as at [`wanted`](Self::wanted).
    pub fn is_wanted(&self) -> bool {
        self.hold().is_wanted()
    }

    /// Resolves when somebody else waits for one of the names: another task of this process, or a waiter of another
    /// process. For a job that can stop early, a batch that can pause between two items, or a leader that should step
    /// down. The call is advice. A waiter that gives up meanwhile is not taken back. A waiter whose message is lost
    /// shows up to five seconds later, when it asks again. Calls of [`try_lock`](crate::MultiLock::try_lock) do not
    /// wait, nor do clients of other libraries. A guard that reads is never told, nor is a permit: the masters tell
    /// writers and plain locks alone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::Masters;
    ///
    /// let guard = masters.red_lock("import").lock().await?;
    /// let other = cluster.connect(Masters::builder()).await?;
    /// let waiting = tokio::spawn(async move { other.red_lock("import").lock().await });
    /// // A row is imported at a time, until another host wants its turn.
    /// guard.wanted().await;
    /// guard.unlock().await?;
    /// waiting.await??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call only observes the hold, so the future can be dropped and made again at any point.
    pub async fn wanted(&self) {
        self.hold().wanted().await;
    }

    /// Number of guards of the owner in this hold, this guard included.
    pub fn hold_count(&self) -> u64 {
        self.hold().with_state(|state, number| state.count(number))
    }

    /// Owner of the hold, to enter it again with.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let outer = masters.red_lock("invoice:42").lock().await?;
    /// // No owner was set, and the hold's own one enters again all the same.
    /// let inner = masters.red_lock("invoice:42").owner(outer.owner()).lock().await?;
    /// assert_eq!(outer.hold_count(), 2);
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> &Owner {
        self.inner.owner()
    }

    /// Last answer of each master, to the acquisition or an extension. This is the only place that shows the
    /// failure of a minority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// cluster.master(2).crash();
    /// let guard = masters.red_lock("invoice:42").lock().await?;
    /// assert_eq!(guard.votes().granted(), 2);
    /// println!("{}", guard.votes());
    /// # Ok(()) }
    /// ```
    pub fn votes(&self) -> Votes {
        self.inner.votes()
    }

    /// Resolves when the hold is lost: at the end of its validity at the latest, whatever state a renewal is in. The
    /// loss comes earlier if no quorum has the hold any more, because too many masters have forgotten it or have
    /// granted the names to others. Masters that are merely silent never end a hold early. When the future resolves,
    /// no validity is left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, cluster) = multilock::Masters::in_memory(3).await?;
    /// use multilock::LossCause;
    ///
    /// let guard = masters.red_lock("report").lock().await?;
    /// cluster.iter().for_each(|master| master.freeze());
    /// tokio::select! {
    ///     loss = guard.lost() => assert_eq!(loss.cause, LossCause::Expired),
    ///     () = std::future::pending() => println!("the work that is done under the lock"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call only observes the hold, so the future can be dropped and made again at any point.
    pub async fn lost(&self) -> Loss {
        match self.hold().ended().await {
            Some(cause) => Loss {
                cause,
                votes: self.votes(),
            },
            // A hold that was given up is never lost.
            None => std::future::pending().await,
        }
    }

    /// Returns a token that is cancelled when the hold is [`lost`](Self::lost), for the tasks that work under
    /// the hold. Unlocking and dropping are no loss and do not cancel it. Every call returns a child token:
    /// cancelling it ends the work under it, and has no other effect.
    ///
    /// A task cancels it a moment after [`lost`](Self::lost) resolves, usually within a millisecond. To stop at once, await
    /// `lost`.
    ///
    /// That task is on the runtime of the first call, or one on the runtime of the connections
    /// if there is none. If that runtime ends before the hold, the token is cancelled, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let guard = masters.red_lock("report").lock().await?;
    /// let lost = guard.cancellation_token();
    /// let worker = tokio::spawn(async move {
    ///     // Parts of the work, until the hold is lost.
    ///     lost.cancelled().await;
    /// });
    /// masters.red_lock("report").force_release().await?;
    /// worker.await?;
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        let here = Handle::try_current();
        let runtime = here.as_ref().unwrap_or(&self.pool().runtime);
        self.hold().cancellation(runtime).child_token()
    }

    /// Names that are held, with the [namespace](crate::MastersBuilder::namespace) in front.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let set = masters.red_lock("account:1").and(masters.red_lock("account:2")).lock().await?;
    /// assert_eq!(set.guards()[1].names().to_string(), "account:2");
    /// # Ok(()) }
    /// ```
    pub fn names(&self) -> &Names {
        &self.grant().names
    }

    /// Holder, as the masters store it and [`inspect`](crate::MultiLock::inspect) reports it.
    pub fn holder(&self) -> Holder {
        let about = self.grant().caption.as_ref();
        let label = Arc::clone(&self.pool().label);
        let about = about.and_then(|caption| caption.about.clone());
        Holder::new(self.grant().field.text(), Some(label), about)
    }

    /// Extends the hold to `lease` from now. Never shortens it. A hold that is renewed has the longer of both leases from
    /// then on, so that a crash keeps the names locked for as long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::ExtendError;
    /// use std::time::Duration;
    ///
    /// let guard = masters.red_lock("report").lease(Duration::from_secs(5)).lock().await?;
    /// match guard.extend(Duration::from_secs(20)).await {
    ///     Ok(()) => assert!(guard.validity() > Duration::from_secs(19)),
    ///     Err(ExtendError::NotExtended { validity, .. }) => println!("still valid for {validity:?}"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ExtendError::Invalid`] for a lease out of range.
    /// - [`ExtendError::Lost`] when the validity ended before a quorum confirmed.
    /// - [`ExtendError::NotExtended`] when no quorum confirmed, as always outside of a tokio runtime. The
    ///   hold then has the validity that it had.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, the hold has the validity that it had. Masters that the request has reached
    /// may store the longer lease: after a crash the names stay locked there for as long.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let client = &self.inner.client;
        let lease = client.pool.config.checked_lease(lease)?;
        extend::extend(client, self.hold(), lease).await
    }

    /// Leaves the hold. The last guard of a hold does one of four things:
    /// - It hands the hold on to the next task of this process that waits for the same names with the same
    ///   options. That is possible for a bounded time, and sends nothing.
    /// - It lets the names of a [`sticky`](crate::MultiLock::sticky) lock stay with this client, and sends nothing.
    /// - It keeps the names locked for the rest of [`at_least`](crate::MultiLock::at_least).
    /// - It releases the names on every master and wakes their waiters.
    ///
    /// An inner guard sends nothing, and the outer hold goes on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use multilock::{UnlockError, Unlocked};
    ///
    /// let guard = masters.red_lock("invoice:42").lock().await?;
    /// match guard.unlock().await {
    ///     Ok(unlocked) => assert_eq!(unlocked, Unlocked::Released),
    ///     Err(UnlockError::WasLost { .. }) => eprintln!("another holder may have been at work meanwhile"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The hold is given up in each case.
    /// - [`UnlockError::WasLost`] when the hold had ended before.
    /// - [`UnlockError::Unconfirmed`] when too few masters answered, or none could be waited for outside of a
    ///   tokio runtime.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, the release goes on in the background.
    pub fn unlock(self) -> impl Future<Output = Result<Unlocked, UnlockError>> + Send {
        self.inner.unlock()
    }

    /// Gives the guard up, and leaves the names locked until the lease ends. Once all guards of the hold have
    /// left or were leaked, it is no longer renewed. From then until the end of the lease its owner is
    /// refused like everybody else.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// use std::time::Duration;
    ///
    /// // Nobody sends the next reminder within half a minute, whatever becomes of this process.
    /// let reminded = masters.red_lock("reminder").lease(Duration::from_secs(30)).lock().await?;
    /// reminded.leak();
    /// assert!(masters.red_lock("reminder").try_lock().await.is_err());
    /// # Ok(()) }
    /// ```
    pub fn leak(self) {
        self.inner.leak();
    }
}

impl MultiLockGuard<Exclusive> {
    /// Turns a write guard into a read guard, and admits other readers. The guard gives up its exclusive hold
    /// before anything is sent, so no writer gets in between.
    /// - It cannot fail. A master that the message does not reach keeps readers out until the hold is renewed
    ///   there, or ends.
    /// - If the owner has other write guards of the hold, the hold is shared when the last of these is given
    ///   up.
    /// - The token and the validity stay the same, and a hold that was lost stays lost.
    ///
    /// The guard of a lock that is not read/write stays exclusive; only its type changes.
    ///
    /// # Panics
    ///
    /// If a master has to be asked, and the tokio runtime of the call has no timer (`enable_time` of its builder).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before its end, the guard is dropped too, and leaves the hold.
    pub async fn downgrade(mut self) -> MultiLockGuard<Shared> {
        self.inner.downgrade().await;
        MultiLockGuard::of(self.inner)
    }
}

impl MultiLockGuard<Either> {
    /// Turns a guard of a set into one with its real mode: exclusive or shared. A permit counts as exclusive: it has its seat
    /// alone, and not the name ([`permit`](MultiLockGuard::permit)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let catalogue = masters.red_lock("catalogue").read();
    /// let set = masters.red_lock("invoice:42").and(catalogue).lock().await?;
    /// let mut guards = set.into_guards().into_iter();
    /// assert!(guards.next().expect("the invoice").exclusive().is_ok());
    /// assert!(guards.next().expect("the catalogue").exclusive().is_err(), "it reads");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The guard with mode [`Shared`], if it is a read guard.
    pub fn exclusive(self) -> Result<MultiLockGuard<Exclusive>, MultiLockGuard<Shared>> {
        if self.inner.is_shared() {
            Err(MultiLockGuard::of(self.inner))
        } else {
            Ok(MultiLockGuard::of(self.inner))
        }
    }
}

impl From<MultiLockGuard<Exclusive>> for MultiLockGuard<Either> {
    fn from(guard: MultiLockGuard<Exclusive>) -> Self {
        Self::of(guard.inner)
    }
}

impl From<MultiLockGuard<Shared>> for MultiLockGuard<Either> {
    fn from(guard: MultiLockGuard<Shared>) -> Self {
        Self::of(guard.inner)
    }
}

impl<M: Mode> fmt::Debug for MultiLockGuard<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLockGuard")
            .field("names", &self.grant().names)
            .field("validity", &self.validity())
            .field("hold_count", &self.hold_count())
            .finish_non_exhaustive()
    }
}
