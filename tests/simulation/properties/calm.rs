//! Nobody asks for ever: contenders that wake each other, or themselves, would keep the masters busy
//! without end.
//!
//! Source: waiters sleep until something has happened that may change the answer. Jitter separates waiters that meet.
//! Needs nothing.

use super::Case;
use crate::history::MOST_EVENTS;

/// How much of the end is shown.
const SHOWN: usize = 60;

pub(super) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let events = case.record.events.len();
    if events < MOST_EVENTS {
        return None;
    }
    let last: Vec<usize> = (events.saturating_sub(SHOWN)..events).collect();
    Some((format!("something goes on for ever: {events} events"), last))
}
