//! The proof of a hold.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::cleanup::{Debris, Release};
use crate::error::{ExtendError, Lost, UnlockError};
use crate::extension;
use crate::hold::{Hold, Left};
use crate::masters::Pool;
use crate::owner::Owner;
use crate::vote::{Vote, Votes};

/// Proof of a hold, valid for as long as [`validity`](Self::validity) says.
///
/// A process that is paused *after* it looked at the validity goes on unaware; only a resource that
/// checks for itself who comes first can catch that.
///
/// Dropping the guard gives the hold up in the background: the drop does not block and works outside
/// a runtime, but it does not wait either, so the name may still be held for a moment afterwards.
/// Call [`unlock`](Self::unlock) to know that it is free. If the runtime is gone by then, the lease
/// frees the name.
#[must_use = "a guard that is dropped at once releases its lock at once"]
#[clippy::has_significant_drop]
pub struct MultiLockGuard {
    pool: Arc<Pool>,
    hold: Arc<Hold>,
    owner: Owner,
    /// Whether this guard still counts in its hold.
    inside: bool,
}

/// What a successful [`unlock`](MultiLockGuard::unlock) left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlocked {
    /// The names are free: enough masters have confirmed.
    Released,
    /// The owner entered more often than it has left; so many guards still hold.
    StillHeld(u64),
}

impl MultiLockGuard {
    /// For a guard that the hold has already counted.
    pub(crate) fn new(pool: &Arc<Pool>, hold: Arc<Hold>, owner: Owner) -> Self {
        Self {
            pool: Arc::clone(pool),
            hold,
            owner,
            inside: true,
        }
    }

    /// Time for which no other guard of these names can be valid, from the clock at this call; zero
    /// when the hold is lost.
    pub fn validity(&self) -> Duration {
        self.hold.remaining()
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

    /// How many guards of its owner are in this hold, this one included.
    pub fn hold_count(&self) -> u64 {
        self.hold.count()
    }

    /// The owner, to enter again with.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// What every master answered last, to the acquisition or an extension. A minority that failed
    /// shows here and nowhere else.
    pub fn votes(&self) -> Votes {
        self.pool.evidence(&self.hold.votes())
    }

    /// Makes the hold last for `lease` from now. What is left is only ever raised.
    ///
    /// # Errors
    ///
    /// [`ExtendError::Invalid`] for a lease out of range, [`ExtendError::Lost`] when the validity
    /// ended before a quorum confirmed, [`ExtendError::NotExtended`] when no quorum did; the hold
    /// then keeps the validity that it had.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the hold keeps the validity that it had.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let lease = self.pool.config.checked_lease(lease)?;
        extension::extend(&self.pool, &self.hold, lease).await
    }

    /// Leaves the hold. The last guard of a hold releases the names on every master and wakes who
    /// waits for them; an inner one sends nothing and leaves the outer hold whole.
    ///
    /// # Errors
    ///
    /// [`UnlockError::WasLost`] when the hold had ended before, [`UnlockError::Unconfirmed`] when
    /// too few masters answered. The hold is given up in each case.
    ///
    /// # Cancel safety
    ///
    /// Dropped half-way, the release is carried on in the background.
    pub async fn unlock(mut self) -> Result<Unlocked, UnlockError> {
        let was_valid = self.is_valid();
        let mut release = match self.leave() {
            Ok(release) => release,
            Err(count) if was_valid => return Ok(Unlocked::StillHeld(count)),
            Err(_) => {
                return Err(UnlockError::WasLost {
                    votes: Votes::default(),
                });
            }
        };
        let nodes = self.pool.slots.len();
        let spare = nodes - self.hold.needed;
        let mut votes: Vec<Vote> = (0..nodes)
            .map(|place| {
                if self.hold.may_be_on(place) {
                    Vote::Pending
                } else {
                    Vote::NotHeld
                }
            })
            .collect();
        let mut gone = votes.iter().filter(|vote| **vote == Vote::NotHeld).count();
        let (mut pending, mut released) = (nodes - gone, 0);
        while let Some((place, vote)) = release.next().await {
            pending -= 1;
            released += usize::from(vote == Vote::Granted);
            gone += usize::from(vote == Vote::NotHeld);
            votes[place] = vote;
            let confirmed = released + gone >= self.hold.needed && gone + pending <= spare;
            if gone > spare || confirmed {
                break;
            }
        }
        let votes = self.pool.evidence(&votes);
        if gone > spare || !was_valid {
            Err(UnlockError::WasLost { votes })
        } else if released + gone >= self.hold.needed {
            Ok(Unlocked::Released)
        } else {
            let free_within = self.hold.lease();
            Err(UnlockError::Unconfirmed { free_within, votes })
        }
    }

    /// Gives the guard up and keeps the hold until its lease ends.
    pub fn leak(mut self) {
        self.inside = false;
    }

    /// Leaves the hold, once. The last one to leave gets the release, which is already on its way;
    /// anybody else the number of guards that are still in.
    fn leave(&mut self) -> Result<Release, u64> {
        if !std::mem::take(&mut self.inside) {
            return Err(self.hold.count());
        }
        if let Left::Inside(count) = self.hold.leave() {
            return Err(count);
        }
        let debris = Debris {
            names: self.hold.names.clone(),
            field: Arc::clone(&self.hold.field),
            lease: self.hold.lease(),
        };
        Ok(Release::begin(&self.pool, &debris, true, |place| {
            self.hold.may_be_on(place)
        }))
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
            .field("names", &self.hold.names)
            .field("validity", &self.validity())
            .field("hold_count", &self.hold_count())
            .finish_non_exhaustive()
    }
}
