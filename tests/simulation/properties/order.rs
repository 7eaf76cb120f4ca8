//! No acquire is granted by a master on which somebody stands with a smaller ticket, in the queue of any of its names;
//! and a waiter's ticket never rises.
//!
//! Source: README's promise on order among those who wait. Needs a waiter that keeps asking, and whose client listens.

use std::collections::BTreeMap;

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut tickets: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        let Kind::Executed {
            master,
            owner,
            asked: Some(asked),
            ..
        } = &event.kind
        else {
            continue;
        };
        if let Some(ahead) = asked.ahead.as_ref().filter(|_| asked.granted) {
            let what = format!(
                "m{master} grants {owner} with ticket {}, past {ahead}",
                asked.ticket
            );
            return Some((what, vec![place]));
        }
        let Some(waiter) = &asked.waiter else { continue };
        // What was sent before may arrive after what was sent later over another connection.
        let drawn = tickets.entry(waiter).or_insert((asked.ticket, place));
        if asked.ticket > drawn.0 {
            let what = format!("{waiter} has ticket {} after {}", asked.ticket, drawn.0);
            return Some((what, vec![drawn.1, place]));
        }
    }
    None
}
