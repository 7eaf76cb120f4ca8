//! The state machine: the open steps of a state, and the promises.

use stateright::{Model, Property};

use super::scope::Scope;
use super::state::{Master, Phase, State, WAITERS, Waiter};
use super::step::Step;

/// No round wins before an older waiter that was placed when the round began.
pub(super) const ORDER: &str = "nobody is overtaken by who came later";
/// Everybody has had the lock, or has given up.
pub(super) const DONE: &str = "everybody is done";
/// There are no more rounds than the scope tells.
pub(super) const FEW: &str = "rounds are few";

/// The queue within a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(super) scope: Scope,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Ask { waiter: usize },
    AskInTime { waiter: usize },
    Execute { waiter: usize, master: usize },
    Hear { waiter: usize, master: usize },
    GiveUp { waiter: usize },
    Decide { waiter: usize },
    LetGo { master: usize },
}

impl Model for Queue {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let scope = &self.scope;
        let master = |number: usize| Master {
            shut: scope.shut[number],
            foreign: scope.foreign,
            ..Master::default()
        };
        let waiter = |number: usize| Waiter {
            again: scope.again[number],
            phase: if number < scope.waiters {
                Phase::Idle
            } else {
                Phase::Gone
            },
            ..Waiter::default()
        };
        let mut masters = std::array::from_fn(master);
        masters.sort_unstable();
        let state = State {
            masters,
            waiters: std::array::from_fn(waiter),
            rounds: 0,
            may_give_up: scope.may_give_up,
            overtaken: false,
        };
        // Requests may be long on their way, so the begin of a round matters only for the order of the waiters.
        let mut step = Step { scope, state };
        for waiter in (0..scope.waiters).filter(|waiter| *waiter == 0 || !scope.order) {
            step.ask(waiter);
        }
        vec![step.state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // The promise that a weaker form breaks is broken.
        if state.overtaken || state.rounds > self.scope.rounds {
            return;
        }
        for (waiter, one) in state.waiters.iter().enumerate() {
            let called = || state.count(waiter, |link| link.open) >= self.scope.quorum[waiter];
            if one.phase == Phase::Idle || one.phase == Phase::Waiting && called() {
                actions.push(Action::Ask { waiter });
            }
            let silent = state.masters.iter().any(|master| master.foreign);
            if one.phase == Phase::Waiting && one.again > 0 && !silent {
                actions.push(Action::AskInTime { waiter });
            }
            if self.scope.decided_later && one.phase == Phase::Asking {
                actions.push(Action::Decide { waiter });
            }
            if state.may_give_up && one.waits() {
                actions.push(Action::GiveUp { waiter });
            }
        }
        for (master, one) in state.masters.iter().enumerate() {
            if one.foreign {
                actions.push(Action::LetGo { master });
            }
            for (waiter, link) in one.links.iter().enumerate() {
                if !link.line.is_empty() {
                    actions.push(Action::Execute { waiter, master });
                }
                let may_leave = || {
                    let stands = one.has_queued(waiter) && !link.line.has_leave();
                    !self.scope.calls && stands && state.waiters[waiter].has_ended()
                };
                if link.calls > 0 || may_leave() {
                    actions.push(Action::Hear { waiter, master });
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut step = Step {
            scope: &self.scope,
            state: *state,
        };
        match action {
            Action::Ask { waiter } => step.ask(waiter),
            Action::AskInTime { waiter } => step.ask_in_time(waiter),
            Action::Execute { waiter, master } => step.execute(waiter, master),
            Action::Hear { waiter, master } => step.hear(waiter, master),
            Action::Decide { waiter } => {
                step.decide(waiter);
                if step.state.waiters[waiter].phase == Phase::Asking {
                    return None;
                }
            }
            Action::LetGo { master } => step.state.masters[master].foreign = false,
            Action::GiveUp { waiter } => step.give_up(waiter),
        }
        step.tidy();
        // Masters that are alike may change places.
        step.state.masters.sort_unstable();
        Some(step.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always(FEW, |model: &Self, state: &State| {
            state.rounds <= model.scope.rounds
        })];
        if self.scope.order {
            properties.push(Property::always(ORDER, |_, state: &State| !state.overtaken));
        } else {
            properties.push(Property::eventually(DONE, |model: &Self, state: &State| {
                let mut others = (0..WAITERS).filter(|waiter| !model.scope.wants_both(*waiter));
                others.all(|waiter| state.waiters[waiter].has_ended())
            }));
        }
        let witnesses = witnesses();
        let wanted = witnesses
            .into_iter()
            .filter(|witness| self.scope.witnesses.contains(&witness.name));
        properties.extend(wanted);
        properties
    }
}

/// Witnesses: states that are possible.
fn witnesses() -> [Property<Queue>; 5] {
    [
        Property::sometimes("a second round", |_, state: &State| {
            usize::from(state.rounds) > WAITERS
        }),
        Property::sometimes("nobody had to ask again", move |_, state: &State| {
            usize::from(state.rounds) == WAITERS
                && state.waiters.iter().all(|waiter| waiter.phase == Phase::Done)
        }),
        Property::sometimes("a younger one begins after a placed one", |_, state: &State| {
            state.waiters.iter().any(|waiter| waiter.after != 0)
        }),
        Property::sometimes("one gives up, and the others are done", |_, state: &State| {
            let gone = state.waiters.iter().filter(|waiter| waiter.phase == Phase::Gone);
            gone.count() == 1 && state.waiters.iter().all(|waiter: &Waiter| waiter.has_ended())
        }),
        Property::sometimes(
            "one waits for another name, and the others are done",
            |_, state: &State| {
                state.waiters[0].phase == Phase::Waiting
                    && state.waiters[1..]
                        .iter()
                        .all(|waiter: &Waiter| waiter.has_ended())
            },
        ),
    ]
}
