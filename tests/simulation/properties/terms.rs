//! A guard begins with more validity than its minimum, and never without any. A re-entry is never granted in these
//! cases:
//!
//! - The quorum of the hold is weaker than the quorum that the re-entry asks for.
//! - The last guard of the hold was leaked.
//! - The re-entry asks for a token, and the hold has none.
//! - The re-entry asks for more than the kind of the hold: a reader does not come to write.
//!
//! Source: the Redlock page ("minus the time elapsed"); the crate's documentation. Needs nothing.

use std::collections::BTreeMap;

use super::Case;
use crate::guard::LockKind;
use crate::history::{HoldId, Kind};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut leaked: BTreeMap<HoldId, usize> = BTreeMap::new();
    let mut downgraded: BTreeMap<HoldId, usize> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        if let Kind::GivenUp {
            hold,
            how: "leak",
            last: true,
            ..
        } = &event.kind
        {
            leaked.insert(*hold, place);
        }
        if let Kind::Downgraded { hold } = &event.kind {
            downgraded.insert(*hold, place);
        }
        if let Kind::Granted {
            hold,
            again,
            kind,
            min_validity,
            validity,
            needed,
            fenced,
            token,
            ..
        } = &event.kind
        {
            let facts = &case.record.holds[*hold];
            if validity <= min_validity {
                let what = format!("{} began with {validity:?} of {min_validity:?}", facts.owner);
                return Some((what, vec![place]));
            }
            let is = match facts.kind {
                LockKind::Write if downgraded.contains_key(hold) => LockKind::Read,
                kind => kind,
            };
            let is_included = *kind == is || is == LockKind::Write && *kind == LockKind::Read;
            if *again && !is_included {
                let what = format!("{} is held for {is:?} and entered for {kind:?}", facts.owner);
                let events = downgraded.get(hold).copied().into_iter().chain([place]);
                return Some((what, events.collect()));
            }
            if let Some(end) = leaked.get(hold) {
                let what = format!("{} is entered after it was leaked", facts.owner);
                return Some((what, vec![*end, place]));
            }
            // A hold may have the grant of an earlier hold that needed more.
            let of_grant = case.record.holds.iter().filter(|hold| hold.owner == facts.owner);
            let had = of_grant.map(|hold| hold.needed).max().unwrap_or(0);
            if *needed > had {
                let what = format!("{} needed {needed}, and {had} granted", facts.owner);
                return Some((what, vec![place]));
            }
            if *fenced && *token == 0 {
                return Some((format!("{} has no token", facts.owner), vec![place]));
            }
        }
    }
    None
}
