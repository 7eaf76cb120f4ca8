//! Fencing tokens of those who do not read are unique, and rise with the order in which grants were had: one that began after
//! another was complete has the larger token, and where locks exclude each other so has one that only was
//! complete later. A hold that was passed on began, for that, when the masters were asked. So a resource that checks them rejects every stale write, and no newer one.
//! Readers may share a token: it is not smaller than that of any writer before them, and smaller than that of any after
//! them.
//!
//! Source: the crate's promise; Kleppmann, "How to do distributed locking". Needs nothing of clocks,
//! pauses or delays, as long as fewer masters lose their fence keys in between than the quorums have in
//! common; with quarantine, and wall clocks within half of it, not even that.

use super::Case;
use crate::guard::LockKind;
use crate::history::{HoldId, Kind};
use crate::plan::Class;

struct Grant {
    place: usize,
    hold: HoldId,
}

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let (holds, events) = (&case.record.holds, &case.record.events);
    let mut grants: Vec<Grant> = Vec::new();
    let forced = case.forced();
    let mut fences_lost: Vec<(usize, usize)> = Vec::new();
    for (place, event) in events.iter().enumerate() {
        match &event.kind {
            Kind::Fault { forgets_fences, .. } => {
                fences_lost.extend(forgets_fences.iter().map(|master| (place, *master)));
            }
            Kind::Granted {
                hold,
                again: true,
                token,
                ..
            } if holds[*hold].token != *token => {
                return Some(("a token changed at re-entry".into(), vec![place]));
            }
            Kind::Granted {
                hold,
                again: false,
                token,
                ..
            } if *token != 0 => {
                let new = &holds[*hold];
                for old in &grants {
                    let known = &holds[old.hold];
                    if !known.names.iter().any(|name| new.names.contains(name)) {
                        continue;
                    }
                    // Whoever lost its fence keys in between tells neither of the two.
                    let mut lost: Vec<_> = fences_lost
                        .iter()
                        .filter(|(at, _)| *at > known.began && *at < place)
                        .map(|(_, master)| *master)
                        .collect();
                    lost.sort_unstable();
                    lost.dedup();
                    let common = (known.needed + new.needed).saturating_sub(case.record.nodes);
                    if lost.len() >= common && case.class != Class::Forgetful {
                        continue;
                    }
                    // Where locks exclude each other, all grants have an order, also those that were
                    // under way together; only who was forced out may still be granted late.
                    let is_forced = |owner: &str| forced.get(owner).is_some_and(|at| *at < place);
                    let ordered =
                        case.class.keeps_assumptions() && !is_forced(&known.owner) && !is_forced(&new.owner);
                    let is_passed = known.owner == new.owner;
                    let follows = ordered || is_passed || old.place < new.began;
                    let wrong = match (known.kind, new.kind) {
                        (LockKind::Read, LockKind::Read) => false,
                        (_, LockKind::Read) => follows && known.token > *token,
                        (LockKind::Read, _) => follows && known.token >= *token,
                        _ => known.token == *token || follows && known.token >= *token,
                    };
                    if wrong {
                        let what = format!(
                            "{} got token {token} after {} had {}",
                            new.owner, known.owner, known.token
                        );
                        return Some((what, vec![old.place, new.began, place]));
                    }
                }
                grants.push(Grant { place, hold: *hold });
            }
            _ => {}
        }
    }
    None
}
