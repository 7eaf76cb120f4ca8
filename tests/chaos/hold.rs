//! Guards as their holders knew them, and how any two of them must stand to each other.

use std::collections::BTreeMap;

use super::event::{Event, Micros, Policy, Said, Task, What};

/// One guard, from the moment at which it was first seen valid.
#[derive(Clone, Debug)]
pub struct Hold {
    pub task: Task,
    pub names: Vec<String>,
    pub token: u64,
    pub policy: Policy,
    /// When the round that won began.
    pub began: Micros,
    pub from: Micros,
    /// The end of its validity, as it was last seen.
    pub until: Micros,
    /// When it was believed over: left, lost, or out of validity.
    pub end: Micros,
    pub lost: Option<Micros>,
    pub left: Option<Micros>,
}

/// Two holds of a name that do not go together.
#[derive(Clone, Debug)]
pub struct Pair {
    pub name: String,
    pub first: Hold,
    pub second: Hold,
}

impl Pair {
    /// Whether the second grant began before the first was complete.
    pub fn at_once(&self) -> bool {
        self.second.began < self.first.from
    }
}

/// The guards of a history, in the order of their beginning. One that was never seen valid is none.
pub fn holds(events: &[Event]) -> Vec<Hold> {
    let mut open: BTreeMap<Task, Hold> = BTreeMap::new();
    let mut done = Vec::new();
    for event in events {
        let What::Said(task, said) = &event.what else {
            continue;
        };
        match said {
            Said::Enter {
                names,
                token,
                policy,
                began,
                from,
                until,
            } => {
                let hold = Hold {
                    task: *task,
                    names: names.clone(),
                    token: *token,
                    policy: *policy,
                    began: *began,
                    from: *from,
                    until: *until,
                    end: *until,
                    lost: None,
                    left: None,
                };
                done.extend(open.insert(*task, hold));
            }
            Said::Write { looked, until, .. } => {
                // A look that found no validity says nothing of its end.
                if let Some(hold) = open.get_mut(task).filter(|_| until > looked) {
                    hold.until = hold.until.max(*until);
                }
            }
            Said::Lost { at, .. } => {
                if let Some(hold) = open.get_mut(task) {
                    hold.lost.get_or_insert(*at);
                }
            }
            Said::Leave { at } => {
                if let Some(hold) = open.get_mut(task) {
                    hold.left.get_or_insert(*at);
                }
            }
            Said::Unlocked { .. } | Said::Gone => done.extend(open.remove(task)),
            Said::Hello | Said::Refused { .. } => {}
        }
    }
    done.extend(open.into_values());
    for hold in &mut done {
        let over = [Some(hold.until), hold.lost, hold.left];
        hold.end = over.into_iter().flatten().min().unwrap_or(hold.until);
    }
    done.retain(|hold| hold.until > hold.from);
    done.sort_by_key(|hold| hold.from);
    done
}

fn by_name(holds: &[Hold]) -> BTreeMap<&str, Vec<&Hold>> {
    let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        for name in &hold.names {
            names.entry(name).or_default().push(hold);
        }
    }
    names
}

/// Every hold that began while an earlier one of the name was still valid.
pub fn overlaps(holds: &[Hold]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (name, holds) in by_name(holds) {
        let mut longest: Option<&Hold> = None;
        for hold in holds {
            if let Some(before) = longest.filter(|before| hold.from < before.end && hold.end > before.from) {
                found.push(pair(name, before, hold));
            }
            if longest.is_none_or(|before| hold.end > before.end) {
                longest = Some(hold);
            }
        }
    }
    found
}

/// Every hold whose token is not above all earlier ones of the name.
pub fn token_falls(holds: &[Hold]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (name, holds) in by_name(holds) {
        let mut highest: Option<&Hold> = None;
        for hold in holds {
            match highest {
                Some(before) if hold.token <= before.token => found.push(pair(name, before, hold)),
                _ => highest = Some(hold),
            }
        }
    }
    found
}

fn pair(name: &str, first: &Hold, second: &Hold) -> Pair {
    Pair {
        name: name.to_owned(),
        first: first.clone(),
        second: second.clone(),
    }
}
