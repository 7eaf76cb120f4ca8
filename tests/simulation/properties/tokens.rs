//! Fencing tokens of holds that do not read are unique, and rise in the order of their grants. A grant that began after
//! another was complete has the larger token. If locks exclude each other, so has a grant that was only complete later.
//! A hold that was handed on began, in this sense, when the masters were asked. A resource that checks tokens therefore
//! rejects every stale write, and no newer one.
//!
//! Readers may share a token. It is not smaller than the token of any writer before them, and smaller than the token of
//! any writer after them.
//!
//! Source: the crate's promise; Kleppmann, "How to do distributed locking". Needs nothing of clocks, pauses or delays,
//! as long as few masters lose their fence keys in between: fewer than the quorums have in common. With quarantine, and
//! wall clocks within half of it, not even that is needed.

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
                    // A master that lost its fence keys in between no longer knows either of the two tokens.
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
                    // If locks exclude each other, all grants have an order, also grants that were under way together.
                    // Only a holder that was forced out may still be granted late.
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
