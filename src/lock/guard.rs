//! The proof of a hold.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::error::{ExtendError, Loss, Lost, UnlockError};
use crate::hold::extend;
use crate::hold::grant::{Grant, Hold};
use crate::lock::hold_guard::{HoldGuard, Unlocked};
use crate::lock::mode::{Either, Exclusive, Mode, Shared};
use crate::lock::owner::Owner;
use crate::values::holder::Holder;
use crate::values::token::FencingToken;
use crate::values::votes::Votes;

/// Proof of a hold, valid for as long as [`validity`](Self::validity) says.
///
/// A process that is paused *after* it looked at the validity goes on unaware; only a resource that
/// checks for itself who comes first can catch that.
///
/// A guard has to be bound to a name: `let _ = lock.lock().await?;` drops it at once, and neither the compiler nor clippy
/// warns. Write `let _guard = …` where nothing is asked of it.
///
/// Dropping the guard gives the hold up in the background: the drop does not block and works outside
/// a runtime, but it does not wait either, so the name may still be held for a moment afterwards.
/// Call [`unlock`](Self::unlock) to know that it is free, or handed on. If the runtime is gone by then, the lease
/// frees the name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (masters, _) = multilock::Masters::in_memory(3).await?;
/// use multilock::{Lost, MultiLockGuard};
///
/// fn charge(guard: &MultiLockGuard) -> Result<(), Lost> {
///     // The last line before what cannot be undone:
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
    /// For who has entered.
    pub(crate) fn of(inner: HoldGuard) -> Self {
        Self {
            inner,
            mode: PhantomData,
        }
    }

    fn hold(&self) -> &Hold {
        self.inner.hold()
    }

    fn grant(&self) -> &Grant {
        &self.hold().grant
    }

    /// Time for which no other guard of these names can be valid, from the clock at this call; zero
    /// when the hold is lost. For a [`Shared`] guard: no [`Exclusive`] one.
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

    /// Whether any validity is left.
    pub fn is_valid(&self) -> bool {
        !self.validity().is_zero()
    }

    /// For one line before a side effect: `guard.ensure_valid()?`.
    ///
    /// # Errors
    ///
    /// [`Lost`] when no validity is left.
    pub fn ensure_valid(&self) -> Result<(), Lost> {
        if self.is_valid() { Ok(()) } else { Err(Lost) }
    }

    /// When the validity ends by the wall clock, for people and logs. To decide, ask
    /// [`validity`](Self::validity), which no step of the wall clock can mislead.
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

    /// The number that tells this hold from every earlier and later one of its names: hand it to the
    /// resource with every write, for the resource to reject a smaller one than it has seen. A hold that was handed on
    /// inside its process has one of its own, above that of the hold before. Those who [`read`](crate::MultiLock::read)
    /// share one: not smaller than that of any writer that was complete before they began, and smaller than that of any who
    /// begins after.
    /// [`FencingToken::NONE`] for a lock that is not [`fenced`](crate::MultiLock::fenced).
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

    /// How many others waited for the names when they were granted: the most that any master told of those that had
    /// granted by then. Of each line of a process only the front one counts. A hold that was handed on inside its
    /// process tells the same as the first one did. For a job that may end early where somebody waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let guard = masters.red_lock("import").lock().await?;
    /// // A smaller batch where others wait for their turn.
    /// let rows = if guard.waiting() > 0 { 100 } else { 10_000 };
    /// # assert_eq!(rows, 10_000);
    /// # Ok(()) }
    /// ```
    pub fn waiting(&self) -> usize {
        usize::try_from(self.grant().behind.waiting).unwrap_or(usize::MAX)
    }

    /// How many guards of its owner are in this hold, this one included.
    pub fn hold_count(&self) -> u64 {
        self.hold().count()
    }

    /// The owner, to enter again with.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (masters, _) = multilock::Masters::in_memory(3).await?;
    /// let outer = masters.red_lock("invoice:42").lock().await?;
    /// // Nobody named an owner, and it enters again all the same.
    /// let inner = masters.red_lock("invoice:42").owner(outer.owner()).lock().await?;
    /// assert_eq!(outer.hold_count(), 2);
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> &Owner {
        self.inner.owner()
    }

    /// What every master answered last, to the acquisition or an extension. A minority that failed
    /// shows here and nowhere else.
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

    /// Resolves when the hold is lost: at the end of its validity at the latest, whatever any renewal
    /// is doing, and before it once so many masters have forgotten the hold or serve somebody else that
    /// no quorum keeps it. Masters that are merely silent never end it early. No validity is left when it resolves.
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
    /// It only looks, so it can be dropped and called again at any point.
    pub async fn lost(&self) -> Loss {
        match self.hold().ended().await {
            Some(cause) => Loss {
                cause,
                votes: self.votes(),
            },
            // Given up, and so never lost.
            None => std::future::pending().await,
        }
    }

    /// A token that is cancelled when the hold is [`lost`](Self::lost), to be handed to the tasks that
    /// work under it. Giving the hold up is no loss and does not cancel it. Every call gives a child
    /// token: cancelling it ends the work under it, and tells nobody else anything.
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
        let token = self.hold().cancellation(|token| {
            let hold = self.hold().clone();
            self.inner.client.pool.runtime.spawn(async move {
                if hold.ended().await.is_some() {
                    token.cancel();
                }
            });
        });
        token.child_token()
    }

    /// Who holds, as the masters store it and [`inspect`](crate::MultiLock::inspect) reports it.
    pub fn holder(&self) -> Holder {
        Holder::new(
            self.grant().field.text(),
            Some(self.inner.client.pool.label.clone()),
        )
    }

    /// Makes the hold last for `lease` from now. What is left is only ever raised.
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
    /// [`ExtendError::Invalid`] for a lease out of range, [`ExtendError::Lost`] when the validity
    /// ended before a quorum confirmed, [`ExtendError::NotExtended`] when no quorum did; the hold
    /// then keeps the validity that it had.
    /// Outside of a tokio runtime none does.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the hold keeps the validity that it had.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let client = &self.inner.client;
        let lease = client.pool.config.checked_lease(lease)?;
        extend::extend(client, self.hold(), lease).await
    }

    /// Leaves the hold. The last guard of a hold passes it on to the next task of this process that waits for the
    /// same, for a bounded time, and sends nothing; or it releases the names on every master and wakes who waits for
    /// them. An inner one sends nothing and leaves the outer hold whole.
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
    /// [`UnlockError::WasLost`] when the hold had ended before, [`UnlockError::Unconfirmed`] when
    /// too few masters answered, or none could be waited for outside of a tokio runtime. The hold is given
    /// up in each case.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the release is carried on in the background.
    pub fn unlock(self) -> impl Future<Output = Result<Unlocked, UnlockError>> + Send {
        self.inner.unlock()
    }

    /// Gives the guard up and keeps the hold until its lease ends. Once all other guards of the hold
    /// have left or were leaked too, it is renewed no longer, and its owner is shut out like anybody
    /// else until then.
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
    /// Goes on holding only to read, and lets others in that read: the guard of a [`write`](crate::MultiLock::write) lock
    /// gives up what it has for itself before anything is sent, so no writer comes in between. It cannot fail: a master that
    /// is not told keeps readers out until the hold is renewed there. Where the owner has other guards of it that write, the hold
    /// is shared when the last of these goes. The token and the validity stay as they are; a hold that was lost stays lost.
    ///
    /// The guard of a lock that is not read/write stays the only one: it just does not say so any more.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the guard is dropped too, and leaves the hold.
    pub async fn downgrade(mut self) -> MultiLockGuard<Shared> {
        self.inner.downgrade().await;
        MultiLockGuard::of(self.inner)
    }
}

impl MultiLockGuard<Either> {
    /// As what it is, of the locks of a set: the guard that nobody else has beside it, or one that reads.
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
    /// The guard that reads, if it is one.
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
