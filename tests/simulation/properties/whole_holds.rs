//! No hold is given up early. An inner guard that is left, and a re-entry that fails or is cancelled, leave the outer
//! hold whole. Its count stays right. A quorum of masters keeps its field, in the mode that it has, for as long as it
//! is valid. If it reads, its entry among the readers lasts as long.
//!
//! Source: Redisson's reentrancy; the crate's promise. Needs nothing for the count. For the field, needs masters that
//! keep all acknowledged data: a master that forgot since the hold began does not count, nor does a master whose clock
//! stepped.

use std::collections::BTreeMap;

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let holds = &case.record.holds;
    let mut granted = BTreeMap::new();
    let mut forgotten: Vec<(usize, usize)> = Vec::new();
    let forced = case.forced();
    for (place, event) in case.record.events.iter().enumerate() {
        forgotten.extend(event.kind.stepped().map(|master| (place, master)));
        match &event.kind {
            Kind::Granted {
                hold, again: false, ..
            } => {
                granted.insert(*hold, place);
            }
            Kind::Fault { forgets, .. } => {
                forgotten.extend(forgets.iter().map(|master| (place, *master)));
            }
            Kind::Seen(sights) => {
                for sight in sights {
                    let facts = &holds[sight.hold];
                    let events = || {
                        let grant = granted.get(&sight.hold).copied();
                        grant.into_iter().chain([place]).collect()
                    };
                    if sight.count != sight.expected {
                        let what = format!(
                            "{} counts {} guards, and {} are out",
                            facts.owner, sight.count, sight.expected
                        );
                        return Some((what, events()));
                    }
                    let is_forced = forced.get(facts.owner.as_str()).is_some_and(|at| *at < place);
                    if sight.validity.is_zero() || is_forced || !case.class.keeps_assumptions() {
                        continue;
                    }
                    let mut missing: Vec<_> = forgotten
                        .iter()
                        .filter(|(at, _)| *at > facts.began)
                        .map(|(_, master)| *master)
                        .collect();
                    missing.sort_unstable();
                    missing.dedup();
                    if sight.on + missing.len() < facts.needed {
                        let what = format!(
                            "{} has {:?} left and is on {} masters of {} needed",
                            facts.owner, sight.validity, sight.on, facts.needed
                        );
                        return Some((what, events()));
                    }
                }
            }
            _ => {}
        }
    }
    None
}
