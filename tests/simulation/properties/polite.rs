//! A master receives the release of a hold once over a connection. It receives it again only over a new connection, or
//! if the release failed.
//!
//! Source: the costs of a release; the header of `node/deferred.rs`. Needs nothing.

use std::collections::BTreeMap;

use super::Case;
use crate::history::Kind;

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut told: BTreeMap<(&str, usize, i64), usize> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        let Kind::Executed {
            master,
            connection,
            script: "release",
            owner,
            failed: false,
            ..
        } = &event.kind
        else {
            continue;
        };
        for owner in owner.split_whitespace() {
            if let Some(before) = told.insert((owner, *master, *connection), place) {
                let what = format!("m{master} is told twice over connection {connection} to release {owner}");
                return Some((what, vec![before, place]));
            }
        }
    }
    None
}
