//! Fences that are forgotten: three masters with clocks of their own, tokens of any size, and messages that are
//! executed at any time.
//!
//! Holders of the name are left out, so more is allowed here than the protocol allows: every master answers every
//! attempt. An attempt completes when a quorum has accepted its token. From then on it may be declared anywhere, at any
//! time. Two scopes: two attempts on three masters, and three attempts on one master.

use std::fmt;

use stateright::{Model, Property};

use crate::run::{Verdict, explored, refuted};

const NODES: usize = 3;
const ATTEMPTS: usize = 3;
/// How far a token may be behind a master's clock, where no fence is stored.
const BEHIND: u8 = 1;
/// How far a token may be ahead of a master's clock for a life that is counted from then.
const AHEAD: u8 = 1;
/// How far a clock may be set back.
const BACK: u8 = 2;

/// The rules that are switches here.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Without a stored fence, a token must not be too far behind the clock.
    floor: bool,
    /// Until when a fence is stored, by the clock at which it was and its token.
    until: fn(clock: u8, token: u8) -> u8,
    /// Whether a token that was accepted elsewhere is stored where no fence is, by the clock.
    declared: fn(clock: u8, token: u8) -> bool,
    /// By how much each clock may be set back, once.
    back: u8,
}

const PROTOCOL: Rules = Rules {
    floor: true,
    until: |clock, token| token.max(clock + AHEAD) + BEHIND + BACK,
    declared: |clock, token| token + BEHIND > clock,
    back: BACK,
};

/// Bounds of one exploration.
#[derive(Clone, Copy, Debug)]
struct Fences {
    name: &'static str,
    rules: Rules,
    masters: usize,
    attempts: usize,
    /// Tokens are at least 1 and at most that.
    tokens: u8,
}

const THREE_MASTERS: Fences = Fences {
    name: "fences that are forgotten",
    rules: PROTOCOL,
    masters: 3,
    attempts: 2,
    tokens: 2,
};

const ONE_MASTER: Fences = Fences {
    name: "fences that are forgotten, three attempts",
    masters: 1,
    attempts: 3,
    tokens: 4,
    ..THREE_MASTERS
};

/// One master, and the requests that are on their way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node {
    clock: u8,
    /// The token, and when it is forgotten.
    fence: Option<(u8, u8)>,
    steady: bool,
    asked: [Vote; ATTEMPTS],
}

/// State of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Vote {
    Unasked,
    Sent,
    Accepted,
    Refused,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; NODES],
    /// 0 before it begins.
    tokens: [u8; ATTEMPTS],
    /// The largest token that was complete when it began.
    after: [u8; ATTEMPTS],
    /// Whether some fence was ever forgotten.
    forgotten: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin {
        attempt: usize,
        token: u8,
    },
    Execute {
        attempt: usize,
        node: usize,
    },
    /// An extension of a complete attempt, or its acquire on a master that was not asked before.
    Declare {
        attempt: usize,
        node: usize,
    },
    Tick {
        node: usize,
    },
    SetBack {
        node: usize,
    },
}

const TOKENS_RISE: &str = "a later attempt has a larger token";
const FORGOTTEN: &str = "a fence is forgotten, and a later attempt is complete";

impl Node {
    /// The fence once a token has been declared.
    fn declared(self, token: u8, rules: Rules) -> Option<(u8, u8)> {
        let stores = match self.fence {
            Some((stored, _)) => stored < token,
            None => (rules.declared)(self.clock, token),
        };
        if stores {
            Some((token, (rules.until)(self.clock, token)))
        } else {
            self.fence
        }
    }
}

impl Fences {
    fn is_complete(self, state: &State, attempt: usize) -> bool {
        let accepted = |node: &&Node| node.asked[attempt] == Vote::Accepted;
        state.nodes.iter().filter(accepted).count() > self.masters / 2
    }

    fn complete(self, state: &State) -> impl Iterator<Item = usize> {
        (0..self.attempts).filter(move |attempt| self.is_complete(state, *attempt))
    }
}

impl Model for Fences {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = Node {
            clock: BEHIND,
            fence: None,
            steady: true,
            asked: [Vote::Unasked; ATTEMPTS],
        };
        vec![State {
            nodes: [node; NODES],
            tokens: [0; ATTEMPTS],
            after: [0; ATTEMPTS],
            forgotten: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for attempt in 0..self.attempts {
            if state.tokens[attempt] == 0 {
                actions.extend((1..=self.tokens).map(|token| Action::Begin { attempt, token }));
            }
        }
        for (node, one) in state.nodes.iter().take(self.masters).enumerate() {
            let sent = (0..self.attempts).filter(|attempt| one.asked[*attempt] == Vote::Sent);
            actions.extend(sent.map(|attempt| Action::Execute { attempt, node }));
            let changes = |attempt: &usize| one.declared(state.tokens[*attempt], self.rules) != one.fence;
            let declared = self.complete(state).filter(changes);
            actions.extend(declared.map(|attempt| Action::Declare { attempt, node }));
            // Every token is too far behind by then.
            if one.clock <= self.tokens + BEHIND + BACK {
                actions.push(Action::Tick { node });
            }
            if one.steady && one.clock >= self.rules.back {
                actions.push(Action::SetBack { node });
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Begin { attempt, token } => {
                next.tokens[attempt] = token;
                let complete = self.complete(state).map(|other| state.tokens[other]);
                next.after[attempt] = complete.max().unwrap_or(0);
                for node in &mut next.nodes[..self.masters] {
                    node.asked[attempt] = Vote::Sent;
                }
            }
            Action::Execute { attempt, node } => {
                let (one, token) = (&mut next.nodes[node], state.tokens[attempt]);
                let above = match one.fence {
                    Some((stored, _)) => token > stored,
                    None => !self.rules.floor || token + BEHIND > one.clock,
                };
                one.asked[attempt] = if above { Vote::Accepted } else { Vote::Refused };
                if above {
                    one.fence = Some((token, (self.rules.until)(one.clock, token)));
                }
            }
            Action::Declare { attempt, node } => {
                let one = &mut next.nodes[node];
                one.fence = one.declared(state.tokens[attempt], self.rules);
            }
            Action::Tick { node } => {
                let one = &mut next.nodes[node];
                one.clock += 1;
                if one.fence.is_some_and(|(_, until)| one.clock >= until) {
                    one.fence = None;
                    next.forgotten = true;
                }
            }
            Action::SetBack { node } => {
                let one = &mut next.nodes[node];
                one.clock -= self.rules.back;
                one.steady = false;
            }
        }
        next.nodes[..self.masters].sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let rise = |model: &Self, state: &State| {
            model
                .complete(state)
                .all(|attempt| state.tokens[attempt] > state.after[attempt])
        };
        let mut properties = vec![Property::always(TOKENS_RISE, rise)];
        if self.rules.floor && self.rules.back == BACK {
            properties.push(Property::sometimes(FORGOTTEN, |model: &Self, state: &State| {
                state.forgotten && model.complete(state).any(|attempt| state.after[attempt] > 0)
            }));
        }
        properties
    }
}

/// Explores the fences of the protocol.
#[must_use]
pub fn explore_fences() -> Vec<Verdict> {
    [THREE_MASTERS, ONE_MASTER]
        .map(|scope| explored(scope.name, scope))
        .into()
}

/// Refutes the weaker forms.
#[must_use]
pub fn refute_fences() -> Vec<Verdict> {
    let without_floor = Rules {
        floor: false,
        ..PROTOCOL
    };
    let always_from_now = Rules {
        until: |clock, _| clock + AHEAD + BEHIND + BACK,
        ..PROTOCOL
    };
    let short_from_now = Rules {
        until: |clock, token| token.max(clock + AHEAD) + BEHIND + BACK - u8::from(token <= clock + AHEAD),
        ..PROTOCOL
    };
    let short_ahead = Rules {
        until: |clock, token| token.max(clock + AHEAD) + BEHIND + BACK - u8::from(token > clock + AHEAD),
        ..PROTOCOL
    };
    let declared_late = Rules {
        declared: |clock, token| token + BEHIND + BACK > clock,
        ..PROTOCOL
    };
    let too_far_back = Rules {
        back: BACK + 1,
        ..PROTOCOL
    };
    let forms = [
        ("any token where no fence is stored", without_floor),
        ("a token far ahead that lives as long as any", always_from_now),
        ("a life from now that is too short by one", short_from_now),
        ("a life of a token ahead that is too short by one", short_ahead),
        (
            "a token that is declared for as long as its fence would live",
            declared_late,
        ),
        ("a clock that is set back too far", too_far_back),
    ];
    forms
        .map(|(name, rules)| refuted(name, || Fences { rules, ..ONE_MASTER }, TOKENS_RISE))
        .into()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
