//! While all masters can be reached, a limited number of locks is granted to others during one wait: one for each task
//! that waits, and one for each client. The latter may have had a round under way.
//!
//! Holds that are handed on from task to task inside a process count as one.
//!
//! Source: the guarantees on overtaking. Needs clocks of masters that show the same, and no faults, so it is judged in
//! the opening of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Case;
use crate::history::Kind;
use crate::opening::{OPENED, OPENING, REACHED};

/// Longest pause of a waiter that could not win, or has not drawn its ticket yet.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let record = case.record;
    let at = |phase| {
        let is_it = |kind: &Kind| *kind == Kind::Phase(phase);
        record.events.iter().position(|event| is_it(&event.kind))
    };
    let (begun, reached, opened) = (at(OPENING)?, at(REACHED)?, at(OPENED)?);
    let counts_from = record.events[reached].at + PAUSE;
    let events = || record.events.iter().enumerate().take(opened).skip(begun);
    let clients: BTreeSet<_> = events().filter_map(|(_, event)| event.client).collect();
    let mut most = 0;
    // Calls that wait: the place at which each began, and the grants to other owners since then.
    let mut waiting: BTreeMap<usize, (usize, Vec<usize>)> = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut worst: Option<(usize, Vec<usize>)> = None;
    for (place, event) in events() {
        match &event.kind {
            Kind::Begun { op, .. } => {
                waiting.insert(*op, (place, Vec::new()));
                most = most.max(waiting.len());
            }
            Kind::Refused { op, .. } | Kind::Cancelled { op } => drop(waiting.remove(op)),
            Kind::Granted { op, hold, .. } => {
                waiting.remove(op);
                if !known.insert(&record.holds[*hold].owner) || event.at < counts_from {
                    continue;
                }
                for (since, others) in waiting.values_mut() {
                    others.push(place);
                    if worst.as_ref().is_none_or(|(_, worst)| others.len() > worst.len()) {
                        worst = Some((*since, others.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    let (since, others) = worst?;
    let allowed = most + clients.len();
    (others.len() > allowed).then(|| {
        let (count, last) = (others.len(), others.last().copied());
        let what = format!("one waits while others have the lock {count} times, {allowed} at most");
        (what, [Some(since), last].into_iter().flatten().collect())
    })
}
