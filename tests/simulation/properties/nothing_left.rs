//! While nobody wants anything, nobody listens or stands in a queue, and nothing is sent; after closing no task is left.
//!
//! Source: the crate's documentation of waiting and of `close`. Needs nothing but, of queues, sockets that deliver nothing
//! once they are abandoned.

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let events = case.record.events.iter().enumerate();
    events.into_iter().find_map(|(place, event)| match &event.kind {
        Kind::Left { when, what } if !what.is_empty() && !when.starts_with("after") => {
            Some((format!("left {when}: {}", what.join(", ")), vec![place]))
        }
        _ => None,
    })
}
