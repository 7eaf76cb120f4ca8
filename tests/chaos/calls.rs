//! The calls of a history, as the linearizability checker wants them. It knows neither leases nor validity.
//!
//! A moment is one of the clock that all processes share, and an owner is a hold. Holds that only read are left out, as
//! none of the models has readers; one that was granted to write counts until its end, since no other
//! writer may come in before. A refused call has no effect, and an acquire of unknown outcome takes nothing that anybody needs.
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

/// Calls on locks that exclude each other or have tokens. Where neither is promised there is nothing to judge.
pub fn of(events: &[Event], promises: Promises) -> Log {
    let mut log = Log::default();
    if !promises.exclusion && !promises.tokens {
        return log;
    }
    let mut open: BTreeMap<Task, Life> = BTreeMap::new();
    for (owner, event) in events.iter().enumerate() {
        let What::Said(task, said) = &event.what else {
            continue;
        };
        match said {
            Said::Enter { mode, .. } => {
                let before = open.remove(task);
                before
                    .into_iter()
                    .for_each(|life| life.end(None, promises, &mut log));
                if *mode == Mode::Exclusive {
                    open.insert(*task, Life::begin(owner, said));
                }
            }
            Said::Write { looked, until, .. } | Said::Read { looked, until, .. } => {
                if let Some(life) = open.get_mut(task).filter(|_| until > looked) {
                    life.looked = Some(*looked);
                    life.until = life.until.max(*until);
                }
            }
            Said::Lost { .. } => {
                open.entry(*task).and_modify(|life| life.lost = true);
            }
            Said::Leave { at } => {
                open.entry(*task).and_modify(|life| life.left = Some(*at));
            }
            Said::Unlocked { kind } => {
                let life = open.remove(task);
                let ended = Some((*kind, event.at));
                life.into_iter()
                    .for_each(|life| life.end(ended, promises, &mut log));
            }
            Said::Gone => {
                let life = open.remove(task);
                life.into_iter()
                    .for_each(|life| life.end(None, promises, &mut log));
            }
            Said::Hello | Said::Downgrade { .. } | Said::Refused { .. } | Said::Ran { .. } => {}
        }
    }
    open.into_values()
        .for_each(|life| life.end(None, promises, &mut log));
    log
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

    /// With what came of giving it up, and when that was known.
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
