//! When which grant needs something: one queue for all that a process holds, and no timer for each.
//!
//! Due times are rounded down to a grid, so that what falls due about the same time is seen to
//! together, while the grid keeps the work spread over the period.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::events::log;
use crate::hold::Upkeep;
use crate::hold::grant::Grant;
use crate::protocol::field::Field;
use crate::values::names::Names;

/// Moments over which the renewals of one period are spread.
const SPREAD: u32 = 64;
/// The shortest time between two tries to renew a grant whose renewal failed.
const SHORTEST_RETRY: Duration = Duration::from_millis(5);

/// Timers stand still while the host is suspended, and validity does not: while anything is held, the
/// clocks are compared this often, for all of them at once.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The grants of a process, by when they need something.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Where the grid of due times begins.
    origin: Instant,
    state: Mutex<ScheduleState>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct ScheduleState {
    due: BTreeMap<(Instant, u64), Arc<Grant>>,
    /// Holds that are in flight, by the field that each alone has.
    in_flight: BTreeMap<Field, Arc<Grant>>,
    next: u64,
    /// Whether a grant was put there since the task last looked.
    watched: bool,
    /// Until when the task sleeps; `None` for as long as nobody wakes it.
    sleeping_until: Option<Instant>,
}

/// Holds at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) holds: usize,
    /// Number of holds that stand on a bare quorum, because the other masters were not asked.
    pub(crate) bare: usize,
    /// Age of the oldest hold that is not to last by design.
    pub(crate) oldest: Duration,
}

impl Schedule {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            state: Mutex::default(),
            earlier: Notify::new(),
        }
    }

    /// Looks after a grant from now on.
    pub(crate) fn watch(&self, grant: &Arc<Grant>) {
        self.arrange(grant, true);
    }

    /// Puts a grant where it is found when it next needs something.
    fn arrange(&self, grant: &Arc<Grant>, confirmed: bool) {
        let now = Instant::now();
        // One look and one place at a time: what was seen before may be out of date.
        let state = self.state();
        let at = match grant.upkeep() {
            Upkeep::Renewal { lease, left } if confirmed => {
                // A third of the lease after the last renewal, or when no more than three fifths of it are left.
                let early = left.saturating_sub(lease * 3 / 5).min(lease / 3);
                on_grid(self.origin, now + early, lease / 3 / SPREAD)
            }
            Upkeep::Renewal { lease, left } => {
                // Nothing is given away before the validity ends: several more tries fit in.
                let retry = (left / 8).max(SHORTEST_RETRY).min(lease / 3);
                log::not_renewed(&grant.names, retry);
                now + retry
            }
            Upkeep::Look(left) => now + left,
            Upkeep::Widening { .. } | Upkeep::CleanUp => now,
            Upkeep::Nothing => return Self::take_out(state, grant),
        };
        self.schedule(state, grant, at);
    }

    /// Looks after it no longer.
    pub(crate) fn forget(&self, grant: &Grant) {
        Self::take_out(self.state(), grant);
    }

    fn take_out(mut state: MutexGuard<'_, ScheduleState>, grant: &Grant) {
        let due = grant.set_due(None);
        let taken_out = due.and_then(|due| state.due.remove(&due));
        drop(state);
        // What falls takes locks of its own.
        drop(taken_out);
    }

    /// Every grant that is looked after.
    pub(crate) fn all(&self) -> Vec<Arc<Grant>> {
        let state = self.state();
        state
            .due
            .values()
            .chain(state.in_flight.values())
            .cloned()
            .collect()
    }

    /// Whether one of them holds any of the names.
    pub(crate) fn is_held(&self, names: &Names) -> bool {
        let state = self.state();
        let mut all = state.due.values().chain(state.in_flight.values());
        all.any(|grant| grant.names.shared_with(names).is_some() && grant.is_held())
    }

    /// Sums up the holds at this moment.
    pub(crate) fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for grant in self.all().iter().filter(|grant| grant.is_held()) {
            survey.holds += 1;
            survey.bare += usize::from(grant.is_bare());
            survey.oldest = survey.oldest.max(grant.held_for().unwrap_or_default());
        }
        survey
    }

    fn schedule(&self, mut state: MutexGuard<'_, ScheduleState>, grant: &Arc<Grant>, at: Instant) {
        state.next += 1;
        let due = (at, state.next);
        if let Some(before) = grant.set_due(Some(due)) {
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

    /// The grants that need something now, and when to look again: when the next one does, or after the
    /// longest sleep. They are in flight until [`reschedule`](Self::reschedule).
    ///
    /// Where many grants are short, one after the other, the task sleeps on between them: it would cost as
    /// much as half a round to be woken for each.
    pub(crate) fn take_due(&self) -> (Vec<Arc<Grant>>, Option<Instant>) {
        let now = Instant::now();
        let mut state = self.state();
        let later = state.due.split_off(&(now, u64::MAX));
        let due: Vec<_> = std::mem::replace(&mut state.due, later).into_values().collect();
        for grant in &due {
            grant.set_due(None);
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

    /// Looks at every grant again, whose end may have come nearer, also before it falls due.
    pub(crate) fn look_again(&self) {
        let now = Instant::now();
        let (waiting, in_flight): (Vec<_>, Vec<_>) = {
            let state = self.state();
            let waiting = state.due.iter().map(|((at, _), grant)| (*at, Arc::clone(grant)));
            (waiting.collect(), state.in_flight.values().cloned().collect())
        };
        for (at, grant) in waiting {
            grant.wake();
            if now + grant.left() <= at {
                self.arrange(&grant, true);
            }
        }
        for grant in in_flight {
            grant.wake();
        }
    }

    /// Puts a grant back that was due.
    pub(crate) fn reschedule(&self, grant: &Arc<Grant>, renewed: bool) {
        self.state().in_flight.remove(&grant.field);
        self.arrange(grant, renewed);
    }

    /// A grant that was due needs nothing any more.
    pub(crate) fn done(&self, grant: &Arc<Grant>) {
        self.state().in_flight.remove(&grant.field);
    }

    /// Resolves when a grant has come that is due before all others were.
    pub(crate) async fn earlier(&self) {
        self.earlier.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, ScheduleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last moment of the grid that is not after `at`.
fn on_grid(origin: Instant, at: Instant, step: Duration) -> Instant {
    let since = at.saturating_duration_since(origin);
    let step = step.max(Duration::from_millis(1)).as_nanos();
    let rest = u64::try_from(since.as_nanos() % step).unwrap_or(0);
    at.checked_sub(Duration::from_nanos(rest)).unwrap_or(at)
}
