//! Calls of a record in the form that the linearizability checker wants: their invocations, returns and unknown
//! outcomes.
//!
//! A moment is a place in the record, so no two events have the same moment. An owner is a hold. Holds that read are
//! left out, because none of the models has readers. A hold that was granted to write counts as a write hold until its
//! end, since no other writer may get the lock before.
//!
//! A hold ends in one of two ways. If its last guard is given up while validity is left, it is released. If nobody saw
//! it valid after some moment, it expires at an unknown moment after that one. An operator that forces a holder out
//! brings that moment forward. So do faults under which locks do not exclude each other.

use std::collections::BTreeMap;
use std::time::Duration;

use multilock_test_support::linearizability::{Action, Call, Log};

use crate::actor::permits::PERMITS;
use crate::guard::LockKind;
use crate::history::{HoldFacts, HoldId, Kind};
use crate::properties::Case;

/// Known facts of one hold, as places in the record.
#[derive(Debug, Default)]
struct Life {
    /// Invocation, return and token of each grant and re-entry.
    entries: Vec<(usize, usize, Option<u64>)>,
    leaves: Vec<Leave>,
    /// When it was last seen valid, and whether it was seen lost before its last guard was given up.
    valid: Option<usize>,
    lost: bool,
    /// Position at which its last guard was given up while it was valid.
    released: Option<usize>,
}

#[derive(Debug)]
struct Leave {
    invoked: usize,
    returned: Option<usize>,
    awaited: bool,
}

pub(crate) fn of(case: &Case<'_>) -> Log {
    let record = case.record;
    let mut log = Log::default();
    let forgets_fences =
        |kind: &Kind| matches!(kind, Kind::Fault { forgets_fences, .. } if !forgets_fences.is_empty());
    let excludes = case.class.keeps_assumptions();
    // Where locks do not exclude each other, tokens rise unless masters lose their fences.
    if !excludes && record.events.iter().any(|event| forgets_fences(&event.kind)) {
        return log;
    }
    let forced = case.forced();
    for (hold, life) in lives(case) {
        let facts = &record.holds[hold];
        if facts.kind == LockKind::Read {
            continue;
        }
        let forced = forced.get(facts.owner.as_str()).copied();
        let (begun, granted, _) = life.entries[0];
        // A holder that was forced out may still be granted late, beside other holders.
        if forced.is_some_and(|at| at < granted) {
            continue;
        }
        let out = if excludes { forced } else { Some(begun) };
        for call in life.calls(hold, out) {
            add(&mut log, facts, call);
        }
    }
    log
}

/// Adds a call to the history of each of its names. A seat of a permit is a name of its own.
fn add(log: &mut Log, facts: &HoldFacts, call: Call) {
    for name in &facts.names {
        log.lock(name, call);
        if let Some((permits, _)) = name.split_once(":seat:") {
            log.permit(permits, PERMITS as usize, call);
        }
    }
}

impl Life {
    /// `out` is where it may be over although its holder does not know.
    fn calls(&self, owner: HoldId, out: Option<usize>) -> Vec<Call> {
        let call = |action, invoked: usize, returned: Option<usize>| Call {
            owner,
            action,
            invoked: invoked as u64,
            returned: returned.map(|place| place as u64),
        };
        let begun = self.entries[0].0;
        // Its names may be kept for longer than its guards.
        let kept = self.released < self.valid;
        let expires = self.released.is_none() || kept || out.is_some();
        let end = if expires {
            self.valid.unwrap_or(begun).min(out.unwrap_or(usize::MAX))
        } else {
            usize::MAX
        };
        let mut calls = Vec::new();
        for (place, (invoked, returned, token)) in self.entries.iter().enumerate() {
            if place == 0 || *returned <= end {
                let action = Action::Acquire { token: *token };
                calls.push(call(action, *invoked, Some(*returned)));
            }
        }
        for leave in &self.leaves {
            let is_last = self.released == Some(leave.invoked);
            if leave.invoked <= end && !(is_last && kept) {
                calls.push(call(Action::Release, leave.invoked, leave.returned));
            }
        }
        if expires {
            calls.push(call(Action::Expire, end, None));
        }
        calls
    }

    fn guards(&self) -> usize {
        self.entries.len() - self.leaves.len()
    }

    fn leave(&mut self, place: usize, left: Duration, awaited: bool) {
        self.leaves.push(Leave {
            invoked: place,
            returned: None,
            awaited,
        });
        if left.is_zero() {
            self.lost |= self.guards() == 0;
        } else {
            self.valid = Some(place);
            if self.guards() == 0 && !self.lost {
                self.released = Some(place);
            }
        }
    }

    fn returned(&mut self, place: usize) {
        let waiting = |leave: &&mut Leave| leave.awaited && leave.returned.is_none();
        if let Some(leave) = self.leaves.iter_mut().rev().find(waiting) {
            leave.returned = Some(place);
        }
    }
}

fn lives(case: &Case<'_>) -> BTreeMap<HoldId, Life> {
    let mut begun: BTreeMap<usize, usize> = BTreeMap::new();
    let mut lives: BTreeMap<HoldId, Life> = BTreeMap::new();
    for (place, event) in case.record.events.iter().enumerate() {
        match &event.kind {
            Kind::Begun { op, .. } => drop(begun.insert(*op, place)),
            Kind::Granted {
                op,
                hold,
                validity,
                token,
                ..
            } => {
                let life = lives.entry(*hold).or_default();
                let token = (*token != 0).then_some(*token);
                life.entries.push((begun[op], place, token));
                if !validity.is_zero() {
                    life.valid = Some(place);
                }
            }
            Kind::Seen(sights) => {
                for sight in sights {
                    let life = lives.entry(sight.hold).or_default();
                    if !sight.validity.is_zero() {
                        life.valid = Some(place);
                    } else if life.released.is_none() {
                        life.lost = true;
                    }
                }
            }
            Kind::GivenUp { hold, how, left, .. } if *how != "leak" => {
                let life = lives.get_mut(hold).expect("it was granted");
                life.leave(place, *left, *how == "unlock");
            }
            Kind::Returned { hold, left } => {
                let life = lives.get_mut(hold).expect("it was granted");
                life.leave(place, *left, false);
            }
            Kind::Outcome { hold, what } if is_release(what) => {
                lives.get_mut(hold).expect("it was granted").returned(place);
            }
            _ => {}
        }
    }
    lives
}

/// Whether a guard's unlocking is known to have taken effect.
fn is_release(what: &str) -> bool {
    let known = [
        "released",
        "still held",
        "handed on",
        "Ok(Released)",
        "Ok(HandedOn)",
    ];
    known.iter().any(|start| what.starts_with(start)) || what.starts_with("Ok(StillHeld")
}
