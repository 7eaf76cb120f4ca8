//! Once all is well again, everybody gets every name, under the policy that asks for most.
//!
//! Source: liveness. A lock that no client gets any more is as broken as a lock that two clients get. Needs all
//! masters, out of quarantine.

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let events = case.record.events.iter().enumerate();
    events.into_iter().find_map(|(place, event)| match &event.kind {
        Kind::Progress {
            name,
            error: Some(error),
        } => Some((format!("nobody may miss {name} for ever: {error}"), vec![place])),
        _ => None,
    })
}
