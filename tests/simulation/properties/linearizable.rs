//! The calls of each name have an order that a sequential lock allows: owner-aware, re-entrant, fenced, both, or with
//! permits. It is found by a search that knows neither leases nor validity.
//!
//! Source: Herlihy and Wing's linearizability; the models of Hazelcast's Jepsen tests. Needs the same as exclusion
//! does. Without that it judges tokens alone, as long as no master loses its fences.

use multilock_test_support::linearizability::Judgement;

use super::{Case, Violation};
use crate::calls;

pub(super) const NAME: &str = "linearizable";

pub(super) fn judge(case: &Case<'_>) -> Judgement {
    calls::of(case).judge()
}

pub(super) fn violation(judgement: &Judgement) -> Option<Violation> {
    let first = judgement.wrong.first()?;
    let what: Vec<&str> = judgement.wrong.iter().map(|wrong| wrong.what.as_str()).collect();
    let place = |moment: &u64| usize::try_from(*moment).expect("a place of the record");
    Some(Violation {
        property: NAME,
        what: what.join("; "),
        events: first.moments.iter().map(place).collect(),
    })
}
