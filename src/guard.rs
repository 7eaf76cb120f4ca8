//! The proof of a hold.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::error::{ExtendError, Loss, Lost, UnlockError};
use crate::hold::extend;
use crate::hold::tenure::{Hold, Tenure};
use crate::holder::Holder;
use crate::mode::{Either, Exclusive, Mode, Shared};
use crate::owned_entry::{OwnedEntry, Unlocked};
use crate::owner::Owner;
use crate::token::FencingToken;
use crate::votes::Votes;

/// Proof of a hold, valid for as long as [`validity`](Self::validity) says.
///
/// A process that is paused *after* it looked at the validity goes on unaware; only a resource that
/// checks for itself who comes first can catch that.
///
/// Dropping the guard gives the hold up in the background: the drop does not block and works outside
/// a runtime, but it does not wait either, so the name may still be held for a moment afterwards.
/// Call [`unlock`](Self::unlock) to know that it is free, or handed on. If the runtime is gone by then, the lease
/// frees the name.
#[must_use = "a guard that is dropped at once releases its lock at once"]
#[clippy::has_significant_drop]
pub struct MultiLockGuard<M = Exclusive> {
    inner: OwnedEntry,
    mode: PhantomData<M>,
}

impl<M: Mode> MultiLockGuard<M> {
    /// For who has entered.
    pub(crate) fn of(inner: OwnedEntry) -> Self {
        Self {
            inner,
            mode: PhantomData,
        }
    }

    fn hold(&self) -> &Hold {
        self.inner.hold()
    }

    fn tenure(&self) -> &Tenure {
        self.inner.tenure()
    }

    /// Time for which no other guard of these names can be valid, from the clock at this call; zero
    /// when the hold is lost. For a [`Shared`] guard: no [`Exclusive`] one.
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
    pub fn fencing_token(&self) -> FencingToken {
        self.hold().token()
    }

    /// How many others waited for the names when they were granted: the most that any master told of those that had
    /// granted by then. Of each line of a process only the front one counts. A hold that was handed on inside its
    /// process tells the same as the first one did. For a job that may end early where somebody waits.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.tenure().behind.waiting).unwrap_or(usize::MAX)
    }

    /// How many guards of its owner are in this hold, this one included.
    pub fn hold_count(&self) -> u64 {
        self.hold().count()
    }

    /// The owner, to enter again with.
    pub fn owner(&self) -> &Owner {
        self.inner.owner()
    }

    /// What every master answered last, to the acquisition or an extension. A minority that failed
    /// shows here and nowhere else.
    pub fn votes(&self) -> Votes {
        self.inner.votes()
    }

    /// Resolves when the hold is lost: at the end of its validity at the latest, whatever any renewal
    /// is doing, and before it once so many masters have forgotten the hold or serve somebody else that
    /// no quorum keeps it. Masters that are merely silent never end it early. No validity is left when it resolves.
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
    pub fn cancellation_token(&self) -> CancellationToken {
        let token = self.hold().cancellation(|token| {
            let hold = self.hold().clone();
            self.inner.entry.client.pool.runtime.spawn(async move {
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
            self.tenure().field.text(),
            Some(self.inner.entry.client.pool.label.clone()),
        )
    }

    /// Makes the hold last for `lease` from now. What is left is only ever raised.
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
        let client = &self.inner.entry.client;
        let lease = client.pool.config.checked_lease(lease)?;
        extend::extend(client, self.hold(), lease).await
    }

    /// Leaves the hold. The last guard of a hold passes it on to the next task of this process that waits for the
    /// same, for a bounded time, and sends nothing; or it releases the names on every master and wakes who waits for
    /// them. An inner one sends nothing and leaves the outer hold whole.
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
    /// # Errors
    ///
    /// The guard that reads, if it is one.
    pub fn exclusive(self) -> Result<MultiLockGuard<Exclusive>, MultiLockGuard<Shared>> {
        if self.inner.entry.is_shared() {
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
            .field("names", &self.tenure().names)
            .field("validity", &self.validity())
            .field("hold_count", &self.hold_count())
            .finish_non_exhaustive()
    }
}
