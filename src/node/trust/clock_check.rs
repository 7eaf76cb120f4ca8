//! Notices a master that may have forgotten what it granted while it went on running: its clock was
//! set forward, so that keys expired early, or its memory was wiped.
//!
//! Every answer that counts in a vote tells the master's wall clock, whose steps `offsets` finds. A step
//! harms two kinds of leases. Those of this client end earlier there by its size (see `hold::expiry`) . Those of
//! others the master may have forgotten: if a lease's drift is less than twice the step, the other half being what
//! the rates of the clocks may have added. So the master has no vote until the longest such lease has ended that can
//! have been granted before the step was noticed. That it concerns other clients' leases is also why this client's
//! own, its drift factor, and the lease that it asks for, say nothing about it.
//!
//! A client can only notice a step between two answers that it has heard itself, and only one of more
//! than the rates may have added between them: leases that are shorter than the time since it last
//! heard from the master are not covered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::offsets::{Offsets, Step};
use crate::events::{EventObserver, NodeEvents};
use crate::protocol::lease_timing::LeaseTiming;
use crate::time::clock::Moment;
use crate::time::steps::Steps;
use crate::time::validity::{LEAST_DRIFT_FACTOR, longest_with_less_drift};

/// Doubts that are kept apart.
const KEPT: usize = 8;

/// What is known of one run of one master.
#[derive(Debug)]
pub(crate) struct ClockCheck {
    events: Arc<NodeEvents>,
    lease_timing: LeaseTiming,
    steps: Arc<Steps>,
    /// Whether a step or a wiped memory was ever noticed. Set with the state locked: whoever has heard an
    /// answer since, sees it.
    suspected: AtomicBool,
    state: Mutex<ClockState>,
}

#[derive(Debug, Default)]
struct ClockState {
    /// Where it has been seen. Its grants may stand in a hold under each of these.
    nodes: Vec<usize>,
    offsets: Option<Offsets>,
    /// Each later one ends earlier: a new one that ends later takes the place of those before it.
    suspicions: Vec<Suspicion>,
    wiped: Option<Instant>,
}

/// A step was noticed.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    since: Instant,
    /// The longest lease that it harms.
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

    /// Takes in that the master is found as this node, too.
    pub(in crate::node) fn seen_at(&self, node: usize) {
        let mut state = self.state();
        if !state.nodes.contains(&node) {
            state.nodes.push(node);
        }
    }

    /// Takes in what an answer told of the master's clock.
    pub(in crate::node) fn hear(&self, clock_us: u64, sent: Moment, heard: Moment) {
        let mut state = self.state();
        let Some(step) = state.hear(clock_us, sent, heard, self.lease_timing.longest_lease) else {
            return;
        };
        let harmed = state.clock_quarantine(step, Instant::now());
        self.suspected.store(true, Ordering::Release);
        // With the state locked, so that no later answer is counted before what this one shows.
        if !step.gained.is_zero() {
            let no_vote_for = harmed.min(self.lease_timing.longest_lease);
            self.events.clock_stepped(step.gained, no_vote_for);
            for node in &state.nodes {
                self.steps.note(*node, heard, step.gained);
            }
        }
    }

    /// Takes in that the master's memory was wiped.
    pub(in crate::node) fn wiped(&self) {
        let mut state = self.state();
        state.wiped = Some(Instant::now());
        self.suspected.store(true, Ordering::Release);
        drop(state);
        self.events.memory_wiped();
    }

    /// For how much longer than `now` the master has no vote because its clock stepped.
    pub(in crate::node) fn clock_quarantine(&self, now: Instant) -> Duration {
        let left = |state: &ClockState| state.left(self.lease_timing.longest_lease, now);
        self.suspect().as_deref().map_or(Duration::ZERO, left)
    }

    /// For how much longer than `now` the master has no vote because its memory was wiped.
    pub(in crate::node) fn memory_quarantine(&self, now: Instant) -> Duration {
        let Some(wiped) = self.suspect().and_then(|state| state.wiped) else {
            return Duration::ZERO;
        };
        let forgets_for = self.lease_timing.outlived;
        forgets_for.saturating_sub(now.saturating_duration_since(wiped))
    }

    /// Whether a step was noticed at `sent` or later, and for how much longer the master is in doubt.
    pub(in crate::node) fn suspected_since(&self, sent: Instant) -> Option<Duration> {
        let state = self.suspect()?;
        state
            .suspicions
            .last()
            .filter(|clock_quarantine| clock_quarantine.since >= sent)?;
        Some(state.left(self.lease_timing.longest_lease, Instant::now()))
    }

    /// Whether the memory was wiped at `sent` or later, and for how much longer that matters.
    pub(in crate::node) fn wiped_since(&self, sent: Instant) -> Option<Duration> {
        self.suspect()?.wiped.filter(|wiped| *wiped >= sent)?;
        Some(self.memory_quarantine(Instant::now()))
    }

    /// The state, where there is anything in it that speaks against the master.
    fn suspect(&self) -> Option<MutexGuard<'_, ClockState>> {
        self.suspected.load(Ordering::Acquire).then(|| self.state())
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClockState {
    fn hear(&mut self, clock_us: u64, sent: Moment, heard: Moment, longest_lease: Duration) -> Option<Step> {
        if let Some(offsets) = &mut self.offsets {
            return offsets.read(clock_us, sent, heard, longest_lease);
        }
        self.offsets = Some(Offsets::new(clock_us, sent));
        None
    }

    /// Doubts the master for as long as the longest lease can live that the step harms; that long.
    fn clock_quarantine(&mut self, step: Step, since: Instant) -> Duration {
        let mut harmed = longest_with_less_drift(step.largest * 2, LEAST_DRIFT_FACTOR);
        if harmed.is_zero() {
            return harmed;
        }
        while let Some(last) = self.suspicions.last() {
            let left = last.left(Duration::MAX, since);
            if left > harmed && self.suspicions.len() < KEPT {
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
            .map(|clock_quarantine| clock_quarantine.left(longest_lease, now));
        left.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
