//! Data that masters keep:
//!
//! - A name has one owner, unless it is read.
//! - Every key has an end, which is never brought forward while the owners stay.
//! - A name that is read ends with the last of its readers, as does the key that lists them. The name itself gives that
//!   end, too.
//! - A name that is read is not written before a new holder takes it.
//! - A fence never falls while it exists, and exists until the clock is far enough past it.
//!
//! Source: the scripts' own headers. For the ends, needs clocks that do not step: slips of a clock bring them nearer. A
//! key that a fault takes is no fall.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Case, ROUNDED};
use crate::history::{Kind, Stored};

pub(crate) fn check(case: &Case<'_>) -> Option<(String, Vec<usize>)> {
    let mut known: BTreeMap<(usize, &str), (usize, &Stored)> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Fault {
                forgets,
                forgets_fences,
                ..
            } => known.retain(|(master, _), _| !forgets.contains(master) && !forgets_fences.contains(master)),
            Kind::Deleted { name, .. } => known.retain(|(_, other), _| other != name),
            Kind::Executed {
                master,
                script,
                clock_us,
                after,
                ..
            } => {
                for key in after {
                    if let Some(wrong) = alone(key, event.at) {
                        return Some((format!("{wrong} at {} on m{master}", key.name), vec![place]));
                    }
                    let slot = (*master, key.name.as_str());
                    let Some((before, old)) = known.insert(slot, (place, key)) else {
                        continue;
                    };
                    let slipped = case.slipped(*master, before, place);
                    // A hold that is given up while its names are kept lasts for the rest of that.
                    let is_steady = case.class.keeps_assumptions() && *script != "retain";
                    let wrong = compared(old, key, event.at + slipped);
                    let wrong = wrong.or_else(|| {
                        (is_steady && is_earlier(old, key, event.at, slipped))
                            .then_some("the end was brought forward")
                    });
                    if let Some(wrong) = wrong.or_else(|| fence(old.fence, key.fence, *clock_us)) {
                        let what = format!("{script}: {wrong} at {} on m{master}", key.name);
                        return Some((what, vec![before, place]));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

fn alone(key: &Stored, now: Duration) -> Option<&'static str> {
    if key.mode.as_deref() == Some("read") {
        return read(key, now);
    }
    if key.owners.len() > 1 {
        return Some("several owners");
    }
    if key.mode.is_some() && key.owners.is_empty() {
        return Some("a mode without an owner");
    }
    (!key.owners.is_empty() && key.ends.is_none()).then_some("an owner without an end")
}

/// Error in a name that is read. If the key that lists its readers is gone, no client gets in because of that.
fn read(key: &Stored, now: Duration) -> Option<&'static str> {
    let Some(ends) = key.ends else {
        return Some("readers without an end");
    };
    let differs = |other: Duration| other.abs_diff(ends) > ROUNDED;
    if key.told.is_none_or(differs) {
        return Some("an end of the readers that is not the name's");
    }
    if key.readers.is_empty() {
        return None;
    }
    let Some(readers_end) = key.readers_end else {
        return Some("readers that are kept without an end");
    };
    if differs(readers_end) {
        return Some("readers that are not kept as long as the name");
    }
    let last = key.readers.iter().map(|reader| reader.ends).max().unwrap_or(now);
    if last > ends + ROUNDED {
        return Some("an end before the last reader's");
    }
    (ends > last + ROUNDED).then_some("an end after the last reader's")
}

/// `now` is by the master's clock, which may have stepped since the old state.
fn compared(old: &Stored, new: &Stored, now: Duration) -> Option<&'static str> {
    // A late request may take a name again that has ended.
    let is_over = old.ends.is_some_and(|end| end <= now);
    let stays = !is_over && old.owners.iter().any(|owner| new.owners.contains(owner));
    let is_turned = stays && old.mode.as_deref() == Some("read") && new.mode != old.mode;
    is_turned.then_some("what was read is written")
}

/// Whether the same owners have the name for a shorter time than before. `slipped` is the slip of the clock meanwhile.
fn is_earlier(old: &Stored, new: &Stored, now: Duration, slipped: Duration) -> bool {
    let same = !old.owners.is_empty() && old.owners == new.owners;
    same && new.ends.map(|end| end + slipped) < old.ends && old.ends.is_some_and(|end| end > now + slipped)
}

/// A fence may be gone once the clock is 110 s past it (`lua/fences.lua`).
fn fence(old: Option<u64>, new: Option<u64>, clock_us: u64) -> Option<&'static str> {
    match (old, new) {
        (Some(old), Some(new)) if new < old => Some("the fence fell"),
        (Some(old), None) if clock_us < old + 110_000_000 => Some("the fence is gone"),
        _ => None,
    }
}
