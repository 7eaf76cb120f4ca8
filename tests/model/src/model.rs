//! The state machine: the open steps of a state, and the effect of each.

use std::fmt;

use stateright::{Model, Property};

use crate::client::{Client, Phase};
use crate::link::{Link, Slot, Verb};
use crate::node::Node;
use crate::properties;
use crate::scope::{Loss, Scope};
use crate::state::{Aside, CLIENTS, Column, NODES, Owner, State};
use crate::step::Step;

/// The protocol within a scope.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Bounds of the exploration.
    pub scope: Scope,
    /// Whether states that differ in the order of like nodes only are one. Off, nodes keep their
    /// numbers, so that a trace can be read.
    pub unordered: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Action {
    Attempt { client: usize },
    GiveUp { client: usize },
    Read { client: usize, node: usize },
    Extend { client: usize },
    ExtendShortly { client: usize },
    Enter { client: usize },
    Leave { client: usize },
    Unlock { client: usize },
    HandOver { client: usize },
    TakeOver { client: usize },
    DropOldGuard { client: usize },
    Bury { client: usize, attempt: u8 },
    Execute { client: usize, node: usize },
    ExecuteAbandoned { client: usize, node: usize },
    Break { client: usize, node: usize },
    Reconnect { client: usize, node: usize },
    Restart { node: usize, loss: Loss },
    Force { owner: Owner },
    ForceAt { node: usize },
    Tick,
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let scope = &self.scope;
        let column = Column {
            node: Node::default(),
            links: std::array::from_fn(|_| Link::new()),
        };
        vec![State {
            columns: std::array::from_fn(|_| column),
            clients: std::array::from_fn(|client| Client::new(scope, client)),
            breaks: scope.breaks,
            restarts: scope.restarts,
            forced: None,
            now: 0,
            issued: 0,
            breaches: 0,
            events: Aside::default(),
            refused: Aside::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for client in 0..CLIENTS {
            self.of_client(state, client, actions);
        }
        for (node, column) in state.columns.iter().enumerate() {
            for (client, link) in column.links.iter().enumerate() {
                of_link(state, client, node, link, actions);
            }
            if state.restarts > 0 {
                actions.extend(
                    self.scope
                        .losses
                        .iter()
                        .map(|loss| Action::Restart { node, loss: *loss }),
                );
            }
            if column.node.force_due {
                actions.push(Action::ForceAt { node });
            }
            if self.scope.force
                && state.forced.is_none()
                && let Some(owner) = column.node.holder
            {
                actions.push(Action::Force { owner });
            }
        }
        if self.scope.time && (self.scope.clock_until == 0 || state.now < self.scope.clock_until) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut step = Step {
            scope: &self.scope,
            state: *state,
        };
        match action {
            Action::Attempt { client } => step.attempt(client),
            Action::GiveUp { client } if state.clients[client].entering => step.cancel_entry(client),
            Action::GiveUp { client } if state.clients[client].phase == Phase::Between => {
                step.give_up_next(client);
            }
            Action::GiveUp { client } => step.roll_back(client),
            Action::Read { client, node } => read(&mut step, client, node),
            Action::Extend { client } => step.extend(client, Verb::Extend),
            Action::ExtendShortly { client } => step.extend(client, Verb::ExtendShortly),
            Action::Enter { client } => step.enter(client),
            Action::Leave { client } => step.leave(client),
            Action::Unlock { client } => step.unlock(client),
            Action::HandOver { client } => step.hand_over(client),
            Action::TakeOver { client } => step.take_over(client),
            Action::DropOldGuard { client } => step.drop_old_guard(client),
            Action::Bury { client, attempt } => step.bury(client, attempt),
            Action::Execute { client, node } => step.execute(client, node),
            Action::ExecuteAbandoned { client, node } => step.execute_abandoned(client, node),
            Action::Break { client, node } => step.break_link(client, node),
            Action::Reconnect { client, node } => step.reconnect(client, node),
            Action::Restart { node, loss } => step.restart(node, loss),
            Action::Force { owner } => step.force(owner),
            Action::ForceAt { node } => step.force_at(node),
            Action::Tick => step.tick(),
        }
        if self.unordered && self.scope.is_symmetric() {
            step.state.columns.sort_unstable();
        }
        Some(step.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.scope)
    }
}

impl Protocol {
    fn of_client(&self, state: &State, client: usize, actions: &mut Vec<Action>) {
        let one = &state.clients[client];
        match one.phase {
            Phase::Idle if one.attempts < self.scope.attempts[client] => {
                actions.push(Action::Attempt { client });
            }
            Phase::Idle => {}
            Phase::Acquiring | Phase::Raising => actions.push(Action::GiveUp { client }),
            Phase::Holding if one.entering => actions.push(Action::GiveUp { client }),
            Phase::Holding => {
                if one.extensions_left > 0 {
                    actions.push(Action::Extend { client });
                }
                if one.extensions_left > 0 && self.scope.shorter {
                    actions.push(Action::ExtendShortly { client });
                }
                if one.entries_left > 0 {
                    actions.push(Action::Enter { client });
                }
                actions.push(if one.count > 1 {
                    Action::Leave { client }
                } else {
                    Action::Unlock { client }
                });
            }
            Phase::Between => {
                if one.left > 0 && one.extensions_left > 0 {
                    actions.push(Action::Extend { client });
                }
                actions.extend([Action::TakeOver { client }, Action::GiveUp { client }]);
            }
        }
        self.of_grant(one, client, actions);
        let lapsed = (0..one.attempts).filter(|attempt| one.lapsed & 1 << attempt != 0);
        actions.extend(lapsed.map(|attempt| Action::Bury { client, attempt }));
    }

    fn of_grant(&self, one: &Client, client: usize, actions: &mut Vec<Action>) {
        let rules = &self.scope.rules;
        if one.phase != Phase::Holding || one.entering {
            return;
        }
        if one.passes_left > 0 && one.count == 1 && (!self.scope.fenced || one.token < one.top) {
            actions.push(if rules.ends_before_next {
                Action::HandOver { client }
            } else {
                Action::TakeOver { client }
            });
        }
        if one.passes_left < self.scope.passes[client] && !rules.old_guards_idle {
            actions.push(Action::DropOldGuard { client });
        }
    }
}

fn of_link(state: &State, client: usize, node: usize, link: &Link, actions: &mut Vec<Action>) {
    if matches!(link.slot, Slot::Answered(_)) {
        actions.push(Action::Read { client, node });
    }
    if !link.queue.is_empty() {
        actions.push(Action::Execute { client, node });
    }
    if !link.abandoned.is_empty() {
        actions.push(Action::ExecuteAbandoned { client, node });
    }
    if !link.up {
        actions.push(Action::Reconnect { client, node });
    }
    // A connection breaks only with requests on it, or while its client is idle. At most one socket of a link is
    // abandoned.
    let carries =
        !link.queue.is_empty() || link.slot == Slot::Unasked && state.clients[client].phase == Phase::Idle;
    if state.breaks > 0 && link.up && link.abandoned.is_empty() && carries {
        actions.push(Action::Break { client, node });
    }
}

fn read(step: &mut Step<'_>, client: usize, node: usize) {
    let Slot::Answered(answer) = step.state.columns[node].links[client].slot else {
        return;
    };
    match step.state.clients[client].phase {
        Phase::Idle => {}
        Phase::Acquiring => step.read_acquired(client, node, answer),
        Phase::Raising => step.read_raised(client, node, answer),
        Phase::Holding if step.state.clients[client].entering => step.read_entered(client, node, answer),
        Phase::Holding | Phase::Between => step.read_extended(client, node, answer),
    }
}

impl State {
    /// Whether nothing is held, under way or pending.
    pub(crate) fn is_quiet(&self) -> bool {
        let idle = |client: &Client| client.phase == Phase::Idle && client.lapsed == 0;
        self.clients.iter().all(idle)
            && self
                .columns
                .iter()
                .flat_map(|column| &column.links)
                .all(Link::is_quiet)
    }
}

/// Clients are A and B, their attempts A1, A2.
const NAMES: [&str; CLIENTS] = ["A", "B"];

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", NAMES[self.client()], self.attempt() + 1)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |client: usize| NAMES[client];
        match *self {
            Self::Attempt { client } => write!(f, "{} begins an attempt", name(client)),
            Self::GiveUp { client } => write!(f, "{} gives up", name(client)),
            Self::Read { client, node } => write!(f, "{} reads the answer of {node}", name(client)),
            Self::Extend { client } => write!(f, "{} begins an extension", name(client)),
            Self::ExtendShortly { client } => write!(f, "{} begins an extension by one tick", name(client)),
            Self::Enter { client } => write!(f, "{} enters again", name(client)),
            Self::Leave { client } => write!(f, "{} leaves once", name(client)),
            Self::Unlock { client } => write!(f, "{} unlocks", name(client)),
            Self::HandOver { client } => write!(f, "a hold of {} ends, to pass its grant on", name(client)),
            Self::TakeOver { client } => write!(f, "the next hold of {} takes the grant over", name(client)),
            Self::DropOldGuard { client } => {
                write!(f, "{} drops a guard of a hold that was passed on", name(client))
            }
            Self::Bury { client, attempt } => {
                write!(
                    f,
                    "{} releases what lapsed of {}{}",
                    name(client),
                    name(client),
                    attempt + 1
                )
            }
            Self::Execute { client, node } => write!(f, "{node} executes a request of {}", name(client)),
            Self::ExecuteAbandoned { client, node } => {
                write!(
                    f,
                    "{node} executes a request from an abandoned socket of {}",
                    name(client)
                )
            }
            Self::Break { client, node } => write!(f, "the connection of {} to {node} breaks", name(client)),
            Self::Reconnect { client, node } => write!(f, "{} connects to {node} again", name(client)),
            Self::Restart { node, loss } => write!(f, "{node} restarts and loses: {loss:?}"),
            Self::Force { owner } => write!(f, "somebody sets out to force {owner} out"),
            Self::ForceAt { node } => write!(f, "the force arrives at {node}"),
            Self::Tick => f.write_str("a tick passes"),
        }
    }
}

const _: () = assert!(NODES == 3, "quorums and allowances here are those of three nodes");
