//! Idle grants: nobody holds them, and they stay with their client for the next lock of their names.
//!
//! Nothing is sent when a hold of a sticky lock is given up, and nothing when the next one begins. The masters keep the
//! grant for the client meanwhile, so an idle grant is released as soon as it is in the way or not worth its renewals:
//! - a waiter of another client or line recalls it (`recall.rs`),
//! - this client wants its names with other options,
//! - it was not used since its last renewal,
//! - it is two leases old, and wanted or renewed next: recalls may be lost, or denied,
//! - too many other grants were used after it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::hold::IdleHoldOptions;
use crate::hold::grant::{Grant, Hold};
use crate::hold::schedule::Schedule;
use crate::hold::unsent_release::UnsentRelease;
use crate::protocol::field::Letter;
use crate::queue::LineOptions;
use crate::round::pool::Pool;
use crate::values::names::Names;

/// Bounds of the number of unlocks that release the grant of a name after a recall.
const LEAST_PENALTY: u8 = 2;
const MOST_PENALTY: u8 = 64;
/// Number of names whose recalls are remembered.
const MOST_RECALLED: usize = 1024;

/// Grants of a client that are idle, or have been.
pub(crate) struct IdleGrants {
    pool: Arc<Pool>,
    schedule: Arc<Schedule>,
    state: Mutex<IdleState>,
    /// Number of names with a grant, for callers that look without the mutex.
    names: AtomicUsize,
}

#[derive(Default)]
struct IdleState {
    /// Grants by each of their names. A grant stays here while it is held again.
    grants: HashMap<Box<str>, Arc<Grant>>,
    recalled: HashMap<Box<str>, RecalledName>,
}

/// A name with a grant that was recalled before it was used again.
#[derive(Clone, Copy, Debug)]
struct RecalledName {
    /// Number of unlocks that release the grant, after the last recall. After the next recall it is twice this.
    penalty: u8,
    /// Number of these unlocks that are still to come.
    unspent: u8,
}

impl IdleGrants {
    pub(crate) fn new(pool: Arc<Pool>, schedule: Arc<Schedule>) -> Self {
        Self {
            pool,
            schedule,
            state: Mutex::default(),
            names: AtomicUsize::new(0),
        }
    }

    /// Lets a vacant grant stay, if its lock is sticky and nobody is known to wait for its names. Returns whether it
    /// stays.
    pub(crate) fn keep(&self, grant: &Arc<Grant>) -> bool {
        let most = self.pool.config.max_idle;
        if !grant.field.letters.has(Letter::Sticky) || grant.names.len() > most {
            return false;
        }
        let before = {
            let mut state = self.state.lock();
            if state.take_penalty(&grant.names) {
                return false;
            }
            let Some(before) = state.enter(grant) else {
                return false;
            };
            self.names.store(state.grants.len(), Ordering::Relaxed);
            before
        };
        // Nobody would find it any more under all of its names.
        for other in before {
            self.release(&other);
        }
        // The grant is entered before it is idle: a recall that comes at once finds it.
        if !grant.become_idle() {
            self.forget(grant);
            return false;
        }
        // The grant's last hold may not have been renewed any more.
        self.schedule.watch(grant);
        while self.names.load(Ordering::Relaxed) > most && self.release_oldest(grant, most) {}
        if self.pool.is_closed() {
            // The client was closed in between, and may not have found it idle.
            self.release(grant);
        }
        true
    }

    /// Takes an idle grant for a lock. If an idle grant of its names does not suit the lock, the grant is released first.
    pub(crate) fn take(&self, options: &LineOptions, wanted: &IdleHoldOptions) -> Option<Hold> {
        for grant in self.of(&options.names) {
            if grant.suits(options)
                && let Some(hold) = grant.take_idle(wanted)
            {
                self.state.lock().was_used(&options.names);
                return Some(hold);
            }
            self.release(&grant);
        }
        None
    }

    /// Releases the idle grants of some names, so that the masters grant the names otherwise.
    pub(crate) fn release_all_of(&self, names: &Names) {
        for grant in self.of(names) {
            self.release(&grant);
        }
    }

    /// Hands an idle grant on to a task that has joined its line, or releases it.
    pub(crate) fn offer(&self, names: &Names) {
        for grant in self.of(names) {
            if !grant.hand_on_idle() {
                self.release(&grant);
            }
        }
    }

    /// Releases an idle grant because a waiter wants its names. For some time, later grants of the names are released
    /// at once.
    pub(super) fn recalled(&self, grant: &Arc<Grant>) {
        if self.release(grant) {
            self.state.lock().was_recalled(&grant.names);
        }
    }

    /// Releases a grant if it is idle, in the background. The next task of its line asks behind the release. Returns
    /// whether it was idle.
    pub(crate) fn release(&self, grant: &Arc<Grant>) -> bool {
        if !grant.state().end_idle() {
            return false;
        }
        self.forget(grant);
        let release = UnsentRelease::of(&self.pool, grant, Duration::ZERO);
        self.schedule.forget(grant);
        drop(release);
        true
    }

    /// Releases all idle grants.
    pub(crate) fn release_all(&self) {
        let all: Vec<_> = self.state.lock().grants.values().cloned().collect();
        for grant in all {
            self.release(&grant);
        }
    }

    /// Number of idle grants.
    pub(crate) fn count(&self) -> usize {
        let state = self.state.lock();
        // A grant of several names counts with its first one.
        let grants = state
            .grants
            .iter()
            .filter(|(name, grant)| grant.names.iter().next() == Some(&***name));
        grants
            .filter(|(_, grant)| grant.state().idle_since_hold_of().is_some())
            .count()
    }

    /// Removes a grant that does not stay.
    pub(crate) fn forget(&self, grant: &Arc<Grant>) {
        if !grant.field.letters.has(Letter::Sticky) || self.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let mut removed = Vec::new();
        for name in grant.names.iter() {
            if state
                .grants
                .get(name)
                .is_some_and(|known| Arc::ptr_eq(known, grant))
            {
                removed.extend(state.grants.remove(name));
            }
        }
        self.names.store(state.grants.len(), Ordering::Relaxed);
        drop(state);
        // The drop of a grant takes other mutexes.
        drop(removed);
    }

    /// Releases the idle grant that was used least recently, apart from `newest`, if more than `most` names are idle. Returns
    /// whether there was one. Grants that are held again take no place.
    fn release_oldest(&self, newest: &Arc<Grant>, most: usize) -> bool {
        let oldest = {
            let state = self.state.lock();
            let now = self.pool.clock.now();
            let idle = state
                .grants
                .values()
                .filter_map(|grant| Some((now.since(grant.state().idle_since_hold_of()?), grant)));
            let idle: Vec<_> = idle.collect();
            let others = idle.iter().filter(|(_, grant)| !Arc::ptr_eq(grant, newest));
            let oldest = others.max_by_key(|(age, _)| *age);
            oldest
                .filter(|_| idle.len() > most)
                .map(|(_, grant)| Arc::clone(grant))
        };
        let Some(oldest) = oldest else { return false };
        // If another thread has just taken it, the caller looks for the next one.
        self.release(&oldest);
        true
    }

    /// Whether no grant is idle, or has been.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.load(Ordering::Relaxed) == 0
    }

    /// Grant with a field of this number.
    pub(super) fn with_field(&self, number: u64) -> Option<Arc<Grant>> {
        let state = self.state.lock();
        let mut grants = state.grants.values();
        grants.find(|grant| grant.field.number == number).cloned()
    }

    /// Grants of any of the names that are idle, or have been.
    fn of(&self, names: &Names) -> SmallVec<[Arc<Grant>; 1]> {
        if self.is_empty() {
            return SmallVec::new();
        }
        let state = self.state.lock();
        let grants = names.iter().filter_map(|name| state.grants.get(name));
        grants.cloned().collect()
    }
}

impl IdleState {
    /// Enters a grant under each of its names. Returns the grants whose place it takes. `None` if a later grant of one of the
    /// names is there: of two grants of a name the client has lost the earlier one, perhaps without noticing.
    fn enter(&mut self, grant: &Arc<Grant>) -> Option<Vec<Arc<Grant>>> {
        let is_entered = |known: &Arc<Grant>| Arc::ptr_eq(known, grant);
        let missing = |name: &&str| !self.grants.get(*name).is_some_and(is_entered);
        // Empty for a grant that has been idle before, and then nothing is allocated.
        let missing: Vec<&str> = grant.names.iter().filter(missing).collect();
        let mut known = missing.iter().filter_map(|name| self.grants.get(*name));
        if known.any(|known| !known.begun.since(grant.begun).is_zero()) {
            return None;
        }
        let put = |name: &str| self.grants.insert(name.into(), Arc::clone(grant));
        Some(missing.into_iter().filter_map(put).collect())
    }

    /// Whether a grant of the names is to be released at once, after recalls.
    fn take_penalty(&mut self, names: &Names) -> bool {
        if self.recalled.is_empty() {
            return false;
        }
        let mut is_taken = false;
        for name in names.iter() {
            if let Some(recalled) = self.recalled.get_mut(name)
                && recalled.unspent > 0
            {
                recalled.unspent -= 1;
                is_taken = true;
            }
        }
        is_taken
    }

    fn was_recalled(&mut self, names: &Names) {
        if self.recalled.len() + names.len() > MOST_RECALLED {
            self.recalled.clear();
        }
        for name in names.iter() {
            let before = self.recalled.get(name).map_or(0, |recalled| recalled.penalty);
            let penalty = before.saturating_mul(2).clamp(LEAST_PENALTY, MOST_PENALTY);
            let now = RecalledName {
                penalty,
                unspent: penalty,
            };
            self.recalled.insert(name.into(), now);
        }
    }

    fn was_used(&mut self, names: &Names) {
        if self.recalled.is_empty() {
            return;
        }
        for name in names.iter() {
            if let Some(recalled) = self.recalled.get_mut(name) {
                recalled.penalty /= 2;
                if recalled.penalty < LEAST_PENALTY {
                    self.recalled.remove(name);
                }
            }
        }
    }
}

impl Drop for IdleGrants {
    /// The client has ended, and nobody takes its grants any more.
    fn drop(&mut self) {
        self.release_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recalls_double_the_releases_and_uses_halve_them() {
        let mut state = IdleState::default();
        let names = Names::from("a");
        let released = |state: &mut IdleState| (0..100).take_while(|_| state.take_penalty(&names)).count();
        assert_eq!(released(&mut state), 0);
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            state.was_recalled(&names);
            assert_eq!(released(&mut state), expected);
        }
        state.was_used(&names);
        state.was_used(&names);
        state.was_recalled(&names);
        assert_eq!(released(&mut state), 32);
        for _ in 0..6 {
            state.was_used(&names);
        }
        assert!(state.recalled.is_empty());
    }

    #[test]
    fn recalls_of_many_names_take_a_bounded_place() {
        let mut state = IdleState::default();
        for name in 0..3 * MOST_RECALLED {
            state.was_recalled(&Names::from(&*name.to_string()));
            assert!(state.recalled.len() <= MOST_RECALLED, "{name}");
        }
        assert!(!state.recalled.is_empty());
    }
}
