//! If a majority of the masters deny a hold, another holder may have a quorum, and the hold ends with its next renewal.
//! That takes at most a third of the longest lease, and the time to ask and to put the hold back.
//!
//! Source: the crate's documentation of `lost()`. Needs a hold that is renewed, and counts no time in which the host
//! stops.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Case;
use crate::history::{HoldId, Kind};

/// For how long the host stops with this event.
fn stop(kind: &Kind) -> Duration {
    let stopped = match kind {
        Kind::Fault { what, .. } => what
            .split_once("HostStops(")
            .and_then(|(_, rest)| rest.strip_suffix(')')),
        _ => None,
    };
    let stopped = stopped.and_then(|ms| ms.parse().ok());
    Duration::from_millis(stopped.unwrap_or_default())
}

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let record = case.record;
    let within = record.longest_lease / 3 + record.longest_deadline * 2;
    // Since when a majority is known to deny it, by a clock that stands still with the host.
    let mut gone: BTreeMap<HoldId, (Duration, usize)> = BTreeMap::new();
    let mut stopped = Duration::ZERO;
    for (place, event) in record.events.iter().enumerate() {
        stopped += stop(&event.kind);
        let now = event.at.saturating_sub(stopped);
        let Kind::Seen(sights) = &event.kind else { continue };
        for sight in sights {
            let facts = &record.holds[sight.hold];
            let is_kept = sight.against <= record.nodes / 2;
            if is_kept || !sight.renewed || sight.validity.is_zero() {
                gone.remove(&sight.hold);
                continue;
            }
            let (since, before) = *gone.entry(sight.hold).or_insert((now, place));
            if now > since + within {
                let what = format!(
                    "{} has {:?} left, and {} masters said {:?} ago that they do not keep it",
                    facts.owner,
                    sight.validity,
                    sight.against,
                    now.saturating_sub(since)
                );
                return Some((what, vec![before, place]));
            }
        }
    }
    None
}
