//! Times at which grants need something: one queue for all grants of a client, without a timer for each.
//!
//! Due times are rounded down to a grid. So grants that are due at about the same time are handled together,
//! while the grid spreads the work over the period.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::events::{Survey, log};
use crate::hold::Upkeep;
use crate::hold::grant::Grant;
use crate::protocol::field::Field;
use crate::protocol::kind::HoldKind;
use crate::time::validity::drift;
use crate::values::names::Names;

/// Number of moments over which the renewals of one period are spread.
const SPREAD: u32 = 64;
/// Shortest time between two tries to renew a grant after a failure.
const SHORTEST_RETRY: Duration = Duration::from_millis(5);

/// Longest sleep of the task. Timers stand still while the host is suspended, and validity does not. So while
/// there is any hold, the clocks are compared at this interval, once for all holds.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Grants of a process, ordered by the time at which they need something.
pub(crate) struct Schedule {
    /// Begin of the grid of due times.
    origin: Instant,
    drift_factor: f64,
    state: Mutex<ScheduleState>,
    /// Notified when a grant was added that is due before all others.
    pub(super) earlier: Notify,
}

#[derive(Default)]
struct ScheduleState {
    due: BTreeMap<(Instant, u64), Arc<Grant>>,
    /// Grants that are in flight, by their unique field.
    in_flight: BTreeMap<Field, Arc<Grant>>,
    next: u64,
    /// Whether a grant was added since the task last looked.
    watched: bool,
    /// End of the task's sleep; `None` while it sleeps until it is woken.
    sleeping_until: Option<Instant>,
}

impl Schedule {
    pub(crate) fn new(drift_factor: f64) -> Self {
        Self {
            origin: Instant::now(),
            drift_factor,
            state: Mutex::default(),
            earlier: Notify::new(),
        }
    }

    /// Watches a grant from now on.
    pub(crate) fn watch(&self, grant: &Arc<Grant>) {
        self.arrange(self.state.lock(), grant, true);
    }

    /// Schedules a grant for the time at which it needs something next. Look and placement happen under one mutex, as an earlier
    /// look may be out of date.
    fn arrange(&self, state: MutexGuard<'_, ScheduleState>, grant: &Arc<Grant>, confirmed: bool) {
        let now = Instant::now();
        let at = match grant.upkeep() {
            Upkeep::Renewal { lease, left } if confirmed => {
                // The renewal is due a third of the lease after the last one, or when no more than three
                // fifths of a new validity are left.
                let validity = lease.saturating_sub(drift(lease, self.drift_factor));
                let early = left.saturating_sub(validity * 3 / 5).min(lease / 3);
                on_grid(self.origin, now + early, lease / 3 / SPREAD)
            }
            Upkeep::Renewal { lease, left } => {
                // Several more tries fit in before the validity ends.
                let retry = (left / 8).max(SHORTEST_RETRY).min(lease / 3);
                log::not_renewed(&grant.names, retry);
                now + retry
            }
            Upkeep::Look(left) => now + left,
            Upkeep::Widening | Upkeep::CleanUp => now,
            Upkeep::Nothing => return Self::take_out(state, grant),
        };
        self.schedule(state, grant, at);
    }

    /// Stops watching a grant.
    pub(crate) fn forget(&self, grant: &Grant) {
        Self::take_out(self.state.lock(), grant);
    }

    fn take_out(mut state: MutexGuard<'_, ScheduleState>, grant: &Grant) {
        let due = grant.state().due.take();
        let taken_out = due.and_then(|due| state.due.remove(&due));
        drop(state);
        // The drop of a grant takes other mutexes, so it follows the unlock.
        drop(taken_out);
    }

    /// All watched grants.
    pub(crate) fn all(&self) -> Vec<Arc<Grant>> {
        let state = self.state.lock();
        state
            .due
            .values()
            .chain(state.in_flight.values())
            .cloned()
            .collect()
    }

    /// Whether a watched grant holds any of the names.
    pub(crate) fn is_held(&self, names: &Names) -> bool {
        let state = self.state.lock();
        let mut all = state.due.values().chain(state.in_flight.values());
        all.any(|grant| grant.names.shared_with(names).is_some() && grant.is_held())
    }

    /// Sums up the holds at this moment.
    pub(crate) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for grant in self.all().iter().filter(|grant| grant.is_held()) {
            survey.holds += 1;
            survey.permits += usize::from(grant.granted == HoldKind::Permit);
            survey.without_slack += usize::from(grant.is_without_slack());
            survey.oldest = survey
                .oldest
                .max(grant.look(|state, now| state.held_for(now)).unwrap_or_default());
        }
        survey
    }

    fn schedule(&self, mut state: MutexGuard<'_, ScheduleState>, grant: &Arc<Grant>, at: Instant) {
        state.next += 1;
        let due = (at, state.next);
        let before = grant.state().due.replace(due);
        if let Some(before) = before {
            state.due.remove(&before);
        }
        state.due.insert(due, Arc::clone(grant));
        state.watched = true;
        let sooner = state.sleeping_until.is_none_or(|until| at < until);
        if sooner {
            state.sleeping_until = Some(at);
            drop(state);
            self.earlier.notify_one();
        }
    }

    /// Takes the grants that need something now. They are in flight until [`reschedule`](Self::reschedule).
    /// Returns also the time of the next look: when the next grant is due, or after the longest sleep.
    ///
    /// If many short grants follow each other, the task sleeps on between them. Waking it for each would cost
    /// as much as half a round.
    pub(crate) fn take_due(&self) -> (Vec<Arc<Grant>>, Option<Instant>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let later = state.due.split_off(&(now, u64::MAX));
        let due: Vec<_> = std::mem::replace(&mut state.due, later).into_values().collect();
        for grant in &due {
            grant.state().due = None;
            state.in_flight.insert(grant.field, Arc::clone(grant));
        }
        let next = state.due.keys().next().map(|(at, _)| *at);
        let recently = std::mem::take(&mut state.watched);
        state.sleeping_until = (recently || next.is_some()).then(|| {
            let longest = now + LONGEST_SLEEP;
            next.map_or(longest, |next| next.min(longest))
        });
        (due, state.sleeping_until)
    }

    /// Looks at every grant again before it is due, because its end may have come nearer.
    pub(crate) fn look_again(&self) {
        let now = Instant::now();
        let (waiting, in_flight): (Vec<_>, Vec<_>) = {
            let state = self.state.lock();
            let waiting = state.due.iter().map(|((at, _), grant)| (*at, Arc::clone(grant)));
            (waiting.collect(), state.in_flight.values().cloned().collect())
        };
        for (at, grant) in waiting {
            grant.changed.notify_waiters();
            if now + grant.left() <= at {
                self.watch(&grant);
            }
        }
        for grant in in_flight {
            grant.changed.notify_waiters();
        }
    }

    /// Puts a grant back that was due.
    pub(crate) fn reschedule(&self, grant: &Arc<Grant>, renewed: bool) {
        let mut state = self.state.lock();
        state.in_flight.remove(&grant.field);
        // Under the same mutex: a task that closes the client finds the grant in one of both places.
        self.arrange(state, grant, renewed);
    }

    /// Removes a grant that was due and needs nothing any more.
    pub(crate) fn done(&self, grant: &Arc<Grant>) {
        self.state.lock().in_flight.remove(&grant.field);
    }
}

/// Last moment of the grid that is not after `at`.
fn on_grid(origin: Instant, at: Instant, step: Duration) -> Instant {
    let since = at.saturating_duration_since(origin);
    let step = step.max(Duration::from_millis(1)).as_nanos();
    let rest = u64::try_from(since.as_nanos() % step).unwrap_or(0);
    at.checked_sub(Duration::from_nanos(rest)).unwrap_or(at)
}
