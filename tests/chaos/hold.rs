//! Guards as their holders knew them, and how any two of them must stand to each other.

use std::collections::BTreeMap;

use super::event::{Event, Micros, Mode, Policy, Said, Task, What};

/// One guard, from the moment at which it was first seen valid.
#[derive(Clone, Debug)]
pub struct Hold {
    pub task: Task,
    pub names: Vec<String>,
    pub token: u64,
    pub policy: Policy,
    /// As it was granted.
    pub mode: Mode,
    /// Since when an exclusive one is shared.
    pub downgraded: Option<Micros>,
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

/// A part of a hold that has one mode.
#[derive(Clone, Copy)]
struct Section<'a> {
    hold: &'a Hold,
    mode: Mode,
    from: Micros,
    end: Micros,
}

impl Hold {
    pub fn is_shared_in_the_end(&self) -> bool {
        self.mode == Mode::Shared || self.downgraded.is_some()
    }

    /// One, or after a downgrade two.
    fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let turn = self.downgraded.unwrap_or(self.end).min(self.end);
        let parts = [(self.mode, self.from, turn), (Mode::Shared, turn, self.end)];
        parts
            .into_iter()
            .map(|(mode, from, end)| Section {
                hold: self,
                mode,
                from,
                end,
            })
            .filter(|section| section.end > section.from)
    }
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

/// The guards of a history, in the order of their beginning. A guard that was never seen valid is left out.
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
                mode,
                began,
                from,
                until,
            } => {
                let hold = Hold {
                    task: *task,
                    names: names.clone(),
                    token: *token,
                    policy: *policy,
                    mode: *mode,
                    downgraded: None,
                    began: *began,
                    from: *from,
                    until: *until,
                    end: *until,
                    lost: None,
                    left: None,
                };
                done.extend(open.insert(*task, hold));
            }
            Said::Write { looked, until, .. } | Said::Read { looked, until, .. } => {
                // A look that found no validity says nothing of its end.
                if let Some(hold) = open.get_mut(task).filter(|_| until > looked) {
                    hold.until = hold.until.max(*until);
                }
            }
            Said::Downgrade { at } => {
                if let Some(hold) = open.get_mut(task) {
                    hold.downgraded.get_or_insert(*at);
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
            Said::Hello | Said::Refused { .. } | Said::Ran { .. } => {}
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

/// Every hold that was valid at the same time as an earlier one, unless both only read then.
pub fn overlaps(holds: &[Hold]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (name, holds) in by_name(holds) {
        let mut sections: Vec<Section> = holds.into_iter().flat_map(Hold::sections).collect();
        sections.sort_by_key(|section| section.from);
        // The earlier section that ends last: of all, and of the exclusive ones.
        let (mut any, mut exclusive): (Option<Section>, Option<Section>) = (None, None);
        for section in sections {
            let opposed = match section.mode {
                Mode::Exclusive => any,
                Mode::Shared => exclusive,
            };
            if let Some(before) = opposed.filter(|before| section.from < before.end) {
                found.push(pair(name, before.hold, section.hold));
            }
            keep_longer(&mut any, section);
            if section.mode == Mode::Exclusive {
                keep_longer(&mut exclusive, section);
            }
        }
    }
    found
}

fn keep_longer<'a>(longest: &mut Option<Section<'a>>, section: Section<'a>) {
    if longest.is_none_or(|before| section.end > before.end) {
        *longest = Some(section);
    }
}

/// Holds in the order of their beginning, each with a larger token than those before it.
#[derive(Default)]
struct Highest<'a>(Vec<&'a Hold>);

impl<'a> Highest<'a> {
    fn add(&mut self, hold: &'a Hold) {
        if self.0.last().is_none_or(|before| hold.token > before.token) {
            self.0.push(hold);
        }
    }

    fn of_all(&self) -> Option<&'a Hold> {
        self.0.last().copied()
    }

    /// The last of the holds with a grant that was complete by then.
    fn complete_by(&self, moment: Micros) -> Option<&'a Hold> {
        let complete = self.0.partition_point(|hold| hold.from <= moment);
        self.0[..complete].last().copied()
    }
}

/// Every hold with a token that is not above all earlier ones of the name. A reader shares the token of the writer
/// before. So a reader and a writer are compared only if the grant of one was complete before the other one's began.
/// A writer's token is above the readers', and a reader's token is not below the writers'.
pub fn token_falls(holds: &[Hold]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (name, holds) in by_name(holds) {
        let (mut writers, mut readers) = (Highest::default(), Highest::default());
        for hold in holds {
            let by_writer = match hold.mode {
                Mode::Exclusive => writers.of_all().filter(|before| hold.token <= before.token),
                Mode::Shared => writers
                    .complete_by(hold.began)
                    .filter(|before| hold.token < before.token),
            };
            let by_reader = readers
                .complete_by(hold.began)
                .filter(|before| hold.mode == Mode::Exclusive && hold.token <= before.token);
            found.extend(by_writer.or(by_reader).map(|before| pair(name, before, hold)));
            match hold.mode {
                Mode::Exclusive => writers.add(hold),
                Mode::Shared => readers.add(hold),
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
