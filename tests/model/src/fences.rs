//! Fences that are forgotten: three masters with clocks of their own, tokens of any size, and messages that are
//! executed at any time.
//!
//! Who holds a name is left out, so more is allowed here than the protocol allows: every master answers every
//! attempt. Two attempts; each completes when a quorum has accepted its token.

use std::fmt;

use stateright::{Model, Property};

use crate::run::{Verdict, explored, refuted};

const NODES: usize = 3;
const QUORUM: usize = 2;
const ATTEMPTS: usize = 2;
/// Tokens are at least 1 and at most that.
const TOKENS: u8 = 3;
/// How far a token may be behind a master's clock, where no fence is stored.
const BEHIND: u8 = 1;
/// How far a clock may be set back.
const BACK: u8 = 1;
/// No clock goes on after that: every fence is gone by then, and every token below the floor.
const END: u8 = TOKENS + BEHIND + BACK + 1;

/// The rules that are switches here.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Where no fence is stored, a token must be above the floor.
    floor: bool,
    /// Until when a fence is stored, by the clock at which it was and its token.
    until: fn(clock: u8, token: u8) -> u8,
    /// By how much each clock may be set back, once.
    back: u8,
}

const PROTOCOL: Rules = Rules {
    floor: true,
    until: |_, token| token + BEHIND + BACK,
    back: BACK,
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Fences {
    rules: Rules,
}

/// One master, and the requests that are on their way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node {
    clock: u8,
    /// The token, and when it is forgotten.
    fence: Option<(u8, u8)>,
    steady: bool,
    asked: [Vote; ATTEMPTS],
}

/// What became of a request.
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
    /// Whether the other one was complete when it began.
    after: [bool; ATTEMPTS],
    /// Whether some fence was ever forgotten.
    forgotten: bool,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin { attempt: usize, token: u8 },
    Execute { attempt: usize, node: usize },
    Tick { node: usize },
    SetBack { node: usize },
}

const TOKENS_RISE: &str = "a later attempt has a larger token";
const FORGOTTEN: &str = "a fence is forgotten, and a later attempt is complete";

impl State {
    fn is_complete(&self, attempt: usize) -> bool {
        let accepted = |node: &&Node| node.asked[attempt] == Vote::Accepted;
        self.nodes.iter().filter(accepted).count() >= QUORUM
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
            after: [false; ATTEMPTS],
            forgotten: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for attempt in 0..ATTEMPTS {
            if state.tokens[attempt] == 0 {
                actions.extend((1..=TOKENS).map(|token| Action::Begin { attempt, token }));
            }
        }
        for (node, one) in state.nodes.iter().enumerate() {
            let sent = (0..ATTEMPTS).filter(|attempt| one.asked[*attempt] == Vote::Sent);
            actions.extend(sent.map(|attempt| Action::Execute { attempt, node }));
            if one.clock < END {
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
                next.after[attempt] = state.is_complete(1 - attempt);
                for node in &mut next.nodes {
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
        next.nodes.sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let rise = |_: &Self, state: &State| {
            (0..ATTEMPTS).all(|attempt| {
                !(state.after[attempt] && state.is_complete(attempt))
                    || state.tokens[attempt] > state.tokens[1 - attempt]
            })
        };
        let mut properties = vec![Property::always(TOKENS_RISE, rise)];
        if self.rules.floor && self.rules.back == BACK {
            properties.push(Property::sometimes(FORGOTTEN, |_, state: &State| {
                let complete = |attempt| state.after[attempt] && state.is_complete(attempt);
                state.forgotten && (0..ATTEMPTS).any(complete)
            }));
        }
        properties
    }
}

/// Explores the fences of the protocol.
#[must_use]
pub fn explore_fences() -> Verdict {
    explored("fences that are forgotten", Fences { rules: PROTOCOL })
}

/// Refutes the weaker forms.
#[must_use]
pub fn refute_fences() -> Vec<Verdict> {
    let without_floor = Rules {
        floor: false,
        ..PROTOCOL
    };
    let from_now = Rules {
        until: |clock, _| clock + BEHIND + BACK,
        ..PROTOCOL
    };
    let without_margin = Rules {
        until: |_, token| token + BEHIND,
        ..PROTOCOL
    };
    let too_short = Rules {
        until: |_, token| token,
        back: 0,
        ..PROTOCOL
    };
    let too_far_back = Rules {
        back: BACK + 1,
        ..PROTOCOL
    };
    let forms = [
        ("no floor where no fence is stored", without_floor),
        ("a fence that lives from when it was stored", from_now),
        ("a fence that lives until the floor is as high", without_margin),
        ("a fence that lives until the clock is as high", too_short),
        ("a clock that is set back too far", too_far_back),
    ];
    forms
        .map(|(name, rules)| refuted(name, || Fences { rules }, TOKENS_RISE))
        .into()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
