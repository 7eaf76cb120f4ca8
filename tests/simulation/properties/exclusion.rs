//! At any instant at most one hold of a name has validity left, unless all of them only read. Nobody has a name that
//! another holder keeps for a minimum time.
//!
//! Source: the definition of a lock; the Redlock page's safety property; the documentation of `at_least`. Needs clocks
//! that run at the same rate, and masters that keep all acknowledged data or are in quarantine. Needs one list of
//! masters, and no eviction. A holder that an operator forced out learns of it late, and is left out.

use std::collections::BTreeMap;

use super::Case;
use crate::guard::LockKind;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    if !case.class.keeps_assumptions() {
        return None;
    }
    let holds = &case.record.holds;
    let mut granted = BTreeMap::new();
    let forced = case.forced();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Granted {
                hold, again: false, ..
            } => {
                granted.insert(*hold, place);
            }
            Kind::Seen(sights) => {
                // One of the holders that were seen of a name, and whether all of them read.
                let mut holders: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
                let is_forced = |owner: &str| forced.get(owner).is_some_and(|at| *at < place);
                for sight in sights.iter().filter(|sight| !sight.validity.is_zero()) {
                    if is_forced(&holds[sight.hold].owner) {
                        continue;
                    }
                    for name in &holds[sight.hold].names {
                        let reads = sight.kind == LockKind::Read;
                        let seen = holders.insert(name, (sight.hold, reads));
                        if let Some((other, all_read)) = seen
                            && !(all_read && reads)
                        {
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
