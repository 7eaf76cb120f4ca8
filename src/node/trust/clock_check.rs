//! Detects a master that may have forgotten grants while it went on running. Either its clock was set
//! forward, so that keys expired early, or its memory was wiped.
//!
//! Every answer that counts as a vote carries the master's wall clock, and `offsets` finds its steps. A step
//! harms two kinds of leases:
//! - Leases of this client end earlier on that master, by the size of the step (see `hold::expiry`).
//! - Leases of other clients may be forgotten there if their drift is less than twice the step. The factor
//!   two is there because the rates of the clocks may have added the other half.
//!
//! So the master has no vote for a time. The time ends when the longest such lease has ended that can have
//! been granted before the step was noticed. These are leases of other clients. So this client's own
//! settings, its drift factor and the lease that it asks for, do not matter.
//!
//! A client can notice a step only between two answers that it has received itself, and only a step larger
//! than the rates may have added between them. So leases shorter than the time since the last answer from the
//! master are not covered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::offsets::{Offsets, Step};
use crate::events::NodeEvents;
use crate::protocol::lease_timing::LeaseTiming;
use crate::time::clock::Moment;
use crate::time::steps::Steps;
use crate::time::validity::{LEAST_DRIFT_FACTOR, longest_with_less_drift};

/// Most suspicions that are stored apart. A further one takes the place of the shortest, and counts for as long at least.
const MOST_SUSPICIONS: usize = 8;

/// Clock and memory of one run of one master.
pub(crate) struct ClockCheck {
    events: Arc<NodeEvents>,
    lease_timing: LeaseTiming,
    steps: Arc<Steps>,
    /// Whether a step or a wiped memory was ever noticed. It is set with the state locked, so that a task
    /// that has received an answer since then sees it.
    suspected: AtomicBool,
    state: Mutex<ClockState>,
}

#[derive(Default)]
struct ClockState {
    /// Indices at which the master has been seen. A hold may have its grants under each of them.
    nodes: Vec<usize>,
    offsets: Option<Offsets>,
    /// Each later suspicion ends earlier: a new suspicion that ends later replaces those before it.
    suspicions: Vec<Suspicion>,
    wiped: Option<Instant>,
}

/// A step that was noticed.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    since: Instant,
    /// Longest lease that the step harms.
    harmed: Duration,
}

impl Suspicion {
    fn left(self, longest_lease: Duration, now: Instant) -> Duration {
        let lasts = self.harmed.min(longest_lease);
        lasts.saturating_sub(now.saturating_duration_since(self.since))
    }
}

impl ClockCheck {
    pub(in crate::node) fn new(
        events: Arc<NodeEvents>,
        lease_timing: LeaseTiming,
        steps: Arc<Steps>,
    ) -> Self {
        Self {
            events,
            lease_timing,
            steps,
            suspected: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Notes that the master is found at this index, too.
    pub(in crate::node) fn seen_at(&self, node: usize) {
        let mut state = self.state.lock();
        if !state.nodes.contains(&node) {
            state.nodes.push(node);
        }
    }

    /// Takes in the master's clock from an answer.
    pub(in crate::node) fn observe(&self, clock_us: u64, sent: Moment, received: Moment) {
        let mut state = self.state.lock();
        let Some(step) = state.observe(clock_us, sent, received, self.lease_timing.longest_lease) else {
            return;
        };
        let harmed = state.suspect_for(step, Instant::now());
        self.suspected.store(true, Ordering::Release);
        // The state is locked, so that no later answer counts before this one's step.
        if !step.gained.is_zero() {
            let no_vote_for = harmed.min(self.lease_timing.longest_lease);
            self.events.clock_stepped(step.gained, no_vote_for);
            for node in &state.nodes {
                self.steps.note(*node, received, step.gained);
            }
        }
    }

    /// Notes that the master's memory was wiped.
    pub(in crate::node) fn wiped(&self) {
        let mut state = self.state.lock();
        state.wiped = Some(Instant::now());
        self.suspected.store(true, Ordering::Release);
        drop(state);
        self.events.memory_wiped();
    }

    /// Time from `now` for which the master has no vote because its clock stepped.
    pub(in crate::node) fn clock_quarantine(&self, now: Instant) -> Duration {
        let left = |state: &ClockState| state.left(self.lease_timing.longest_lease, now);
        self.suspect().as_deref().map_or(Duration::ZERO, left)
    }

    /// Time from `now` for which the master has no vote because its memory was wiped.
    pub(in crate::node) fn memory_quarantine(&self, now: Instant) -> Duration {
        let Some(wiped) = self.suspect().and_then(|state| state.wiped) else {
            return Duration::ZERO;
        };
        let forgets_for = self.lease_timing.outlived;
        forgets_for.saturating_sub(now.saturating_duration_since(wiped))
    }

    /// Time for which the master still has no vote, if a step was noticed at `sent` or later.
    pub(in crate::node) fn suspected_since(&self, sent: Instant) -> Option<Duration> {
        let state = self.suspect()?;
        state
            .suspicions
            .last()
            .filter(|suspicion| suspicion.since >= sent)?;
        Some(state.left(self.lease_timing.longest_lease, Instant::now()))
    }

    /// Time for which the wipe still matters, if the memory was wiped at `sent` or later.
    pub(in crate::node) fn wiped_since(&self, sent: Instant) -> Option<Duration> {
        self.suspect()?.wiped.filter(|wiped| *wiped >= sent)?;
        Some(self.memory_quarantine(Instant::now()))
    }

    /// State, if it contains a step or a wipe.
    fn suspect(&self) -> Option<MutexGuard<'_, ClockState>> {
        self.suspected.load(Ordering::Acquire).then(|| self.state.lock())
    }
}

impl ClockState {
    fn observe(
        &mut self,
        clock_us: u64,
        sent: Moment,
        received: Moment,
        longest_lease: Duration,
    ) -> Option<Step> {
        if let Some(offsets) = &mut self.offsets {
            return offsets.read(clock_us, sent, received, longest_lease);
        }
        self.offsets = Some(Offsets::new(clock_us, sent));
        None
    }

    /// Suspects the master for the life of the longest lease that the step harms, and returns that time.
    fn suspect_for(&mut self, step: Step, since: Instant) -> Duration {
        let mut harmed = longest_with_less_drift(step.largest * 2, LEAST_DRIFT_FACTOR);
        if harmed.is_zero() {
            return harmed;
        }
        while let Some(last) = self.suspicions.last() {
            let left = last.left(Duration::MAX, since);
            if left > harmed && self.suspicions.len() < MOST_SUSPICIONS {
                break;
            }
            harmed = harmed.max(left);
            self.suspicions.pop();
        }
        self.suspicions.push(Suspicion { since, harmed });
        harmed
    }

    fn left(&self, longest_lease: Duration, now: Instant) -> Duration {
        let left = self
            .suspicions
            .iter()
            .map(|suspicion| suspicion.left(longest_lease, now));
        left.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
