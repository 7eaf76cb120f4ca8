//! Once a force has returned, a quorum of masters has freed the name from the holders that it drove out.
//!
//! Source: the crate's documentation of `force_release`. Needs masters that remember the owners that they keep out.

use std::collections::BTreeMap;

use super::Case;
use crate::history::{Kind, Stored};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    if !case.class.keeps_assumptions() {
        return None;
    }
    let nodes = case.record.nodes;
    let mut known: BTreeMap<(usize, &str), (usize, &Stored)> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Fault { forgets, .. } => known.retain(|(master, _), _| !forgets.contains(master)),
            Kind::Deleted { name, .. } => known.retain(|(_, other), _| other != name),
            Kind::Executed { master, after, .. } => {
                known.extend(
                    after
                        .iter()
                        .map(|key| ((*master, key.name.as_str()), (place, key))),
                );
            }
            Kind::Forced {
                name,
                former,
                confirmed: true,
                ..
            } => {
                for hold in former {
                    let owner = &case.record.holds[*hold].owner;
                    let keeps = |master: &usize| {
                        let (at, key) = known.get(&(*master, name.as_str()))?;
                        let ends = Some(event.at + case.slipped(*master, *at, place));
                        (key.owners.contains(owner) && key.ends > ends).then_some(*at)
                    };
                    let kept: Vec<usize> = (0..nodes).filter_map(|master| keeps(&master)).collect();
                    if nodes - kept.len() < nodes / 2 + 1 {
                        let what = format!("{owner} still has {name} on {} masters", kept.len());
                        return Some((what, kept.into_iter().chain([place]).collect()));
                    }
                }
            }
            _ => {}
        }
    }
    None
}
