//! A lock that is given up is released, also on masters that were out of reach for a while. Nothing lasts beyond the
//! longest lease.
//!
//! Source: the crate's promise. Needs a client that runs on: a lock that a closed client could not release ends with
//! its lease. So does a lock that a request takes late, from a socket that nobody can kill. Needs masters with clocks
//! that are not set back.

use super::Case;
use crate::history::Kind;
use crate::run::orphans_allowed;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let longer = |what: &str| what.contains("ClockBack");
    let events = || case.record.events.iter().enumerate();
    let peace = events().find(|(_, event)| event.kind == Kind::Phase("peace"))?.0;
    let closed = events()
        .take(peace)
        .any(|(_, event)| event.kind == Kind::Phase("closed"));
    if events().any(|(_, event)| matches!(&event.kind, Kind::Fault { what, .. } if longer(what))) {
        return None;
    }
    events().find_map(|(place, event)| match &event.kind {
        Kind::Left { when, what } if !what.is_empty() => {
            let early = *when == "after the faults" && !closed && !orphans_allowed(case.class);
            let late = *when == "after the longest lease";
            (early || late).then(|| (format!("left {when}: {}", what.join(", ")), vec![peace, place]))
        }
        _ => None,
    })
}
