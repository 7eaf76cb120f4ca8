//! Known facts about a hold with guards that are out.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use multilock::Leadership;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::guard::{Guard, LockKind};
use crate::history::HoldId;

/// A guard that is out.
struct Entered {
    guard: Weak<Guard>,
    is_exclusive: bool,
    /// Whether it has its hold renewed.
    renews: bool,
}

/// Known facts about a guard that is taken in for a moment.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    is_exclusive: bool,
    pub(crate) renews: bool,
}

/// A hold while anybody has a guard of it, and after that where its names are kept.
#[derive(Default)]
pub(crate) struct Out {
    /// Kind for which it was granted.
    pub(crate) kind: LockKind,
    guards: Vec<Entered>,
    /// Guards that are in although nobody has them: leaked, or lent to a body; and how many of these are exclusive.
    unseen: u64,
    unseen_exclusive: u64,
    /// Until when nobody else may have it although nobody has it any more: it was leaked, or its names are kept.
    pub(crate) leaked_until: Option<Duration>,
    /// Until when its names are kept if it is given up before.
    pub(crate) kept_until: Duration,
    pub(crate) watch: Option<AbortOnDropHandle<()>>,
    /// Token that its first guard gave at once: one that is asked for later need not tell by itself.
    pub(crate) signal: Option<CancellationToken>,
    /// The term of a leader whose body runs.
    pub(crate) term: Option<Leadership>,
}

impl Out {
    pub(crate) fn is_signalled(&self) -> bool {
        self.signal.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    pub(crate) fn enter(&mut self, guard: &Arc<Guard>, kind: LockKind, renews: bool) {
        self.guards.push(Entered {
            guard: Arc::downgrade(guard),
            is_exclusive: kind != LockKind::Read,
            renews,
        });
        // From here on its validity may be prolonged.
        self.leaked_until = None;
    }

    /// Takes a guard out that is about to change, or to go.
    pub(crate) fn take(&mut self, guard: &Arc<Guard>) -> Known {
        let is_it = |entered: &Entered| std::ptr::eq(entered.guard.as_ptr(), Arc::as_ptr(guard));
        let at = self.guards.iter().position(is_it).expect("given out");
        let Entered {
            is_exclusive, renews, ..
        } = self.guards.swap_remove(at);
        self.guards.retain(|other| other.guard.strong_count() > 0);
        Known { is_exclusive, renews }
    }

    /// Counts one more guard that no task has.
    pub(crate) fn lend(&mut self, kind: LockKind) {
        self.unseen += 1;
        self.unseen_exclusive += u64::from(kind != LockKind::Read);
    }

    /// Goes on counting a guard that no task has any more.
    pub(crate) fn keep(&mut self, known: Known) {
        self.unseen += 1;
        self.unseen_exclusive += u64::from(known.is_exclusive);
    }

    pub(crate) fn lent_is_back(&mut self, kind: LockKind) {
        // Where its client was closed meanwhile, nothing is known of it any more.
        self.unseen = self.unseen.saturating_sub(1);
        let was_exclusive = u64::from(kind != LockKind::Read);
        self.unseen_exclusive = self.unseen_exclusive.saturating_sub(was_exclusive);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty() && self.unseen == 0
    }

    pub(crate) fn has_guards(&self) -> bool {
        !self.guards.is_empty()
    }

    pub(crate) fn guard(&self) -> Option<Arc<Guard>> {
        self.guards.iter().find_map(|entered| entered.guard.upgrade())
    }

    pub(crate) fn count(&self) -> u64 {
        let there = |entered: &&Entered| entered.guard.strong_count() > 0;
        self.guards.iter().filter(there).count() as u64 + self.unseen
    }

    /// A quorum has said that it keeps the names for as long as was asked for.
    pub(crate) fn kept(&mut self) {
        if self.leaked_until.is_some() {
            self.leaked_until = Some(self.kept_until);
        }
    }

    pub(crate) fn is_renewed(&self) -> bool {
        let renews = |entered: &Entered| entered.renews && entered.guard.strong_count() > 0;
        self.guards.iter().any(renews)
    }

    /// Kind that it has now. A hold that was granted to write only reads once none of its guards writes.
    pub(crate) fn kind_now(&self) -> LockKind {
        let writes = self.unseen_exclusive > 0 || self.guards.iter().any(|entered| entered.is_exclusive);
        match self.kind {
            LockKind::Write if !writes => LockKind::Read,
            kind => kind,
        }
    }
}

/// The last guard of a hold goes, which was valid for so much longer. Its names are kept for as long as was asked for; but
/// until masters have heard of that, for as long as it was valid at most.
pub(crate) fn close(out: &mut BTreeMap<HoldId, Out>, hold: HoldId, now: Duration, left: Duration) {
    match out.get_mut(&hold) {
        Some(entry) if !left.is_zero() && entry.kept_until > now => {
            let kind = entry.kind;
            entry.lend(kind);
            entry.leaked_until = Some(entry.kept_until.min(now + left));
        }
        _ => drop(out.remove(&hold)),
    }
}
