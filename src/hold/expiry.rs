//! Expiry of a hold: it has one end on each of its masters.
//!
//! The masters that confirmed one round began to count the same lease after the same moment, so their ends
//! are the same until a clock steps. A step makes the end at that master earlier by its size, whether the
//! master's clock stepped or the client's. The hold ends with the quorum-th latest end. So a hold on exactly
//! a quorum ends earlier by the largest step of its masters. A hold with k masters to spare ignores the k
//! largest steps, and ends earlier by the next.
//!
//! If a client slept and its clock stood still, it sees every master step by the time that it slept. The hold loses
//! that time once the masters that have not answered are no quorum. The loss does not count earlier, because no
//! answer shows another master's clock.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::node_set::NodeSet;
use crate::time::clock::Moment;
use crate::time::steps::Steps;
use crate::time::validity::{Validity, ns};

/// Expiry that a confirmed round gave.
#[derive(Clone)]
pub(crate) struct HoldExpiry {
    validity: Validity,
    /// Masters that confirmed the round.
    on: NodeSet,
    needed: usize,
    steps: Arc<Steps>,
    /// Time that steps took off, in nanoseconds, and number of steps that this includes.
    lost: u64,
    noticed: u64,
}

impl HoldExpiry {
    /// Makes an expiry. `noticed` is the count of steps before the round began.
    pub(crate) fn new(
        validity: Validity,
        on: NodeSet,
        needed: usize,
        steps: &Arc<Steps>,
        noticed: u64,
    ) -> Self {
        Self {
            validity,
            on,
            needed,
            steps: Arc::clone(steps),
            lost: 0,
            noticed,
        }
    }

    /// Time at `now` until the quorum-th latest end.
    pub(crate) fn remaining(&mut self, now: Moment) -> Duration {
        let noticed = self.steps.count();
        if noticed != self.noticed {
            self.noticed = noticed;
            self.reckon();
        }
        self.validity.remaining_less(self.lost, now)
    }

    /// Whether the end at one master is later than `now`.
    pub(crate) fn is_valid_on(&self, node: usize, now: Moment) -> bool {
        let lost = || self.steps.since(node, self.validity.start());
        self.on.contains(node) && self.validity.remaining(now) > lost()
    }

    /// Adds a master that has confirmed the round that began at `start`, if that round still counts.
    pub(crate) fn confirm(&mut self, node: usize, start: Moment) {
        if self.validity.start() == start {
            self.on.insert(node);
            self.reckon();
        }
    }

    /// Replaces this expiry with that of a later round, unless this one lasts longer. Ends of different
    /// rounds are not combined.
    pub(crate) fn prolong(&mut self, mut later: Self, now: Moment) {
        if later.remaining(now) >= self.remaining(now) {
            *self = later;
        }
    }

    fn reckon(&mut self) {
        if self.steps.count() == 0 {
            return;
        }
        let start = self.validity.start();
        let mut lost: Vec<_> = self.on.iter().map(|node| self.steps.since(node, start)).collect();
        lost.sort_unstable();
        let decisive = self.needed.checked_sub(1).and_then(|rank| lost.get(rank));
        self.lost = decisive.copied().map_or(u64::MAX, ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::votes::Vote;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(since_start: u64) -> Moment {
        Moment::at(ms(since_start))
    }

    /// A second of validity on the first masters, from `start` on.
    fn ends(start: Moment, on: usize, needed: usize, steps: &Arc<Steps>) -> HoldExpiry {
        let validity = Validity::of_lease(start, ms(1002), 0.0);
        let on = NodeSet::of(&vec![Vote::Granted; on], |_| true);
        HoldExpiry::new(validity, on, needed, steps, steps.count())
    }

    #[test]
    fn the_quorum_th_latest_end_counts() {
        let steps = Arc::new(Steps::new(3));
        let mut ends = ends(at(100), 2, 2, &steps);
        assert_eq!(ends.remaining(at(100)), ms(1000));
        steps.note(0, at(200), ms(30));
        assert_eq!(ends.remaining(at(200)), ms(870));
        ends.confirm(2, at(99));
        assert_eq!(ends.remaining(at(200)), ms(870), "of another round");
        ends.confirm(2, at(100));
        assert_eq!(ends.remaining(at(200)), ms(900));
        steps.note(1, at(300), ms(10));
        assert_eq!(ends.remaining(at(300)), ms(790));
    }

    #[test]
    fn too_few_masters_give_nothing_once_a_clock_stepped() {
        let steps = Arc::new(Steps::new(3));
        let mut ends = ends(at(100), 1, 2, &steps);
        steps.note(2, at(200), ms(1));
        assert_eq!(ends.remaining(at(200)), Duration::ZERO);
    }

    #[test]
    fn the_end_at_a_master_comes_earlier_by_its_own_steps() {
        let steps = Arc::new(Steps::new(2));
        let ends = ends(at(100), 1, 1, &steps);
        assert!(ends.is_valid_on(0, at(1099)) && !ends.is_valid_on(0, at(1100)));
        assert!(!ends.is_valid_on(1, at(100)), "it did not confirm");
        steps.note(1, at(200), ms(500));
        steps.note(0, at(200), ms(30));
        assert!(ends.is_valid_on(0, at(1069)) && !ends.is_valid_on(0, at(1070)));
    }

    #[test]
    fn the_round_that_lasts_longer_counts() {
        let steps = Arc::new(Steps::new(1));
        let mut first = ends(at(100), 1, 1, &steps);
        first.prolong(ends(at(300), 1, 1, &steps), at(300));
        assert_eq!(first.remaining(at(300)), ms(1000));
        first.prolong(ends(at(200), 1, 1, &steps), at(300));
        assert_eq!(first.remaining(at(300)), ms(1000));
    }
}
