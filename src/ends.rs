//! Until when a hold may be relied on: there is an end for every master that it stands on.
//!
//! The masters that confirmed one round began to count the same lease after the same moment, so their
//! ends are the same until a clock steps. A step takes its size off the end at that master, whoever's
//! clock it was; the hold ends with the quorum-th latest of them. So one that stands on exactly a quorum
//! ends earlier by the largest step of all its masters; one that stands on more by what so many of them
//! stepped that no quorum is left beyond it.
//!
//! A client that was asleep, and whose clock stood still, sees every master step by the time that it
//! slept. It has lost that much as soon as it has heard from so many of its masters that no quorum is
//! left among the others, and not before: no answer tells anything about another master.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::sheet::Places;
use crate::steps::Steps;
use crate::validity::{Validity, ns};

/// What a round gave whose quorum has confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    validity: Validity,
    /// The masters that confirmed it.
    on: Places,
    needed: usize,
    steps: Arc<Steps>,
    /// What steps took off, in nanoseconds, and how many had been noticed by then.
    lost: u64,
    noticed: u64,
}

impl Ends {
    /// `noticed` is the count of steps before the round began.
    pub(crate) fn new(
        validity: Validity,
        on: Places,
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

    /// What is left at `now` until the quorum-th latest end.
    pub(crate) fn remaining(&mut self, now: Moment) -> Duration {
        let noticed = self.steps.count();
        if noticed != self.noticed {
            self.noticed = noticed;
            self.reckon();
        }
        self.validity.remaining_less(self.lost, now)
    }

    /// Whether anything is left at `now` until the end at one master.
    pub(crate) fn stand_on(&self, place: usize, now: Moment) -> bool {
        let lost = || self.steps.since(place, self.validity.start());
        self.on.contains(place) && self.validity.remaining(now) > lost()
    }

    /// Another master has confirmed the round that began at `start`, if it is still that which counts.
    pub(crate) fn confirm(&mut self, place: usize, start: Moment) {
        if self.validity.start() == start {
            self.on.insert(place);
            self.reckon();
        }
    }

    /// Takes over what a later round gives, unless this one lasts longer. Ends of different rounds are not
    /// combined.
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
        let mut lost: Vec<_> = self
            .on
            .iter()
            .map(|place| self.steps.since(place, start))
            .collect();
        lost.sort_unstable();
        let decisive = self.needed.checked_sub(1).and_then(|place| lost.get(place));
        self.lost = decisive.copied().map_or(u64::MAX, ns);
    }
}
