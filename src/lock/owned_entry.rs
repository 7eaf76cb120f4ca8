//! A guard's entry in a hold, and the owner who may enter it again.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::UnlockError;
use crate::events::{EventObserver, UnlockOutcome};
use crate::hold::entry::HoldEntry;
use crate::hold::grant::{Grant, Hold};
use crate::hold::leave::Leave;
use crate::lock::owner::Owner;
use crate::protocol::release_tally::{Ended, ReleaseTally};
use crate::queue::{QueueEntry, Turn};
use crate::time::clock::Moment;
use crate::values::votes::{Vote, Votes};

/// What a successful [`unlock`](crate::MultiLockGuard::unlock) left.
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
    /// The owner is still in to read, and others that read may come in beside it.
    Downgraded,
    /// The owner entered more often than it has left; so many guards still hold.
    StillHeld(u64),
}

/// All that a guard is made of. Dropped, it leaves the hold.
pub(crate) struct OwnedEntry {
    pub(crate) entry: HoldEntry,
    /// The one that the call site named.
    owner: Option<Owner>,
    /// Made when it is asked for, where none was named: few ask, and a process may hold very many.
    made: OnceLock<Owner>,
}

impl OwnedEntry {
    pub(crate) fn of(entry: HoldEntry, owner: Option<&Owner>) -> Self {
        Self {
            entry,
            owner: owner.cloned(),
            made: OnceLock::new(),
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.entry.hold
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.entry.hold.grant
    }

    /// Keeps the names for so long after `now`, also where it is given up before.
    pub(crate) fn keep_at_least(&self, now: Moment, at_least: Duration) {
        self.hold().keep_at_least(now, at_least);
    }

    /// Keeps this process's turn at the names for as long as the hold lasts.
    pub(crate) fn keep_turn(&self, turn: Turn<Hold>) {
        self.hold().keep_turn(turn);
    }

    pub(crate) fn validity(&self) -> Duration {
        self.hold().remaining()
    }

    /// The owner, to enter again with.
    pub(crate) fn owner(&self) -> &Owner {
        let make = || {
            let owner = Owner::new();
            owner.remember(self.hold());
            owner
        };
        self.owner.as_ref().unwrap_or_else(|| self.made.get_or_init(make))
    }

    pub(crate) fn votes(&self) -> Votes {
        self.entry.client.pool.evidence(&self.grant().votes())
    }

    /// Lets others in beside it that read, and waits until a quorum does.
    pub(crate) async fn downgrade(&mut self) {
        if let Some(downgrade) = self.entry.downgrade() {
            downgrade.confirmed().await;
        }
    }

    /// Leaves the hold, and waits for what the masters say where it is released.
    pub(crate) async fn unlock(mut self) -> Result<Unlocked, UnlockError> {
        let was_valid = !self.validity().is_zero();
        let (kept, release) = match self.leave(was_valid) {
            Leave::StillHeld(count) if was_valid => {
                self.count_outcome(UnlockOutcome::StillHeld);
                return Ok(Unlocked::StillHeld(count));
            }
            Leave::Downgraded(downgrade) if was_valid => {
                self.count_outcome(UnlockOutcome::Downgraded);
                downgrade.confirmed().await;
                return Ok(Unlocked::Downgraded);
            }
            Leave::HandedOn => {
                self.count_outcome(UnlockOutcome::HandedOn);
                return Ok(Unlocked::HandedOn);
            }
            Leave::Release(release) => (release.kept, release.begin()),
            _ => {
                self.count_outcome(UnlockOutcome::WasLost);
                return Err(UnlockError::WasLost { votes: self.votes() });
            }
        };
        let (pool, grant) = (&self.entry.client.pool, self.grant());
        let touched = grant.touched();
        let vote = |node| {
            if touched.contains(node) {
                Vote::Pending
            } else {
                Vote::NotHeld
            }
        };
        let mut votes: Vec<Vote> = (0..pool.slots.len()).map(vote).collect();
        let mut tally = ReleaseTally::new(votes.len(), touched.len(), grant.needed, !kept.is_zero());
        let mut release = release.wake_after(grant.needed);
        while let Some((node, vote)) = release.next().await {
            tally.count(&vote);
            votes[node] = vote;
            if tally.is_certain() {
                break;
            }
        }
        self.ended(if was_valid { tally.ended() } else { Ended::Gone }, &votes, kept)
    }

    /// What became of a release, by what the masters said.
    fn ended(&self, ended: Ended, votes: &[Vote], kept: Duration) -> Result<Unlocked, UnlockError> {
        let evidence = || self.entry.client.pool.evidence(votes);
        let (outcome, unlocked) = match ended {
            Ended::Confirmed if kept.is_zero() => (UnlockOutcome::Released, Ok(Unlocked::Released)),
            Ended::Confirmed => (UnlockOutcome::KeptFor, Ok(Unlocked::KeptFor(kept))),
            Ended::Gone => {
                let votes = evidence();
                (UnlockOutcome::WasLost, Err(UnlockError::WasLost { votes }))
            }
            Ended::Unconfirmed => {
                let (free_within, votes) = (self.grant().lease(), evidence());
                let error = UnlockError::Unconfirmed { free_within, votes };
                (UnlockOutcome::Unconfirmed, Err(error))
            }
        };
        self.count_outcome(outcome);
        unlocked
    }

    fn count_outcome(&self, outcome: UnlockOutcome) {
        self.entry.client.pool.events.unlocked(outcome);
    }

    /// Stays in for good.
    pub(crate) fn leak(mut self) {
        self.entry.leak();
    }

    /// Gives it back at once for one that goes on waiting, which stands in the queues in its place from then on.
    pub(crate) fn give_back(mut self, waiter: Option<QueueEntry>) {
        // It was won a moment ago.
        if let Leave::Release(release) = self.leave(true) {
            release.give_back(waiter);
        }
    }

    /// Leaves the hold, once; `is_valid` by a look at the clock just before, where there was one.
    fn leave(&mut self, is_valid: bool) -> Leave {
        let departure = self.entry.leave(is_valid);
        let is_inside = matches!(
            departure,
            Leave::StillHeld(_) | Leave::Downgraded(_) | Leave::NotInside
        );
        if !is_inside && let Some(owner) = self.owner.as_ref().or_else(|| self.made.get()) {
            owner.forget(self.hold());
        }
        departure
    }
}

impl Drop for OwnedEntry {
    fn drop(&mut self) {
        if self.entry.is_inside() {
            drop(self.leave(false));
        }
    }
}
