//! Search for an order of calls that a model allows.

use std::collections::{HashMap, HashSet};

use super::model::{Action, Model, State};

/// One call of a history. Moments are of any clock that all callers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub owner: usize,
    pub action: Action,
    pub invoked: u64,
    /// `None` while the outcome is unknown: the call stays open for ever.
    pub returned: Option<u64>,
}

/// Bound of a search: pairs of a set of calls and the state after them. A history that needs more is undecided.
pub const MOST_CONFIGURATIONS: usize = 200_000;

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// An order was found, after this number of configurations.
    Linearizable(usize),
    /// No order exists. The longest order that the model allows ends in `state`, and none of `next` may follow it.
    NonLinearizable {
        placed: usize,
        state: State,
        next: Vec<Call>,
    },
    /// The bound was exceeded, so nothing is known.
    Undecided,
}

/// Looks for an order of all calls that returned, and of those open calls that help.
pub fn search(model: Model, calls: &[Call], most: usize) -> Search {
    Searcher::new(model, calls).run(most)
}

struct Searcher {
    model: Model,
    /// In the order of invocations.
    calls: Vec<Call>,
    /// Places of calls that returned, in the order of their returns.
    by_return: Vec<usize>,
    /// A bit for each call that has a place in the order.
    placed: Vec<u64>,
    seen: HashSet<(Vec<u64>, State)>,
}

/// One call that was placed, and the candidates to follow it.
struct Frame {
    chosen: Option<usize>,
    state: State,
    /// The last one is tried first.
    candidates: Vec<usize>,
    /// All calls of `calls`, and of `by_return`, in front of these have their places.
    first: usize,
    first_return: usize,
}

/// End of an order of `placed` calls.
struct End {
    placed: usize,
    state: State,
    next: Vec<Call>,
}

/// Calls of the owners with at least one call that returned. The calls of the other owners only take the lock from
/// others. So an order with them is an order without them, too.
fn needed(calls: &[Call]) -> Vec<Call> {
    let mut returned: HashMap<usize, bool> = HashMap::new();
    for call in calls {
        *returned.entry(call.owner).or_default() |= call.returned.is_some();
    }
    let is_needed = |call: &&Call| returned[&call.owner];
    calls.iter().filter(is_needed).copied().collect()
}

impl Searcher {
    fn new(model: Model, calls: &[Call]) -> Self {
        let mut calls = needed(calls);
        calls.sort_by_key(|call| call.invoked);
        let mut by_return: Vec<usize> = (0..calls.len())
            .filter(|place| calls[*place].returned.is_some())
            .collect();
        by_return.sort_by_key(|place| calls[*place].returned);
        Self {
            model,
            placed: vec![0; calls.len().div_ceil(64)],
            calls,
            by_return,
            seen: HashSet::new(),
        }
    }

    fn run(mut self, most: usize) -> Search {
        let root = self.frame(None, State::default(), 0, 0);
        let mut deepest = self.end_of(0, &root);
        let mut stack = vec![root];
        while let Some(frame) = stack.last_mut() {
            if frame.first_return == self.by_return.len() {
                return Search::Linearizable(self.seen.len());
            }
            let Some(candidate) = frame.candidates.pop() else {
                if let Some(place) = stack.pop().and_then(|frame| frame.chosen) {
                    self.flip(place);
                }
                continue;
            };
            let Some(next) = self.place(candidate, frame) else {
                continue;
            };
            if self.seen.len() > most {
                return Search::Undecided;
            }
            if stack.len() > deepest.placed {
                deepest = self.end_of(stack.len(), &next);
            }
            stack.push(next);
        }
        let End { placed, state, next } = deepest;
        Search::NonLinearizable { placed, state, next }
    }

    /// Gives a call the next place, if the model allows that and it leads to a configuration that was not tried.
    fn place(&mut self, candidate: usize, frame: &Frame) -> Option<Frame> {
        let Call { owner, action, .. } = self.calls[candidate];
        let state = self.model.apply(&frame.state, owner, action)?;
        self.flip(candidate);
        if !self.seen.insert((self.placed.clone(), state.clone())) {
            self.flip(candidate);
            return None;
        }
        Some(self.frame(Some(candidate), state, frame.first, frame.first_return))
    }

    fn end_of(&self, placed: usize, frame: &Frame) -> End {
        let next = frame.candidates.iter().rev().map(|place| self.calls[*place]);
        End {
            placed,
            state: frame.state.clone(),
            next: next.collect(),
        }
    }

    fn frame(&self, chosen: Option<usize>, state: State, first: usize, first_return: usize) -> Frame {
        let is_placed = |place: usize| self.is_placed(place);
        let first = (first..self.calls.len()).find(|place| !is_placed(*place));
        let first = first.unwrap_or(self.calls.len());
        let rest = first_return..self.by_return.len();
        let first_return = rest.clone().find(|place| !is_placed(self.by_return[*place]));
        let first_return = first_return.unwrap_or(rest.end);
        // Nothing may be placed that was invoked after another one returned that has no place.
        let earliest = self.by_return.get(first_return);
        let earliest = earliest.and_then(|place| self.calls[*place].returned);
        let may_follow = |place: &usize| earliest.is_none_or(|end| self.calls[*place].invoked <= end);
        let mut candidates: Vec<usize> = (first..self.calls.len())
            .take_while(may_follow)
            .filter(|place| !is_placed(*place))
            .collect();
        // Mostly the first to return was the first to take effect. An open call comes last.
        candidates.sort_by_key(|place| std::cmp::Reverse(self.calls[*place].returned.unwrap_or(u64::MAX)));
        Frame {
            chosen,
            state,
            candidates,
            first,
            first_return,
        }
    }

    fn is_placed(&self, place: usize) -> bool {
        self.placed[place / 64] & (1 << (place % 64)) != 0
    }

    fn flip(&mut self, place: usize) {
        self.placed[place / 64] ^= 1 << (place % 64);
    }
}
