//! At any instant at most one hold of a name has validity left.
//!
//! Source: what a lock is; the Redlock page's safety property. Needs clocks that run at the same rate,
//! masters that keep what they acknowledged or are in quarantine, one list of masters, no eviction. Who
//! was forced out by an operator learns of it late, and is left out.

use std::collections::BTreeMap;

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    if !case.class.keeps_assumptions() {
        return None;
    }
    let holds = &case.record.holds;
    let mut granted = BTreeMap::new();
    let mut forced: Vec<(usize, &str)> = Vec::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Granted {
                hold, again: false, ..
            } => {
                granted.insert(*hold, place);
            }
            Kind::Executed {
                script: "force",
                after,
                ..
            } => forced.extend(after.iter().map(|key| (place, key.name.as_str()))),
            Kind::Seen(sights) => {
                let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
                for sight in sights.iter().filter(|sight| !sight.validity.is_zero()) {
                    for name in &holds[sight.hold].names {
                        let began = holds[sight.hold].began;
                        if forced.iter().any(|(at, of)| *at > began && of == name) {
                            continue;
                        }
                        if let Some(other) = holders.insert(name, sight.hold) {
                            let what = format!(
                                "{} and {} hold {name} at the same time",
                                holds[other].owner, holds[sight.hold].owner
                            );
                            let events = [granted.get(&other), granted.get(&sight.hold), Some(&place)];
                            return Some((what, events.into_iter().flatten().copied().collect()));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    None
}
