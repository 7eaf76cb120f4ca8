//! The charter: clients whose leases differ, a master that restarts empty, and a raise of the longest
//! lease that anybody may have.
//!
//! Three nodes, `RedLock`, one name. A wants a lease of [`LONG`] ticks and first agrees upon it; B, and
//! any client that comes in its place and knows nothing, has leases of [`SHORT`] ticks, which need no
//! agreement. Each node executes a request at a time of its own, and an answer is read when it is given;
//! B tells what it reckoned with when it sent the request. Nothing is rolled back, and nobody ever puts
//! the charter back where it was forgotten: what holds here holds with both.

use std::fmt;

use stateright::{Model, Property};

use crate::run::{Verdict, explored, refuted};

const NODES: usize = 3;
const QUORUM: usize = 2;
/// B's lease, and the longest one that needs no agreement, in ticks.
const SHORT: u8 = 1;
/// A's lease.
const LONG: u8 = 2;
/// Attempts of A, and of B and its successors.
const ATTEMPTS: [u8; 2] = [1, 2];

/// The rules that are switches here.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
struct Rules {
    /// A node refuses who reckons with less than it stores.
    checked: bool,
    /// A lease is asked for only once it is agreed upon.
    in_force_first: bool,
    /// A vote is judged by what is known when the votes are counted. Off: when it is given.
    judged_at_the_count: bool,
}

const PROTOCOL: Rules = Rules {
    checked: true,
    in_force_first: true,
    judged_at_the_count: true,
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charter {
    name: &'static str,
    rules: Rules,
    /// What every node stores at first.
    stored: Stored,
}

/// What a node stores of the charter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Stored {
    Nothing,
    Pending,
    InForce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Holder {
    A,
    B,
}

/// One node, and the requests that are on their way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    stored: Stored,
    holder: Option<(Holder, u8)>,
    /// Ticks since its start, not counted beyond the longest lease.
    age: u8,
    /// Whether A has seen the charter here.
    seen: bool,
    /// A's acquire, and B's.
    asked: [Vote; 2],
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Vote {
    Unasked,
    /// On its way, telling that its client reckons with leases of so many ticks.
    Sent(u8),
    /// Granted; whether the vote was good when it was given.
    Granted(bool),
    Refused,
}

/// One client: the ticks since its round began, and the validity that is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    trying: bool,
    elapsed: u8,
    left: u8,
    reckons: u8,
    attempts_left: u8,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    nodes: [Node; NODES],
    clients: [Client; 2],
    /// A knows that its lease is agreed upon.
    in_force: bool,
    restarts: u8,
}

const A: usize = 0;
const B: usize = 1;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Write { node: usize },
    Mark { node: usize },
    Attempt { client: usize },
    Execute { client: usize, node: usize },
    Count { client: usize },
    GiveUp { client: usize },
    Replaced,
    Restart { node: usize },
    Tick,
}

const ONE_HOLD: &str = "one valid hold";
const LONG_HOLD: &str = "a long lease is granted";
const TAKEN_OVER: &str = "a client takes the charter over and is granted";

impl Model for Charter {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = Node {
            stored: self.stored,
            holder: None,
            age: LONG,
            seen: false,
            asked: [Vote::Unasked; 2],
        };
        let client = |number: usize, reckons| Client {
            reckons,
            attempts_left: ATTEMPTS[number],
            ..Client::default()
        };
        vec![State {
            nodes: [node; NODES],
            clients: [client(A, LONG), client(B, SHORT)],
            in_force: false,
            restarts: 1,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (node, one) in state.nodes.iter().enumerate() {
            if !one.seen {
                actions.push(Action::Write { node });
            }
            if state.in_force && one.stored < Stored::InForce {
                actions.push(Action::Mark { node });
            }
            for client in [A, B] {
                if let Vote::Sent(_) = one.asked[client] {
                    actions.push(Action::Execute { client, node });
                }
            }
            if state.restarts > 0 {
                actions.push(Action::Restart { node });
            }
        }
        for (client, one) in state.clients.iter().enumerate() {
            if one.trying {
                actions.push(Action::GiveUp { client });
                if self.votes(state, client) >= QUORUM {
                    actions.push(Action::Count { client });
                }
            } else if one.attempts_left > 0
                && one.left == 0
                && (client == B
                    || state.in_force
                    || !self.rules.in_force_first && state.nodes.iter().any(|node| node.seen))
            {
                actions.push(Action::Attempt { client });
            }
        }
        // Whoever comes in its place reckons with what needs no agreement.
        if state.clients[B].reckons > SHORT && state.clients[B].attempts_left > 0 {
            actions.push(Action::Replaced);
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Write { node } => next.write(node),
            Action::Mark { node } => next.nodes[node].stored = Stored::InForce,
            Action::Attempt { client } => next.attempt(client),
            Action::Execute { client, node } => self.execute(&mut next, client, node),
            Action::Count { client } => next.count(client),
            Action::GiveUp { client } => next.end_round(client),
            Action::Replaced => {
                next.end_round(B);
                let old = &mut next.clients[B];
                (old.reckons, old.left) = (SHORT, 0);
            }
            Action::Restart { node } => {
                next.restarts -= 1;
                let one = &mut next.nodes[node];
                (one.stored, one.holder, one.age) = (Stored::Nothing, None, 0);
            }
            Action::Tick => next.tick(),
        }
        next.nodes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![Property::always(ONE_HOLD, |_, state: &State| {
            state.clients.iter().any(|client| client.left == 0)
        })];
        if self.rules.checked && self.rules.in_force_first && self.rules.judged_at_the_count {
            properties.push(Property::sometimes(LONG_HOLD, |_, state: &State| {
                state.clients[A].left > 0
            }));
            properties.push(Property::sometimes(TAKEN_OVER, |_, state: &State| {
                state.clients[B].reckons == LONG && state.clients[B].left > 0
            }));
        }
        properties
    }
}

impl Charter {
    /// What a node answers to an acquire.
    fn execute(&self, state: &mut State, client: usize, node: usize) {
        let (holder, lease) = [(Holder::A, LONG), (Holder::B, SHORT)][client];
        let one = &mut state.nodes[node];
        let Vote::Sent(told) = one.asked[client] else {
            return;
        };
        if self.rules.checked && one.stored > Stored::Nothing && told < LONG {
            // Taken over, and asked again.
            state.clients[client].reckons = LONG;
            one.asked[client] = Vote::Sent(LONG);
            return;
        }
        one.asked[client] = if one.holder.is_some_and(|(other, _)| other != holder) {
            Vote::Refused
        } else {
            one.holder = Some((holder, lease));
            Vote::Granted(one.age >= state.clients[client].reckons)
        };
    }

    /// The votes that count for a client now.
    fn votes(&self, state: &State, client: usize) -> usize {
        let counts = |node: &&Node| match node.asked[client] {
            Vote::Granted(good) if !self.rules.judged_at_the_count => good,
            Vote::Granted(_) => node.age >= state.clients[client].reckons,
            _ => false,
        };
        state.nodes.iter().filter(counts).count()
    }
}

impl State {
    fn write(&mut self, node: usize) {
        let one = &mut self.nodes[node];
        one.stored = one.stored.max(Stored::Pending);
        one.seen = true;
        self.in_force |= one.stored == Stored::InForce || self.nodes.iter().all(|node| node.seen);
    }

    fn attempt(&mut self, client: usize) {
        let one = &mut self.clients[client];
        (one.trying, one.elapsed) = (true, 0);
        one.attempts_left -= 1;
        for node in &mut self.nodes {
            node.asked[client] = Vote::Sent(one.reckons);
        }
    }

    fn count(&mut self, client: usize) {
        let lease = [LONG, SHORT][client];
        let one = &mut self.clients[client];
        one.left = lease.saturating_sub(one.elapsed);
        self.end_round(client);
    }

    /// What is still on its way is lost, and what was granted stays until it expires.
    fn end_round(&mut self, client: usize) {
        let one = &mut self.clients[client];
        (one.trying, one.elapsed) = (false, 0);
        for node in &mut self.nodes {
            node.asked[client] = Vote::Unasked;
        }
    }

    fn tick(&mut self) {
        for node in &mut self.nodes {
            node.age = (node.age + 1).min(LONG);
            node.holder = node
                .holder
                .filter(|(_, left)| *left > 1)
                .map(|(holder, left)| (holder, left - 1));
        }
        for client in &mut self.clients {
            client.left = client.left.saturating_sub(1);
            if client.trying {
                client.elapsed = (client.elapsed + 1).min(LONG);
            }
        }
    }
}

/// The scopes in which the charter keeps two clients apart.
#[must_use]
pub fn explore_charter() -> Vec<Verdict> {
    let scope = |name, stored| {
        let model = Charter {
            name,
            rules: PROTOCOL,
            stored,
        };
        explored(name, model)
    };
    vec![
        scope("different leases, agreed upon meanwhile", Stored::Nothing),
        scope("different leases, agreed upon before", Stored::InForce),
    ]
}

/// Its weaker forms, each of which must let two hold.
fn weaker() -> [Charter; 3] {
    let form = |name, rules| Charter {
        name,
        rules,
        stored: Stored::Nothing,
    };
    [
        form(
            "a charter that nodes do not check",
            Rules {
                checked: false,
                ..PROTOCOL
            },
        ),
        form(
            "a long lease before it is agreed upon",
            Rules {
                in_force_first: false,
                ..PROTOCOL
            },
        ),
        form(
            "votes judged when they are given",
            Rules {
                judged_at_the_count: false,
                ..PROTOCOL
            },
        ),
    ]
}

/// Refutes the weaker forms of the charter.
#[must_use]
pub fn refute_charter() -> Vec<Verdict> {
    weaker().map(|form| refuted(form.name, || form, ONE_HOLD)).into()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
