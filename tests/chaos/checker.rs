//! Reads a history and reports its faults: pure functions, which know nothing of locks but the beliefs of their
//! callers at each moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::event::{Done, Event, JOB_KEPT, Layout, Micros, Mode, Policy, Refusal, Said, Task, What};
use super::hold::{Hold, Pair, holds, overlaps, token_falls};

/// A loss that is signalled later than this after the end of the validity is late. A busy machine may add that much
/// to a timer.
pub const LATE: Duration = Duration::from_millis(300);
/// For calls that began before a fault, or are still coming back from it.
const SETTLED: Duration = Duration::from_millis(700);

#[derive(Clone, Debug, Default)]
pub struct Findings {
    pub holds: usize,
    pub writes: usize,
    pub reads: usize,
    /// Holds that only read, from their beginning or from a downgrade on.
    pub shared: usize,
    pub downgrades: usize,
    /// Two were valid at the same time, and one of them not only to read.
    pub overlaps: Vec<Pair>,
    /// The later grant has not the larger token, or, to read, a smaller one.
    pub token_falls: Vec<Pair>,
    /// Writes and reads after a later holder's write, and whether the fenced resource took them. The twin took all.
    pub stale: Vec<(Micros, Task)>,
    pub stale_accepted: Vec<(Micros, Task)>,
    /// Jobs that were done, and jobs that were done again while their marks had to count.
    pub jobs: usize,
    pub done_again: Vec<(Micros, String)>,
    /// Losses that were signalled too late, with their delays.
    pub late: Vec<(Micros, Task, Duration)>,
    pub latest_loss: Duration,
    pub losses: usize,
    /// Moments at which a majority lock was granted, or said to be held by another, while no majority was there.
    pub wrong_without_majority: Vec<Micros>,
    /// Strikes of some length during which no majority lock was granted.
    pub idle_strikes: Vec<Micros>,
    /// Tasks that did not get the lock again after a strike was healed, and the longest that one needed.
    pub starved: Vec<(Micros, Task)>,
    pub slowest_return: Duration,
    /// Refusals that no fault explains.
    pub wrong_refusals: Vec<(Micros, String)>,
    pub refused: BTreeMap<&'static str, usize>,
    pub strikes: usize,
}

/// Findings of each layout. Faults strike both.
#[derive(Clone, Debug, Default)]
pub struct ByLayout {
    pub plain: Findings,
    pub read_write: Findings,
}

impl ByLayout {
    pub fn check(events: &[Event], strike_is_long: Duration, back_within: Duration) -> Self {
        let of = |layout| {
            let its = |event: &&Event| match event.what {
                What::Said(task, _) => task.layout() == layout,
                What::Done(_) => true,
            };
            let events: Vec<Event> = events.iter().filter(its).cloned().collect();
            check(&events, strike_is_long, back_within)
        };
        Self {
            plain: of(Layout::Plain),
            read_write: of(Layout::ReadWrite),
        }
    }

    pub fn each(&self) -> [(Layout, &Findings); 2] {
        [
            (Layout::Plain, &self.plain),
            (Layout::ReadWrite, &self.read_write),
        ]
    }
}

pub fn check(events: &[Event], strike_is_long: Duration, back_within: Duration) -> Findings {
    let holds = holds(events);
    let strikes = strikes(events);
    let mut findings = Findings {
        holds: holds.len(),
        shared: holds.iter().filter(|hold| hold.is_shared_in_the_end()).count(),
        downgrades: holds.iter().filter(|hold| hold.downgraded.is_some()).count(),
        strikes: strikes.len(),
        overlaps: overlaps(&holds),
        token_falls: token_falls(&holds),
        ..Findings::default()
    };
    writes(events, &mut findings);
    jobs(events, &mut findings);
    losses(events, &mut findings);
    without_majority(events, &strikes, &mut findings);
    idle(events, &holds, &strikes, strike_is_long, &mut findings);
    returns(events, &strikes, back_within, &mut findings);
    for event in events {
        if let What::Said(_, Said::Refused { refusal, detail, .. }) = &event.what {
            *findings.refused.entry(word(*refusal)).or_default() += 1;
            if *refusal == Refusal::Wrong {
                findings.wrong_refusals.push((event.at, detail.clone()));
            }
        }
    }
    findings
}

const fn word(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Held => "held",
        Refusal::Unreachable => "unreachable",
        Refusal::TooLate => "too late",
        Refusal::Unfenced => "unfenced",
        Refusal::Waited => "waited",
        Refusal::Wrong => "wrong",
    }
}

fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// A write, or a read, is stale when the name has already been written under a later hold. A hold is later if its
/// grant began after this one's was complete. Tokens play no part in that. So it is known whether the fenced
/// resource, which knows nothing else, has caught it.
fn writes(events: &[Event], findings: &mut Findings) {
    let mut current: BTreeMap<Task, (Vec<String>, Micros, Micros)> = BTreeMap::new();
    let mut newest: BTreeMap<String, Micros> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Said(
                task,
                Said::Enter {
                    names,
                    began,
                    from,
                    until,
                    ..
                },
            ) if until > from => {
                current.insert(*task, (names.clone(), *began, *from));
            }
            What::Said(task, said @ (Said::Write { accepted, .. } | Said::Read { accepted, .. })) => {
                let Some((names, began, from)) = current.get(task) else {
                    continue;
                };
                let writes = matches!(said, Said::Write { .. });
                findings.writes += usize::from(writes);
                findings.reads += usize::from(!writes);
                let stale = names
                    .iter()
                    .any(|name| newest.get(name).is_some_and(|other| other > from));
                if stale {
                    findings.stale.push((event.at, *task));
                    if *accepted {
                        findings.stale_accepted.push((event.at, *task));
                    }
                }
                for name in names.iter().filter(|_| writes) {
                    let newest = newest.entry(name.clone()).or_insert(*began);
                    *newest = (*newest).max(*began);
                }
            }
            _ => {}
        }
    }
}

/// A mark was stored after its task had asked for the job, so it counts for as long from then on at least.
fn jobs(events: &[Event], findings: &mut Findings) {
    let mut done: BTreeMap<&str, Micros> = BTreeMap::new();
    for event in events {
        let What::Said(_, Said::Ran { job, began, ended }) = &event.what else {
            continue;
        };
        findings.jobs += 1;
        let before = done.insert(job, *began);
        if before.is_some_and(|before| *ended < before + micros(JOB_KEPT)) {
            findings.done_again.push((event.at, job.clone()));
        }
    }
}

/// Measured from a moment at which the task itself ran: a task that is stopped, or starved by a busy machine, can be
/// told nothing.
fn losses(events: &[Event], findings: &mut Findings) {
    for event in events {
        if let What::Said(task, Said::Lost { at, due }) = event.what {
            let late = Duration::from_micros(at.saturating_sub(due));
            findings.losses += 1;
            findings.latest_loss = findings.latest_loss.max(late);
            if late > LATE {
                findings.late.push((due, task, late));
            }
        }
    }
}

/// From the first blow of each strike until it was healed.
fn strikes(events: &[Event]) -> Vec<(Micros, Micros)> {
    let mut strikes = Vec::new();
    let mut begun = None;
    for event in events {
        match event.what {
            What::Done(Done::Break(_)) => {
                begun.get_or_insert(event.at);
            }
            What::Done(Done::Healed) => strikes.extend(begun.take().map(|begun| (begun, event.at))),
            _ => {}
        }
    }
    strikes
}

fn without_majority(events: &[Event], strikes: &[(Micros, Micros)], findings: &mut Findings) {
    let inside = |began: Micros, ended: Micros| {
        strikes
            .iter()
            .any(|(from, to)| began > from + micros(SETTLED) && ended < *to)
    };
    for event in events {
        let wrong = match &event.what {
            What::Said(
                _,
                Said::Enter {
                    began, from, until, ..
                },
            ) => until > from && inside(*began, *from),
            What::Said(
                _,
                Said::Refused {
                    policy: Policy::Red,
                    began,
                    ended,
                    refusal: Refusal::Held,
                    ..
                },
            ) => inside(*began, *ended),
            _ => false,
        };
        if wrong {
            findings.wrong_without_majority.push(event.at);
        }
    }
}

fn idle(
    events: &[Event],
    holds: &[Hold],
    strikes: &[(Micros, Micros)],
    long: Duration,
    findings: &mut Findings,
) {
    // If a process at the front of the queues is stopped, the queues wait for its call and a fallback question. These
    // take longer than a strike. A lock that it holds is granted once the lease has ended, unless another of its tasks is at
    // the front. Tasks that read and write share their names.
    let only_waited = |from: Micros, to: Micros| {
        let mut stopped = events.iter().filter_map(|event| match event.what {
            What::Done(Done::Stopped { worker }) if (from..=to).contains(&event.at) => {
                Some((worker, event.at))
            }
            _ => None,
        });
        stopped.any(|(worker, at)| {
            let held = |hold: &Hold| {
                hold.policy == Policy::Red
                    && hold.task.worker == worker
                    && (hold.from..hold.end).contains(&at)
            };
            let waits = |event: &Event| match &event.what {
                What::Said(
                    task,
                    Said::Refused {
                        policy: Policy::Red,
                        began,
                        ended,
                        ..
                    },
                ) => {
                    task.worker == worker
                        && task.layout() == Layout::ReadWrite
                        && (*began..*ended).contains(&at)
                }
                _ => false,
            };
            !holds.iter().any(held) || events.iter().any(waits)
        })
    };
    for (from, to) in strikes {
        if free_for(holds, *from, *to) < micros(long) || only_waited(*from, *to) {
            continue;
        }
        let granted = |hold: &Hold| hold.policy == Policy::Red && (*from..*to).contains(&hold.from);
        if !holds.iter().any(granted) {
            findings.idle_strikes.push(*from);
        }
    }
}

/// Time of a strike in which the name that was held for longest was free, or only read: everybody may have waited for that one.
fn free_for(holds: &[Hold], from: Micros, to: Micros) -> Micros {
    let held = |name: &String| -> Micros {
        let alone = holds
            .iter()
            .filter(|hold| hold.mode == Mode::Exclusive && hold.names.contains(name));
        let part = |hold: &Hold| {
            let end = hold.downgraded.unwrap_or(hold.end).min(to);
            end.saturating_sub(hold.from.max(from))
        };
        alone.map(part).sum()
    };
    let majority = holds.iter().filter(|hold| hold.policy == Policy::Red);
    let names: BTreeSet<&String> = majority.flat_map(|hold| &hold.names).collect();
    let free = names
        .into_iter()
        .map(|name| (to - from).saturating_sub(held(name)));
    free.min().unwrap_or(to - from)
}

/// After every strike, every task at work must have had a lock again before the next strike and within the bound.
fn returns(events: &[Event], strikes: &[(Micros, Micros)], within: Duration, findings: &mut Findings) {
    for (i, (_, healed)) in strikes.iter().enumerate() {
        let next = strikes.get(i + 1).map_or(Micros::MAX, |(begun, _)| *begun);
        let mut working: BTreeSet<Task> = BTreeSet::new();
        let mut slowest = 0;
        for event in events {
            let over = event.at >= next || matches!(event.what, What::Done(Done::Over));
            if over {
                break;
            }
            match &event.what {
                What::Said(task, Said::Hello) => {
                    working.insert(*task);
                }
                What::Said(task, Said::Gone) => {
                    working.remove(task);
                }
                What::Said(task, Said::Enter { from, .. }) if from > healed && working.remove(task) => {
                    slowest = slowest.max(from - healed);
                    if from - healed > micros(within) {
                        findings.starved.push((*healed, *task));
                    }
                }
                _ => {}
            }
        }
        findings.slowest_return = findings.slowest_return.max(Duration::from_micros(slowest));
        findings
            .starved
            .extend(working.into_iter().map(|task| (*healed, task)));
    }
}
