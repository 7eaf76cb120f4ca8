//! A guard begins with more validity than was asked for, and never without any; a re-entry is never
//! given on a weaker quorum than it asked for.
//!
//! Source: the Redlock page ("minus the time elapsed"); the crate's documentation. Needs nothing.

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    for (place, event) in case.record.events.iter().enumerate() {
        if let Kind::Granted {
            hold,
            min_validity,
            validity,
            needed,
            ..
        } = &event.kind
        {
            let facts = &case.record.holds[*hold];
            if validity <= min_validity {
                let what = format!("{} began with {validity:?} of {min_validity:?}", facts.owner);
                return Some((what, vec![place]));
            }
            if *needed > facts.needed {
                let what = format!("{} needed {needed}, and {} granted", facts.owner, facts.needed);
                return Some((what, vec![place]));
            }
        }
    }
    None
}
