//! A guard's entry in a hold: how it enters, and how it exits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::UnlockError;
use crate::events::{EventObserver, HoldEnd, UnlockOutcome};
use crate::hold::client::ClientCore;
use crate::hold::end::{self, GuardEnd};
use crate::hold::grant::Hold;
use crate::hold::job_mark;
use crate::hold::last_seats;
use crate::hold::release::Release;
use crate::hold::retake;
use crate::hold::{Exited, HoldState};
use crate::lock::owner::Owner;
use crate::protocol::job_mark::JobMark;
use crate::protocol::node_set::NodeSet;
use crate::protocol::release_tally::{Ended, ReleaseTally};
use crate::queue::QueueEntry;
use crate::values::votes::{Vote, Votes};

/// Result of a successful [`unlock`](crate::MultiLockGuard::unlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unlocked {
    /// The names are free: enough masters have confirmed.
    Released,
    /// The next task of this process that waited for the same names with the same options has the hold now.
    /// No message was sent. [`MultiLock::fair`](crate::MultiLock::fair) describes for how long a process may
    /// do so.
    HandedOn,
    /// The names stay with this client for its next lock of them, because the lock is
    /// [`sticky`](crate::MultiLock::sticky) and nobody is known to wait. No message was sent.
    Stays,
    /// A quorum has confirmed that the names stay locked for this rest of
    /// [`MultiLock::at_least`](crate::MultiLock::at_least). Nobody holds them meanwhile, and the masters free
    /// them afterwards. A master that the message did not reach locks them until the lease ends.
    KeptFor(Duration),
    /// The owner still holds to read, and other readers may enter.
    Downgraded,
    /// The owner still has this number of guards in the hold.
    StillHeld(u64),
}

/// A guard without its mode. When it is dropped, it exits the hold. The last guard to exit hands the grant
/// on, or releases it in the background.
pub(crate) struct HoldGuard {
    pub(crate) client: Arc<ClientCore>,
    hold: Hold,
    /// Whether the guard wants the hold renewed.
    renew: bool,
    /// Whether the guard admits readers beside it.
    is_shared: bool,
    /// Whether the guard still counts in its hold.
    inside: bool,
    /// The owner that the call site named.
    owner: Option<Owner>,
    /// Owner that is made on demand, if the call site named none: few callers need it, and a process may have
    /// very many holds.
    made: OnceLock<Owner>,
}

impl HoldGuard {
    /// Makes a guard that its hold counts already.
    pub(crate) fn entered(
        client: &Arc<ClientCore>,
        hold: Hold,
        renew: bool,
        is_shared: bool,
        owner: Option<&Owner>,
    ) -> Self {
        Self {
            client: Arc::clone(client),
            hold,
            renew,
            is_shared,
            inside: true,
            owner: owner.cloned(),
            made: OnceLock::new(),
        }
    }

    /// Makes the guard of a hold that was handed on, and counts it already. Returns `None` if the hold was
    /// taken back meanwhile.
    pub(crate) fn handed_on(
        client: &Arc<ClientCore>,
        hold: Hold,
        renew: bool,
        owner: Option<&Owner>,
    ) -> Option<Self> {
        if !hold.with_state(|state, number| state.take(number, renew)) {
            return None;
        }
        if renew {
            // The hold is not renewed before it is taken.
            client.schedule.watch(&hold.grant);
        }
        // No hold of readers is handed on.
        Some(Self::entered(client, hold, renew, false, owner))
    }

    /// Has the hold renewed as that of a single lock, as its set has all of its locks now.
    pub(crate) fn lift_set_bound(&self) {
        if self.hold.with_state(|state, _| state.lift_set_bound()) {
            self.client.schedule.watch(&self.hold.grant);
        }
    }

    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Owner of the hold, to enter it again with.
    pub(crate) fn owner(&self) -> &Owner {
        let make = || {
            let owner = Owner::new();
            owner.remember(&self.hold);
            owner
        };
        self.owner.as_ref().unwrap_or_else(|| self.made.get_or_init(make))
    }

    pub(crate) fn votes(&self) -> Votes {
        self.client.pool.evidence(&self.hold.grant.votes())
    }

    /// Admits readers beside the guard, which was exclusive, and waits until a quorum does.
    pub(crate) async fn downgrade(&mut self) {
        self.is_shared = true;
        if self.hold.with_state(|state, _| state.give_up_exclusive()) {
            self.send_downgrade().confirmed_by(self.hold.grant.needed).await;
        }
    }

    /// Stores that the job of the hold is done, and releases the hold, in one round. Returns whether the hold was valid until
    /// a quorum had done both. If none has, returns the guard and the masters that have: none are asked while others are in
    /// the hold, or if the names are to stay locked.
    pub(crate) async fn finish(mut self, mark: &JobMark) -> Result<bool, (Self, NodeSet)> {
        let (pool, grant) = (&self.client.pool, &self.hold.grant);
        if !self.hold.with_state(HoldState::begin_finish) {
            return Err((self, NodeSet::default()));
        }
        let claim = grant.claim();
        let (storing, round) = match job_mark::store_and_release(pool, &claim, mark, grant.needed).await {
            Ok(stored) => stored,
            Err(stored) => {
                self.hold.with_state(|state, _| state.leave_finish_unconfirmed());
                self.client.schedule.watch(grant);
                return Err((self, stored));
            }
        };
        let was_valid = !self.hold.remaining().is_zero();
        let mut unreleased = None;
        if let GuardEnd::Release(release) = self.exit(was_valid) {
            release.mark_as_sent();
            unreleased = Some((claim, self.hold.grant.touched()));
        }
        storing.go_on(&self.client.pool, round, unreleased);
        self.client.pool.events.unlocked(UnlockOutcome::Released);
        Ok(was_valid)
    }

    /// Exits the hold. If that releases it, waits for the answers of the masters.
    pub(crate) async fn unlock(mut self) -> Result<Unlocked, UnlockError> {
        let was_valid = !self.hold.remaining().is_zero();
        let (kept, release) = match self.exit(was_valid) {
            GuardEnd::StillHeld(count) if was_valid => return self.counted(Ok(Unlocked::StillHeld(count))),
            GuardEnd::Downgraded(downgrade) if was_valid => {
                let unlocked = self.counted(Ok(Unlocked::Downgraded));
                downgrade.confirmed_by(self.hold.grant.needed).await;
                return unlocked;
            }
            GuardEnd::HandedOn => return self.counted(Ok(Unlocked::HandedOn)),
            GuardEnd::Stays => return self.counted(Ok(Unlocked::Stays)),
            GuardEnd::Release(release) => (release.kept, release.begin()),
            _ => return self.counted(Err(UnlockError::WasLost { votes: self.votes() })),
        };
        let (pool, grant) = (&self.client.pool, &self.hold.grant);
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
        let ended = if was_valid { tally.ended() } else { Ended::Gone };
        self.counted(self.ended(ended, &votes, kept))
    }

    /// Returns the result of a release, according to the answers of the masters.
    fn ended(&self, ended: Ended, votes: &[Vote], kept: Duration) -> Result<Unlocked, UnlockError> {
        let votes = || self.client.pool.evidence(votes);
        match ended {
            Ended::Confirmed if kept.is_zero() => Ok(Unlocked::Released),
            Ended::Confirmed => Ok(Unlocked::KeptFor(kept)),
            Ended::Gone => Err(UnlockError::WasLost { votes: votes() }),
            Ended::Unconfirmed => Err(UnlockError::Unconfirmed {
                free_within: self.hold.grant.longest_lease(),
                votes: votes(),
            }),
        }
    }

    /// Counts the result of an unlock in the metrics.
    fn counted(&self, unlocked: Result<Unlocked, UnlockError>) -> Result<Unlocked, UnlockError> {
        let outcome = match &unlocked {
            Ok(Unlocked::Released) => UnlockOutcome::Released,
            Ok(Unlocked::HandedOn) => UnlockOutcome::HandedOn,
            Ok(Unlocked::Stays) => UnlockOutcome::Stays,
            Ok(Unlocked::KeptFor(_)) => UnlockOutcome::KeptFor,
            Ok(Unlocked::Downgraded) => UnlockOutcome::Downgraded,
            Ok(Unlocked::StillHeld(_)) => UnlockOutcome::StillHeld,
            Err(UnlockError::WasLost { .. }) => UnlockOutcome::WasLost,
            Err(UnlockError::Unconfirmed { .. }) => UnlockOutcome::Unconfirmed,
        };
        self.client.pool.events.unlocked(outcome);
        unlocked
    }

    /// Stays in the hold for good.
    pub(crate) fn leak(mut self) {
        if std::mem::take(&mut self.inside) && self.hold.with_state(|state, _| state.leak(self.renew)) {
            self.abandon();
        }
    }

    /// Gives the hold back at once for a waiter, which takes its place in the queues.
    pub(crate) fn give_back(mut self, waiter: Option<QueueEntry>) {
        // The hold was won a moment ago.
        if let GuardEnd::Release(release) = self.exit(true) {
            release.give_back(waiter);
        }
    }

    /// Exits the hold, once. `known_valid` tells that the caller has just seen validity; `false` tells nothing.
    fn exit(&mut self, known_valid: bool) -> GuardEnd {
        self.inside = false;
        match self.hold.exit(self.renew, self.is_shared) {
            Exited::Inside(count) => return GuardEnd::StillHeld(count),
            Exited::Downgraded { leaked } => {
                let downgrade = self.send_downgrade();
                if leaked {
                    self.abandon();
                }
                return GuardEnd::Downgraded(Box::new(downgrade));
            }
            Exited::Leaked(count) => {
                self.abandon();
                return GuardEnd::StillHeld(count);
            }
            Exited::Last => {}
        }
        let end = end::dispose(&self.client, &self.hold.grant, known_valid);
        if let Some((name, seat)) = last_seats::seat_of(&self.hold.grant) {
            self.client.seats.given_up(name, seat);
        }
        if let Some(owner) = self.owner.as_ref().or_else(|| self.made.get()) {
            owner.forget(&self.hold);
        }
        end
    }

    /// Downgrades the hold at the masters. From here on the writers of this process ask the masters
    /// themselves. Otherwise other processes would overtake them while the hold is read.
    fn send_downgrade(&self) -> Release {
        let grant = &self.hold.grant;
        let downgrade = Release::downgrade(&self.client.pool, grant);
        drop(grant.take_turn());
        downgrade
    }

    /// Ends the care for a hold in which only leaked guards are left.
    fn abandon(&self) {
        if let Some(trace) = self.hold.grant.trace.take() {
            trace.end(HoldEnd::Leaked);
        }
        self.client.leaves_locked.store(true, Ordering::Relaxed);
        let grant = &self.hold.grant;
        self.client.schedule.forget(grant);
        self.client.idle.forget(grant);
        // The watchdog will not do it.
        retake::widen(&self.client.pool, grant);
        drop(grant.take_turn());
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if self.inside {
            drop(self.exit(false));
        }
    }
}
