//! A name that an operator took away stays taken: on a master that keeps an owner out, that owner is not
//! granted or extended again, and no hold that was forced out is prolonged.
//!
//! Source: the crate's documentation of `force_release`. Needs nothing but masters that remember the owners that they
//! keep out, or are in quarantine after forgetting them. A master keeps owners out for as long as a lease could last
//! when they were marked. Slips of its clock shorten that time.

use std::time::Duration;

use super::Case;
use crate::history::{HoldId, Kind, Stored};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let (holds, longest) = (&case.record.holds, case.record.longest_lease);
    // Place and time of the force, and the hold.
    let mut forced: Vec<(usize, Duration, HoldId)> = Vec::new();
    // Place of the mark, master, owner, name, and end of the mark.
    let mut marked: Vec<(usize, usize, &str, &str, Duration)> = Vec::new();
    for (place, event) in case.record.events.iter().enumerate() {
        let now = event.at;
        match &event.kind {
            Kind::Forced {
                former,
                confirmed: true,
                ..
            } => forced.extend(former.iter().map(|hold| (place, now, *hold))),
            Kind::Seen(sights) => {
                for sight in sights.iter().filter(|sight| !sight.validity.is_zero()) {
                    // Also where it has passed on to another hold since.
                    let owner = &holds[sight.hold].owner;
                    let cut = forced.iter().find(|(_, at, hold)| {
                        holds[*hold].owner == *owner && now + sight.validity > *at + longest
                    });
                    if let Some((at, _, hold)) = cut {
                        let what = format!("{} holds on after it was forced out", holds[*hold].owner);
                        return Some((what, vec![*at, place]));
                    }
                }
            }
            Kind::Executed {
                master,
                script: "force",
                owner,
                keeps_out,
                after,
                ..
            } => {
                for key in after {
                    let (marks, until) = (owner.split_whitespace(), now + *keeps_out);
                    marked.extend(marks.map(|owner| (place, *master, owner, key.name.as_str(), until)));
                }
            }
            Kind::Fault { forgets, .. } => {
                marked.retain(|(_, master, ..)| !forgets.contains(master));
            }
            Kind::Executed { master, after, .. } => {
                let is_back = |key: &Stored, owner: &str, name: &str| {
                    key.name == name && key.owners.iter().any(|other| other == owner)
                };
                let back = marked.iter().find(|(mark, at, owner, name, until)| {
                    at == master
                        && now + case.slipped(*master, *mark, place) <= *until
                        && after.iter().any(|key| is_back(key, owner, name))
                });
                if let Some((mark, _, owner, name, _)) = back
                    && case.class.keeps_assumptions()
                {
                    return Some((format!("{owner} is back on {name}"), vec![*mark, place]));
                }
            }
            _ => {}
        }
    }
    None
}
