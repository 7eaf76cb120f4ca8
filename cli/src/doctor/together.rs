//! Problems of the masters together: too few of them have a vote, or their clocks differ.

use std::time::Duration;

use multilock::{Examination, Policy, ServerFacts};

use super::finding::{Finding, Severity};
use crate::say::Rough;

/// Accepted difference of a master's clock from the other clocks. A constant offset harms no lease, but it is
/// corrected some day. A step of more than half of the drift of a 30 s lease (302 ms) costs the master its
/// vote for 30 s.
const APART: Duration = Duration::from_millis(151);

/// Lead of a clock from which the master has no vote in fenced locks.
const FAR_AHEAD: Duration = Duration::from_secs(300);

pub(super) fn findings(masters: &[Examination]) -> Vec<Finding> {
    let quorum = too_few(masters);
    quorum.into_iter().chain(clocks(masters)).collect()
}

/// Facts of a master that a client would use.
pub(super) fn usable(master: &Examination) -> Option<&ServerFacts> {
    let facts = master.server.as_ref().ok()?;
    let is_fit = facts.refusal.is_none() && facts.writes_refused.is_none();
    (is_fit && facts.denied.iter().all(|denied| !denied.is_needed)).then_some(facts)
}

fn too_few(masters: &[Examination]) -> Option<Finding> {
    let needed = Policy::RedLock.needed(masters.len());
    let usable: Vec<&ServerFacts> = masters.iter().filter_map(usable).collect();
    let forgetful = usable.iter().filter(|facts| !facts.quarantine.is_zero()).count();
    let voting = if forgetful > Policy::RedLock.forgetful_allowed(masters.len()) {
        usable.len() - forgetful
    } else {
        usable.len()
    };
    (voting < needed).then(|| {
        let seen = format!(
            "{voting} of {} masters have a vote, and a majority, {needed}, is needed",
            masters.len()
        );
        let remedy = "see what is said of each; no lock is granted until then";
        Finding::of(Severity::NoQuorum, "too_few", seen, remedy).faq("too few")
    })
}

fn clocks(masters: &[Examination]) -> Vec<Finding> {
    let by_offset = masters
        .iter()
        .filter_map(|master| Some((&master.node, master.server.as_ref().ok()?)));
    let mut by_offset: Vec<_> = by_offset.collect();
    by_offset.sort_by_key(|(_, facts)| facts.clock_offset_us);
    let Some((_, middle)) = by_offset.get(by_offset.len().saturating_sub(1) / 2) else {
        return Vec::new();
    };
    let apart = by_offset
        .iter()
        .filter_map(|(node, facts)| clock(facts, middle).map(|finding| finding.at(node)));
    apart.collect()
}

/// Finding about a master's clock, beside the clock in the middle.
fn clock(facts: &ServerFacts, middle: &ServerFacts) -> Option<Finding> {
    let ahead_us = facts.clock_offset_us.saturating_sub(middle.clock_offset_us);
    let apart = Duration::from_micros(ahead_us.unsigned_abs());
    // Each clock was read at some moment of a round trip.
    let certain = apart.saturating_sub((facts.round_trip + middle.round_trip) / 2);
    let way = if ahead_us < 0 { "behind" } else { "ahead of" };
    let seen = format!("its clock is {} {way} the other masters'", Rough(apart));
    let remedy =
        "run an NTP daemon there, and have it slew the clock instead of setting it while locks are held";
    let severity = match certain {
        certain if certain <= APART => return None,
        certain if certain > FAR_AHEAD && ahead_us > 0 => Severity::Unfit,
        _ => Severity::Warning,
    };
    Some(Finding::of(severity, "clock", seen, remedy).faq("clock"))
}
