//! The calls of a history, as the linearizability checker wants them. It knows neither leases nor validity.
//!
//! A moment is one of the clock that all processes share, and an owner is a hold. Holds that only read are left out,
//! as none of the models has readers. A hold that was granted to write counts until its end, since no other writer
//! may come in before. A refused call has no effect, and an acquire of unknown outcome takes nothing that anybody
//! needs.
//!
//! A hold that its task gave up in time ends by a release. Every other one expires: at a moment that its own clock named, or
//! after it was last seen valid where it was lost before that moment.

use std::collections::BTreeMap;

use super::event::{Event, Micros, Mode, Said, Task, What};
use super::settings::PERMITS;
use crate::support::linearizability::{Action, Call, Log};

/// Promises that a history is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    pub exclusion: bool,
    pub tokens: bool,
}

/// One hold of a task, as far as the book tells.
struct Life {
    owner: usize,
    names: Vec<String>,
    token: u64,
    /// Invocation and return of the acquire.
    began: Micros,
    from: Micros,
    /// The last look that found validity, and the end that it named.
    looked: Option<Micros>,
    until: Micros,
    lost: bool,
    left: Option<Micros>,
}

/// Open holds, and the calls of ended holds.
struct Reading {
    promises: Promises,
    open: BTreeMap<Task, Life>,
    log: Log,
}

/// Calls on locks that exclude each other or have tokens. Without both promises there is nothing to judge.
pub fn of(events: &[Event], promises: Promises) -> Log {
    let mut reading = Reading {
        promises,
        open: BTreeMap::new(),
        log: Log::default(),
    };
    if promises.exclusion || promises.tokens {
        for (owner, event) in events.iter().enumerate() {
            if let What::Said(task, said) = &event.what {
                reading.note(owner, event.at, *task, said);
            }
        }
    }
    let left = reading.open.keys().copied().collect::<Vec<_>>();
    for task in left {
        reading.end(task, None);
    }
    reading.log
}

impl Reading {
    fn note(&mut self, owner: usize, at: Micros, task: Task, said: &Said) {
        match said {
            Said::Enter { mode, .. } => {
                self.end(task, None);
                if *mode == Mode::Exclusive {
                    self.open.insert(task, Life::begin(owner, said));
                }
            }
            Said::Write { looked, until, .. } | Said::Read { looked, until, .. } => {
                if let Some(life) = self.open.get_mut(&task).filter(|_| until > looked) {
                    life.looked = Some(*looked);
                    life.until = life.until.max(*until);
                }
            }
            Said::Lost { .. } => {
                self.open.entry(task).and_modify(|life| life.lost = true);
            }
            Said::Leave { at } => {
                self.open.entry(task).and_modify(|life| life.left = Some(*at));
            }
            Said::Unlocked { kind } => self.end(task, Some((kind, at))),
            Said::Gone => self.end(task, None),
            Said::Hello | Said::Downgrade { .. } | Said::Refused { .. } | Said::Ran { .. } => {}
        }
    }

    /// Notes that the task has nothing any more, with the outcome of its unlock and the time of that outcome.
    fn end(&mut self, task: Task, unlocked: Option<(&'static str, Micros)>) {
        if let Some(life) = self.open.remove(&task) {
            life.end(unlocked, self.promises, &mut self.log);
        }
    }
}

impl Life {
    fn begin(owner: usize, enter: &Said) -> Self {
        let Said::Enter {
            names,
            token,
            began,
            from,
            until,
            ..
        } = enter
        else {
            unreachable!("a hold begins with an entry");
        };
        Self {
            owner,
            names: names.clone(),
            token: *token,
            // The end of a broken lock's validity tells nothing of its beginning.
            began: (*began).min(*from),
            from: *from,
            looked: (until > from).then_some(*from),
            until: *until,
            lost: false,
            left: None,
        }
    }

    fn end(self, unlocked: Option<(&'static str, Micros)>, promises: Promises, log: &mut Log) {
        let call = |action, invoked, returned| Call {
            owner: self.owner,
            action,
            invoked,
            returned,
        };
        let token = promises.tokens.then_some(self.token);
        let acquire = call(Action::Acquire { token }, self.began, Some(self.from));
        let was_lost = self.lost || unlocked.is_some_and(|(kind, _)| kind == "was-lost");
        let expired = match self.looked {
            Some(_) if !promises.exclusion => self.began,
            Some(looked) if was_lost => looked,
            Some(_) => self.until,
            // It was over at the first look.
            None => self.began,
        };
        let left = self.left.filter(|left| *left < expired);
        let end = match (left, unlocked) {
            (Some(left), Some(("released", at))) => call(Action::Release, left, Some(at)),
            (Some(left), _) => call(Action::Release, left, None),
            (None, _) => call(Action::Expire, expired, None),
        };
        for name in &self.names {
            log.lock(name, acquire);
            log.lock(name, end);
            if let Some((permits, _)) = name.split_once(":seat:") {
                log.permit(permits, PERMITS.1 as usize, acquire);
                log.permit(permits, PERMITS.1 as usize, end);
            }
        }
    }
}
