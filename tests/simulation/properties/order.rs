//! No master grants an acquire while a waiter with a smaller ticket stands in the queue of any of its names. Two waiters
//! that both want to read are the exception. A waiter's ticket never rises.
//!
//! Source: the promise of docs/guarantees.md on the order of waiters. Needs a waiter that keeps asking, with a client
//! that listens.

use std::collections::BTreeMap;

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    // Of each waiter by its attempts, which may arrive in another order than that in which they were sent.
    let mut tickets: BTreeMap<&str, BTreeMap<u64, (u64, usize)>> = BTreeMap::new();
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
        let number = owner.rsplit_once(':');
        let number = number.and_then(|(_, number)| number.trim_end_matches(char::is_alphabetic).parse().ok());
        let attempts = tickets.entry(waiter).or_default();
        attempts.insert(number.expect("a number"), (asked.ticket, place));
        let mut pairs = attempts.values().zip(attempts.values().skip(1));
        if let Some((before, after)) = pairs.find(|(before, after)| after.0 > before.0) {
            let what = format!("{waiter} has ticket {} after {}", after.0, before.0);
            return Some((what, vec![before.1, after.1]));
        }
    }
    None
}
