//! `lost()` and the cancellation token speak at the end of the validity at the latest, and never while
//! any is left; a lapse is final, and no validity ends early without a word.
//!
//! Source: the crate's promise. Needs a host that is not suspended meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Case;
use crate::history::{HoldId, Kind};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let holds = &case.record.holds;
    let stops = |what: &str| what.contains("HostStops");
    let suspended = case
        .record
        .events
        .iter()
        .any(|event| matches!(&event.kind, Kind::Fault { what, .. } if stops(what)));
    let mut ends: BTreeMap<HoldId, (Duration, usize)> = BTreeMap::new();
    let mut lapsed: BTreeMap<HoldId, usize> = BTreeMap::new();
    // Seen to have ended early, and not told so yet.
    let mut silent: BTreeMap<HoldId, (Duration, usize)> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Signalled { hold, validity } if !validity.is_zero() => {
                let what = format!("{} is told lost with {validity:?} left", holds[*hold].owner);
                return Some((what, vec![place]));
            }
            Kind::Signalled { hold, .. } => {
                lapsed.insert(*hold, place);
            }
            Kind::Seen(sights) => {
                for sight in sights {
                    let owner = &holds[sight.hold].owner;
                    if !sight.validity.is_zero() {
                        if let Some(end) = lapsed.get(&sight.hold) {
                            return Some((format!("{owner} lives again"), vec![*end, place]));
                        }
                        ends.insert(sight.hold, (event.at + sight.validity, place));
                        continue;
                    }
                    if let Some((end, before)) = ends.get(&sight.hold)
                        && !sight.signalled
                        && !suspended
                    {
                        // Before the end, the word may be on its way at this moment.
                        let early = *silent.entry(sight.hold).or_insert((event.at, place));
                        let (since, before) = if event.at >= *end { (*end, *before) } else { early };
                        if event.at >= *end || event.at > since {
                            let late = event.at.saturating_sub(since);
                            let what = format!("{owner} has ended {late:?} ago and is told nothing");
                            return Some((what, vec![before, place]));
                        }
                    }
                    lapsed.entry(sight.hold).or_insert(place);
                }
            }
            _ => {}
        }
    }
    None
}
