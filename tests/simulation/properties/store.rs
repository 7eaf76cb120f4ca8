//! What masters keep: one owner at a name, unless it is read; an end to every key, an end that is never brought forward
//! while the owners stay; a name that is read ends with the last of its readers, each of whom stands beside it with a
//! time-out key; what is read is not written before somebody new takes it; and a fence that never falls while it exists, and exists until the clock is far enough past it.
//!
//! Source: the scripts' own headers; Redisson's layout. Needs clocks that do not step, for the
//! ends, which come nearer by what they slip; what a fault takes is no fall.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Case;
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
                    if let Some(wrong) = alone(key, event.at, case.class.keeps_assumptions()) {
                        return Some((format!("{wrong} at {} on m{master}", key.name), vec![place]));
                    }
                    let slot = (*master, key.name.as_str());
                    let Some((before, old)) = known.insert(slot, (place, key)) else {
                        continue;
                    };
                    let slipped = case.slipped(*master, before, place);
                    // A hold that is given up while its names are kept lasts for the rest of that.
                    let is_steady = case.class.keeps_assumptions() && *script != "retain";
                    let steady = is_steady.then_some(slipped);
                    let wrong = compared(old, key, event.at, steady);
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

/// What masters tell in whole milliseconds may differ by so much.
const ROUNDED: Duration = Duration::from_millis(1);

fn alone(key: &Stored, now: Duration, is_steady: bool) -> Option<&'static str> {
    if key.mode.as_deref() == Some("read") {
        return read(key, now, is_steady);
    }
    if key.owners.len() > 1 {
        return Some("several owners");
    }
    if key.mode.is_some() && key.owners.is_empty() {
        return Some("a mode without an owner");
    }
    (!key.owners.is_empty() && key.ends.is_none()).then_some("an owner without an end")
}

/// Clocks that keep the assumptions are set back by less.
const SET_BACK: Duration = Duration::from_secs(1);

/// What is wrong with a name that is read. A reader whose lease has ended has no time-out key any more, and stands there
/// again where the clock is set back after that.
fn read(key: &Stored, now: Duration, is_steady: bool) -> Option<&'static str> {
    let Some(ends) = key.ends else {
        return Some("readers without an end");
    };
    let mut last = now;
    for owner in &key.owners {
        let Some(reader) = key.readers.iter().find(|reader| reader.owner == *owner) else {
            return Some("a reader that does not stand among the readers");
        };
        let may_have_ended = !is_steady || reader.timeout <= now && reader.ends < now + SET_BACK;
        if reader.timeout + ROUNDED < reader.ends && !may_have_ended {
            return Some("a reader without its time-out key");
        }
        last = last.max(reader.ends);
    }
    if last > ends + ROUNDED {
        return Some("an end before the last reader's");
    }
    (ends > last + ROUNDED).then_some("an end after the last reader's")
}

/// `slipped` is what the clock did meanwhile, where it is known.
fn compared(old: &Stored, new: &Stored, now: Duration, slipped: Option<Duration>) -> Option<&'static str> {
    let stays = old.owners.iter().any(|owner| new.owners.contains(owner));
    if stays && old.mode.as_deref() == Some("read") && new.mode != old.mode {
        return Some("what was read is written");
    }
    let same = !old.owners.is_empty() && old.owners == new.owners;
    if let Some(slipped) = slipped
        && same
        && new.ends.map(|end| end + slipped) < old.ends
        && old.ends.is_some_and(|end| end > now + slipped)
    {
        return Some("the end was brought forward");
    }
    None
}

/// A fence may be gone once the clock is ten minutes past it.
fn fence(old: Option<u64>, new: Option<u64>, clock_us: u64) -> Option<&'static str> {
    match (old, new) {
        (Some(old), Some(new)) if new < old => Some("the fence fell"),
        (Some(old), None) if clock_us < old + 600_000_000 => Some("the fence is gone"),
        _ => None,
    }
}
