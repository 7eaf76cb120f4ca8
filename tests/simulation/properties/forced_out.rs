//! A name that an operator took away stays taken: on a master that executed the force, no former holder
//! is granted or extended again, and the former hold is no longer prolonged.
//!
//! Source: the crate's documentation of `force_release`. Needs nothing.

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let holds = &case.record.holds;
    let mut forced = Vec::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Forced {
                name,
                former,
                confirmed: true,
                ..
            } => forced.extend(former.iter().map(|hold| (place, event.at, *hold, name))),
            Kind::Seen(sights) => {
                for sight in sights.iter().filter(|sight| !sight.validity.is_zero()) {
                    let cut = forced.iter().find(|(_, at, hold, _)| {
                        *hold == sight.hold && event.at + sight.validity > *at + case.record.longest_lease
                    });
                    if let Some((at, _, hold, name)) = cut {
                        let what = format!("{} holds {name} on after it was forced out", holds[*hold].owner);
                        return Some((what, vec![*at, place]));
                    }
                }
            }
            Kind::Executed {
                script: "acquire" | "extend",
                owner,
                after,
                ..
            } => {
                let back = forced.iter().find(|(_, at, hold, name)| {
                    let again =
                        |key: &crate::history::Stored| key.name == **name && key.owners.contains(owner);
                    let marked = event.at <= *at + case.record.longest_lease;
                    holds[*hold].owner == *owner && marked && after.iter().any(again)
                });
                if let Some((at, _, hold, name)) = back
                    && case.record.nodes == holds[*hold].needed
                {
                    let what = format!("{owner} is back on {name}");
                    return Some((what, vec![*at, place]));
                }
            }
            _ => {}
        }
    }
    None
}
