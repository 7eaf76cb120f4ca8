//! A guard begins with more validity than was asked for, and never without any; a re-entry is never
//! given on a weaker quorum than it asked for, nor into a hold whose last guard was leaked, nor without a
//! token to who asked for one.
//!
//! Source: the Redlock page ("minus the time elapsed"); the crate's documentation. Needs nothing.

use std::collections::BTreeMap;

use super::Case;
use crate::history::{HoldId, Kind};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut leaked: BTreeMap<HoldId, usize> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        if let Kind::GivenUp {
            hold,
            how: "leak",
            last: true,
        } = &event.kind
        {
            leaked.insert(*hold, place);
        }
        if let Kind::Granted {
            hold,
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
            if let Some(end) = leaked.get(hold) {
                let what = format!("{} is entered after it was leaked", facts.owner);
                return Some((what, vec![*end, place]));
            }
            if *needed > facts.needed {
                let what = format!("{} needed {needed}, and {} granted", facts.owner, facts.needed);
                return Some((what, vec![place]));
            }
            if *fenced && *token == 0 {
                return Some((format!("{} has no token", facts.owner), vec![place]));
            }
        }
    }
    None
}
