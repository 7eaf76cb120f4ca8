//! The proof of a hold.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::error::{ExtendError, Loss, Lost, UnlockError};
use crate::hold::client::Client;
use crate::hold::entry::{Departure, Entry};
use crate::hold::extend;
use crate::hold::tenure::{Hold, Tenure};
use crate::holder::Holder;
use crate::owner::Owner;
use crate::queue::{InLine, Turn};
use crate::time::clock::Moment;
use crate::token::FencingToken;
use crate::votes::{Vote, Votes};

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
pub struct MultiLockGuard {
    entry: Entry,
    /// The one that the call site named.
    owner: Option<Owner>,
    /// Made when it is asked for, where none was named: few ask, and a process may hold very many.
    made: OnceLock<Owner>,
}

/// What a successful [`unlock`](MultiLockGuard::unlock) left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlocked {
    /// The names are free: enough masters have confirmed.
    Released,
    /// The next task of this process that waited for the same on the same terms has the names now, and no master was
    /// asked. A process keeps them so for a bounded time, as [`MultiLock::fair`](crate::MultiLock::fair) tells.
    HandedOn,
    /// The masters keep the names for so much longer, as [`MultiLock::at_least`](crate::MultiLock::at_least) asks, and
    /// then free them by themselves. Nobody holds them meanwhile. A quorum has confirmed it; a master that has not heard
    /// of it keeps them until the lease ends.
    KeptFor(Duration),
    /// The owner entered more often than it has left; so many guards still hold.
    StillHeld(u64),
}

impl MultiLockGuard {
    /// Enters a hold, if more than `min_validity` is left; with `renew` it is renewed meanwhile. Else the
    /// hold is given back.
    pub(crate) fn enter(
        client: &Arc<Client>,
        hold: Hold,
        owner: Option<&Owner>,
        now: Moment,
        min_validity: Duration,
        renew: bool,
    ) -> Result<Self, Hold> {
        Entry::new(client, hold, now, min_validity, renew).map(|entry| Self::of(entry, owner))
    }

    /// For who has entered.
    pub(crate) fn of(entry: Entry, owner: Option<&Owner>) -> Self {
        Self {
            entry,
            owner: owner.cloned(),
            made: OnceLock::new(),
        }
    }

    fn hold(&self) -> &Hold {
        &self.entry.hold
    }

    fn tenure(&self) -> &Tenure {
        &self.entry.hold.tenure
    }

    /// Keeps the names for so long after `now`, also where the guard is given up before.
    pub(crate) fn keep_at_least(&self, now: Moment, at_least: Duration) {
        self.hold().keep_at_least(now, at_least);
    }

    /// Keeps this process's turn at the names for as long as the hold lasts.
    pub(crate) fn keep_turn(&self, turn: Turn<Hold>) {
        self.hold().keep_turn(turn);
    }

    /// Time for which no other guard of these names can be valid, from the clock at this call; zero
    /// when the hold is lost.
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
    /// inside its process has one of its own, above that of the hold before.
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
        let make = || {
            let owner = Owner::new();
            owner.remember(self.hold());
            owner
        };
        self.owner.as_ref().unwrap_or_else(|| self.made.get_or_init(make))
    }

    /// What every master answered last, to the acquisition or an extension. A minority that failed
    /// shows here and nowhere else.
    pub fn votes(&self) -> Votes {
        self.entry.client.pool.evidence(&self.tenure().votes())
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
            self.entry.client.pool.runtime.spawn(async move {
                if hold.ended().await.is_some() {
                    token.cancel();
                }
            });
        });
        token.child_token()
    }

    /// Who holds, as the masters store it and [`inspect`](crate::MultiLock::inspect) reports it.
    pub fn holder(&self) -> Holder {
        Holder(self.tenure().field.text().into())
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
        let client = &self.entry.client;
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
    pub async fn unlock(mut self) -> Result<Unlocked, UnlockError> {
        let was_valid = self.is_valid();
        let (kept, release) = match self.leave() {
            Departure::StillHeld(count) if was_valid => return Ok(Unlocked::StillHeld(count)),
            Departure::HandedOn => return Ok(Unlocked::HandedOn),
            Departure::Release(outgoing) => (outgoing.kept, outgoing.begin()),
            _ => return Err(UnlockError::WasLost { votes: self.votes() }),
        };
        let (pool, tenure) = (&self.entry.client.pool, self.tenure());
        let (nodes, touched) = (pool.slots.len(), tenure.touched());
        let spare = nodes - tenure.needed;
        let mut votes: Vec<Vote> = (0..nodes)
            .map(|node| {
                if touched.contains(node) {
                    Vote::Pending
                } else {
                    Vote::NotHeld
                }
            })
            .collect();
        let (mut pending, mut released) = (touched.len(), 0);
        let mut gone = nodes - pending;
        // Where nothing of it is left, its names are free, and nothing keeps them.
        let done = |released, gone| if kept.is_zero() { released + gone } else { released };
        let mut release = release.wake_after(tenure.needed);
        while let Some((node, vote)) = release.next().await {
            pending -= 1;
            released += usize::from(vote == Vote::Granted);
            gone += usize::from(vote == Vote::NotHeld);
            votes[node] = vote;
            let confirmed = done(released, gone) >= tenure.needed && gone + pending <= spare;
            if gone > spare || confirmed {
                break;
            }
        }
        let evidence = || pool.evidence(&votes);
        if gone > spare || !was_valid {
            Err(UnlockError::WasLost { votes: evidence() })
        } else if done(released, gone) >= tenure.needed {
            Ok(if kept.is_zero() {
                Unlocked::Released
            } else {
                Unlocked::KeptFor(kept)
            })
        } else {
            Err(UnlockError::Unconfirmed {
                free_within: tenure.lease(),
                votes: evidence(),
            })
        }
    }

    /// Gives the guard up and keeps the hold until its lease ends. Once all other guards of the hold
    /// have left or were leaked too, it is renewed no longer, and its owner is shut out like anybody
    /// else until then.
    pub fn leak(mut self) {
        self.entry.leak();
    }

    /// Gives it back at once for one that goes on waiting, which stands in the queues in its place from then on.
    pub(crate) fn give_back(mut self, waiter: Option<InLine>) {
        if let Departure::Release(outgoing) = self.leave() {
            outgoing.give_back(waiter);
        }
    }

    /// Leaves the hold, once.
    fn leave(&mut self) -> Departure {
        let departure = self.entry.leave();
        let is_over = !matches!(departure, Departure::StillHeld(_) | Departure::NotInside);
        if is_over && let Some(owner) = self.owner.as_ref().or_else(|| self.made.get()) {
            owner.forget(self.hold());
        }
        departure
    }
}

impl Drop for MultiLockGuard {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl fmt::Debug for MultiLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLockGuard")
            .field("names", &self.tenure().names)
            .field("validity", &self.validity())
            .field("hold_count", &self.hold_count())
            .finish_non_exhaustive()
    }
}
