//! Waits in a history: how long each kind of lock was waited for, and how much of that no fault explains.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::event::{Event, Micros, Mode, PLAIN_TASKS, Policy, Refusal, Said, Task, What};

/// Time in which some masters were struck, and in which they came back.
#[derive(Clone, Debug)]
pub struct Window {
    pub masters: Vec<usize>,
    pub from: Micros,
    pub to: Micros,
}

/// The longest waits of a kind.
#[derive(Clone, Debug, Default)]
pub struct Longest {
    pub grants: usize,
    pub wait: Duration,
    /// Time of a wait in which enough masters were sound.
    pub unexplained: Duration,
    pub waiter: Option<(Task, Micros)>,
}

/// Kind of a wait, by its waiter and its lock.
fn kind(task: Task, policy: Policy, mode: Mode, names: usize) -> &'static str {
    match (task.task, policy) {
        (task, Policy::Multi) if task < PLAIN_TASKS => "plain, every master",
        (_, Policy::Multi) if mode == Mode::Shared => "read, every master",
        (_, Policy::Multi) => "write, every master",
        (task, Policy::Red) if task + 1 == PLAIN_TASKS => "permit",
        (task, Policy::Red) if task < PLAIN_TASKS && names > 1 => "several names",
        (0, Policy::Red) => "plain or lead",
        (task, Policy::Red) if task < PLAIN_TASKS => "plain, tries between",
        _ if mode == Mode::Shared => "read",
        _ => "write",
    }
}

/// The longest wait of each kind. A wait begins when its task has given up or been refused the last lock.
pub fn longest(events: &[Event], windows: &[Window], masters: usize) -> BTreeMap<&'static str, Longest> {
    let mut idle: BTreeMap<Task, Micros> = BTreeMap::new();
    let mut longest: BTreeMap<&'static str, Longest> = BTreeMap::new();
    let mut note = |kind, task, policy, (from, to): (Micros, Micros), is_granted: bool| {
        let needed = if policy == Policy::Multi {
            masters
        } else {
            masters / 2 + 1
        };
        let unexplained = Duration::from_micros(sound(windows, masters, needed, from, to));
        let longest = longest.entry(kind).or_default();
        longest.grants += usize::from(is_granted);
        longest.wait = longest.wait.max(Duration::from_micros(to.saturating_sub(from)));
        if unexplained > longest.unexplained {
            longest.unexplained = unexplained;
            longest.waiter = Some((task, from));
        }
    };
    for event in events {
        let What::Said(task, said) = &event.what else {
            continue;
        };
        match said {
            Said::Hello | Said::Unlocked { .. } | Said::Ran { .. } => drop(idle.insert(*task, event.at)),
            Said::Enter {
                names,
                policy,
                mode,
                from,
                ..
            } => {
                if let Some(since) = idle.remove(task) {
                    let kind = kind(*task, *policy, *mode, names.len());
                    note(kind, *task, *policy, (since, *from), true);
                }
            }
            Said::Refused {
                policy,
                began,
                ended,
                refusal,
                ..
            } => {
                // A task that tried and met a holder has not waited.
                if *refusal != Refusal::Held || ended - began > 1_000_000 {
                    note("refused", *task, *policy, (*began, *ended), false);
                }
                idle.insert(*task, event.at);
            }
            Said::Gone => drop(idle.remove(task)),
            _ => {}
        }
    }
    longest
}

/// Time between two moments in which at least `needed` masters were sound.
pub fn sound(windows: &[Window], masters: usize, needed: usize, from: Micros, to: Micros) -> Micros {
    let mut moments: Vec<Micros> = windows
        .iter()
        .flat_map(|window| [window.from, window.to])
        .filter(|moment| (from..to).contains(moment))
        .chain([from, to])
        .collect();
    moments.sort_unstable();
    let is_sound = |moment: Micros| {
        let struck = |master: usize| {
            let mut over = windows
                .iter()
                .filter(|window| (window.from..window.to).contains(&moment));
            over.any(|window| window.masters.contains(&master))
        };
        (0..masters).filter(|&master| !struck(master)).count() >= needed
    };
    let spans = moments.windows(2).filter(|span| is_sound(span[0]));
    spans.map(|span| span[1] - span[0]).sum()
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wait, unexplained) = (self.wait.as_secs_f64(), self.unexplained.as_secs_f64());
        write!(f, "{:>7} {wait:>9.2} {unexplained:>12.2}", self.grants)
    }
}
