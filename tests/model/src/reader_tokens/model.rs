//! The state machine: the open steps of a state, and the promises.

use stateright::{Model, Property};

use super::state::{ATTEMPTS, Attempt, BACK, BEHIND, Kind, MASTERS, Master, NAMES, State, Vote};
use super::{Choice, ReaderTokens};

pub(super) const WRITERS_RISE: &str = "a writer's token is above those that were complete when it began";
pub(super) const READERS_KEEP_UP: &str =
    "a reader's token is not below those that were complete when it began";

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Begin {
        kind: Kind,
        names: u8,
        proposal: u8,
    },
    Execute {
        attempt: usize,
        master: usize,
    },
    /// A reader takes its token from the answers so far.
    Count {
        attempt: usize,
    },
    /// A complete attempt is extended on a master.
    Extend {
        attempt: usize,
        master: usize,
    },
    Tick {
        master: usize,
    },
    SetBack {
        master: usize,
    },
}

impl Model for ReaderTokens {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let master = Master {
            clock: BEHIND,
            steady: true,
            fences: [None; NAMES],
            votes: [Vote::Unasked; ATTEMPTS],
        };
        vec![State {
            masters: [master; MASTERS],
            quorum: self.masters / 2 + 1,
            attempts: [None; ATTEMPTS],
            forgotten: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let begun = state.attempts.iter().flatten().count();
        if begun < self.attempts {
            let writers = (0..self.names).map(|name| (Kind::Write, 1 << name));
            let readers = [(Kind::Read, (1 << self.names) - 1)];
            for (kind, names) in writers.chain(readers) {
                actions.extend((1..=self.tokens).map(|proposal| Action::Begin {
                    kind,
                    names,
                    proposal,
                }));
            }
        }
        for (attempt, one) in state.attempts.iter().enumerate() {
            let may_count = one.is_some_and(|one| one.kind == Kind::Read && one.token == 0);
            if may_count && state.count(attempt, |vote| matches!(vote, Vote::Told(_))) >= state.quorum {
                actions.push(Action::Count { attempt });
            }
        }
        for (master, one) in state.masters.iter().take(self.masters).enumerate() {
            let open =
                (0..ATTEMPTS).filter(|attempt| matches!(one.votes[*attempt], Vote::Sent | Vote::WrittenBack));
            actions.extend(open.map(|attempt| Action::Execute { attempt, master }));
            if self.end > 0 {
                // `fences.rs` explores the extensions of writers on three masters.
                let is_explored = |attempt: usize| {
                    self.masters == 1 || state.attempts[attempt].is_some_and(|one| one.kind == Kind::Read)
                };
                let extended =
                    (0..ATTEMPTS).filter(|attempt| state.is_complete(*attempt) && is_explored(*attempt));
                actions.extend(extended.map(|attempt| Action::Extend { attempt, master }));
            }
            if one.clock < self.end {
                actions.push(Action::Tick { master });
                if self.set_back && one.steady && one.clock >= BACK {
                    actions.push(Action::SetBack { master });
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Begin {
                kind,
                names,
                proposal,
            } => next.begin(kind, names, proposal, self.block),
            Action::Execute { attempt, master } => {
                let one = state.attempts[attempt]?;
                let master = &mut next.masters[master];
                master.votes[attempt] = match (master.votes[attempt], one.kind) {
                    (Vote::WrittenBack, _) => {
                        master.declare(one.names, one.token);
                        Vote::Stored
                    }
                    // An answer after the reader's count does not count any more.
                    (_, Kind::Read) => master.tell(one, self.rules),
                    (_, Kind::Write) => master.accept(one),
                };
            }
            Action::Count { attempt } => self.count(&mut next, attempt),
            Action::Extend { attempt, master } => {
                let before = next.masters[master];
                next.masters[master].extend(state.attempts[attempt]?);
                if next.masters[master] == before {
                    return None;
                }
            }
            Action::SetBack { master } => {
                let one = &mut next.masters[master];
                one.clock -= BACK;
                one.steady = false;
            }
            Action::Tick { master } => {
                let one = &mut next.masters[master];
                one.clock += 1;
                let clock = one.clock;
                for fence in &mut one.fences {
                    if fence.is_some_and(|fence| fence.until <= clock) {
                        *fence = None;
                        next.forgotten = true;
                    }
                }
            }
        }
        next.masters[..self.masters].sort_unstable();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(WRITERS_RISE, |_, state: &State| {
                state.ordered(Kind::Write, |one, earlier| one.proposal > earlier)
            }),
            Property::always(READERS_KEEP_UP, |_, state: &State| {
                state.ordered(Kind::Read, |one, earlier| one.token >= earlier)
            }),
        ];
        if self.end > 0 {
            properties.push(Property::sometimes(
                "a fence is forgotten, and a later reader is complete",
                |_, state: &State| {
                    let later = |one: Attempt| one.kind == Kind::Read && one.after != 0;
                    let complete =
                        |attempt| state.is_complete(attempt) && state.attempts[attempt].is_some_and(later);
                    state.forgotten && (0..ATTEMPTS).any(complete)
                },
            ));
        }
        properties
    }
}

impl ReaderTokens {
    /// A reader takes its token from the tokens that it was told. It has that stored where another one is.
    fn count(&self, state: &mut State, attempt: usize) {
        let told = state
            .masters
            .iter()
            .filter_map(|master| match master.votes[attempt] {
                Vote::Told(token) => Some(token),
                _ => None,
            });
        let Some(one) = &mut state.attempts[attempt] else {
            return;
        };
        one.token = match self.rules.of_quorum {
            Choice::Largest => told.max().unwrap_or(0),
            Choice::Smallest => told.min().unwrap_or(0),
            Choice::OwnProposal => one.proposal,
        };
        let token = one.token;
        for master in &mut state.masters {
            if let Vote::Told(told) = master.votes[attempt] {
                let stored = told == token || !self.rules.written_back;
                master.votes[attempt] = if stored { Vote::Stored } else { Vote::WrittenBack };
            }
        }
    }
}
