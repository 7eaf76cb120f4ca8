//! While somebody waits for a name that nobody holds, calls bring in the next at once: nobody has to wait for a timer.
//!
//! Source: the guarantees on waiting. Needs masters that answer and have a vote, so it is judged after the faults, when
//! every client asks for every name at once. The time counts from the end of the last hold. A master that has forgotten, or
//! whose clock was set forward or runs off, may have no vote for the longest lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Case;
use crate::history::{Event, Kind};
use crate::run::ASKING;

/// Interval at which a waiter behind a dead one asks by itself. No call comes when a lease ends, and while a name is
/// held nobody notices that the waiter ahead has died.
const BY_ITSELF: Duration = Duration::from_secs(5);

/// From one turn to the next: some rounds, each with as much delay as there is between clients and masters, and far
/// less than any timer of a waiter.
const HAND_OFF: Duration = Duration::from_millis(500);

/// Rate of an undisturbed clock against a client's, in parts per million. A client that was idle for longer than a lease
/// takes what is beyond it as a step.
const UNDISTURBED: u32 = 500;

/// Longest pause of a waiter that cannot win because votes are missing.
const PAUSE: Duration = Duration::from_secs(1);

/// End of the longest stay of a name that was kept after its guard. Masters end it by their own clocks, so a master
/// with a clock that was set back afterwards ends it later.
fn kept_until(events: &[Event]) -> Duration {
    let kept = events.iter().enumerate().filter_map(|(place, event)| {
        let Kind::Granted { at_least, .. } = &event.kind else {
            return None;
        };
        let is_kept = !at_least.is_zero();
        is_kept.then(|| event.at + *at_least + set_back(&events[place..]))
    });
    kept.max().unwrap_or_default()
}

/// Longest time by which any one master's clock was set back in all.
fn set_back(events: &[Event]) -> Duration {
    let mut by_master: BTreeMap<usize, Duration> = BTreeMap::new();
    for event in events {
        if let Kind::SetBack { master, by } = &event.kind {
            *by_master.entry(*master).or_default() += *by;
        }
    }
    by_master.into_values().max().unwrap_or_default()
}

/// Time until which masters with a clock that was set back keep a name of a lost hold. By its holder's clock, the hold
/// ended earlier.
fn left_until(events: &[Event], name: &str) -> Duration {
    let mut set_back = BTreeSet::new();
    let mut ends = BTreeMap::new();
    for event in events {
        match &event.kind {
            Kind::SetBack { master, by } => {
                set_back.insert(*master);
                if let Some(end) = ends.get_mut(master) {
                    *end += *by;
                }
            }
            Kind::Executed { master, after, .. } => {
                for stored in after.iter().filter(|stored| stored.name == name) {
                    match stored.ends {
                        Some(end) => ends.insert(*master, end),
                        None => ends.remove(master),
                    };
                }
            }
            _ => {}
        }
    }
    let late = ends.into_iter().filter(|(master, _)| set_back.contains(master));
    late.map(|(_, end)| end).max().unwrap_or_default()
}

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let events = &case.record.events;
    let begun = |kind: &Kind| matches!(kind, Kind::Phase(phase) if *phase == ASKING);
    let begun = events.iter().position(|event| begun(&event.kind))?;
    let shakes = |kind: &Kind| match kind {
        Kind::Fault { forgets, .. } => !forgets.is_empty(),
        // A client that was idle since then notices it only now.
        kind => kind.stepped().is_some(),
    };
    let runs_off = case.rates.iter().any(|rate| rate.unsigned_abs() > UNDISTURBED);
    let some_are_doubted = runs_off || events.iter().any(|event| shakes(&event.kind));
    let doubt = some_are_doubted.then_some(case.record.longest_lease + PAUSE);
    let within = HAND_OFF + doubt.unwrap_or_default();
    let kept = kept_until(events);
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, event) in events.iter().enumerate().skip(begun) {
        let Kind::Progress { name, error: None } = &event.kind else {
            continue;
        };
        let before = last.insert(name, place).unwrap_or(begun);
        let left = left_until(&events[..begun], name);
        let is_left = left > events[begun].at;
        let took = event.at.saturating_sub(events[before].at.max(kept).max(left));
        if took > within + if is_left { BY_ITSELF } else { Duration::ZERO } {
            let what = format!("nobody had {name} for {took:?}, although all waited for it");
            return Some((what, vec![before, place]));
        }
    }
    None
}
