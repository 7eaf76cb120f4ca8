//! While nobody wants anything, nobody listens or stands in a queue, and nothing is sent; after closing no task is left.
//!
//! Source: the crate's documentation of waiting and of `close`. Needs nothing but, of queues, sockets that deliver nothing
//! once they are abandoned, and masters that were not restored from a snapshot.

use super::Case;
use crate::history::{Event, Kind};

/// Masters that were restored, as the ends of texts about them: a snapshot has waiters that left long ago. They end by
/// themselves 15 s after they asked.
fn restored(events: &[Event]) -> Vec<String> {
    let restored = events.iter().filter_map(|event| match &event.kind {
        Kind::Fault { what, .. } => what.strip_suffix(": end of Crash(Saved)"),
        _ => None,
    });
    restored.map(|master| format!(" on {master}")).collect()
}

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let events = &case.record.events;
    let restored = restored(events);
    events
        .iter()
        .enumerate()
        .find_map(|(place, event)| match &event.kind {
            Kind::Left { when, what } if !when.starts_with("after") => {
                let may_be_old = when.starts_with("in the queues");
                let is_old =
                    |left: &String| may_be_old && restored.iter().any(|master| left.ends_with(master));
                let what: Vec<_> = what.iter().filter(|left| !is_old(left)).cloned().collect();
                (!what.is_empty()).then(|| (format!("left {when}: {}", what.join(", ")), vec![place]))
            }
            _ => None,
        })
}
