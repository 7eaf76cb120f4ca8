//! The state machine: the open steps of a state, and the effect of each.

use std::fmt;

use stateright::{Model, Property};

use super::properties;
use super::scope::Scope;
use super::state::{ATTEMPTS, Client, Column, Kind, Link, Phase, Slot, State};
use super::step::Step;
use crate::state::Aside;

/// Read and write locks within a scope.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(super) scope: Scope,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Attempt { client: usize },
    Leave { client: usize },
    Extend { client: usize },
    Downgrade { client: usize },
    CleanUp { client: usize, attempt: u8 },
    Read { client: usize, master: usize },
    Execute { client: usize, master: usize },
    ExecuteAbandoned { client: usize, master: usize },
    Break { client: usize, master: usize },
    Reconnect { client: usize, master: usize },
    Restart { master: usize },
    Tick,
}

impl Model for Shared {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            columns: [Column::default(); super::state::MASTERS],
            clients: std::array::from_fn(|client| Client::new(&self.scope, client)),
            restarts: self.scope.restarts,
            breaches: 0,
            events: Aside::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (client, one) in state.clients.iter().enumerate() {
            self.of_client(one, client, actions);
        }
        for (master, column) in state.columns.iter().enumerate() {
            for (client, link) in column.links.iter().enumerate() {
                of_link(state, client, master, link, actions);
            }
            if state.restarts > 0 {
                actions.push(Action::Restart { master });
            }
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut step = Step {
            scope: &self.scope,
            state: *state,
        };
        match action {
            Action::Attempt { client } => step.attempt(client),
            Action::Leave { client } => step.leave(client),
            Action::Extend { client } => step.extend(client),
            Action::Downgrade { client } => step.downgrade(client),
            Action::CleanUp { client, attempt } => step.clean_up(client, attempt),
            Action::Read { client, master } => step.read(client, master),
            Action::Execute { client, master } => step.execute(client, master),
            Action::ExecuteAbandoned { client, master } => step.execute_abandoned(client, master),
            Action::Break { client, master } => step.break_link(client, master),
            Action::Reconnect { client, master } => step.reconnect(client, master),
            Action::Restart { master } => step.restart(master),
            Action::Tick => step.tick(),
        }
        step.tidy();
        if self.scope.is_symmetric() {
            step.state.columns.sort_unstable();
        }
        Some(step.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.scope)
    }
}

impl Shared {
    fn of_client(&self, one: &Client, client: usize, actions: &mut Vec<Action>) {
        match one.phase {
            Phase::Idle if one.attempts < self.scope.attempts[client] => {
                actions.push(Action::Attempt { client });
            }
            Phase::Idle => {}
            Phase::Acquiring => actions.push(Action::Leave { client }),
            Phase::Holding => {
                actions.push(Action::Leave { client });
                if one.extensions_left > 0 {
                    actions.push(Action::Extend { client });
                }
                if self.scope.downgrades && one.kind == Kind::Write && !one.downgrading {
                    actions.push(Action::Downgrade { client });
                }
            }
        }
        let attempts = (0..ATTEMPTS).filter_map(|attempt| u8::try_from(attempt).ok());
        actions.extend(
            attempts
                .filter(|attempt| one.lapsed & 1 << attempt != 0)
                .map(|attempt| Action::CleanUp { client, attempt }),
        );
    }
}

fn of_link(state: &State, client: usize, master: usize, link: &Link, actions: &mut Vec<Action>) {
    if matches!(link.slot, Slot::Answered(_)) {
        actions.push(Action::Read { client, master });
    }
    if !link.line.is_empty() {
        actions.push(Action::Execute { client, master });
    }
    if !link.abandoned.is_empty() {
        actions.push(Action::ExecuteAbandoned { client, master });
    }
    if link.down {
        actions.push(Action::Reconnect { client, master });
    }
    // The break of a connection without requests shows only in later requests that are not sent. At most one socket
    // of a link is abandoned.
    let idle = link.slot == Slot::Unasked && state.clients[client].phase != Phase::Acquiring;
    let matters = !link.line.is_empty() || idle;
    if state.clients[client].breaks_left > 0 && !link.down && link.abandoned.is_empty() && matters {
        actions.push(Action::Break { client, master });
    }
}

impl State {
    /// Whether nothing is held, under way or pending.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |client: &Client| client.phase == Phase::Idle && client.lapsed == 0;
        let nothing = |link: &Link| link.line.is_empty() && link.abandoned.is_empty() && link.owed.is_empty();
        self.clients.iter().all(idle) && self.columns.iter().flat_map(|column| &column.links).all(nothing)
    }
}

/// Clients are A, B and C.
fn name(client: usize) -> char {
    ['A', 'B', 'C'][client]
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Attempt { client } => write!(f, "{} begins an attempt", name(client)),
            Self::Leave { client } => write!(f, "{} gives back what it has or asked for", name(client)),
            Self::Extend { client } => write!(f, "{} begins an extension", name(client)),
            Self::Downgrade { client } => write!(f, "{} downgrades", name(client)),
            Self::CleanUp { client, .. } => write!(f, "{} releases what lapsed", name(client)),
            Self::Read { client, master } => write!(f, "{} reads the answer of {master}", name(client)),
            Self::Execute { client, master } => write!(f, "{master} executes a request of {}", name(client)),
            Self::ExecuteAbandoned { client, master } => {
                let whose = name(client);
                write!(
                    f,
                    "{master} executes a request from an abandoned socket of {whose}"
                )
            }
            Self::Break { client, master } => {
                write!(f, "the connection of {} to {master} breaks", name(client))
            }
            Self::Reconnect { client, master } => write!(f, "{} connects to {master} again", name(client)),
            Self::Restart { master } => write!(f, "{master} restarts and has lost the key"),
            Self::Tick => f.write_str("a tick passes"),
        }
    }
}
