//! The state machine: the open steps of a state, and the promises.

use stateright::{Model, Property};

use super::state::{Client, LEASE, Link, MASTERS, Master, Phase, Record, State, THREE, Word};

/// The protocol, or a weaker form of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Protocol,
    /// It is not recorded since when a memory counts: only the client that stored the record waits.
    NoSince,
    /// It counts since the look, not since the store.
    SinceTheLook,
    /// It counts since ever, unless another master has a record.
    Alone,
    /// Any run is believed.
    NoRun,
    /// A memory reaches back far enough a tick early.
    Short,
    /// A client that is told another number stores its own.
    Refused,
    /// A client stores before every other master has told, or could not be connected.
    Early,
}

/// A scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Introductions {
    pub(super) form: Form,
    /// How many masters each client lists.
    pub(super) lists: [u8; 2],
    /// How many masters have no record at first. The memory of the others counts.
    pub(super) new: usize,
    /// How many faults there are, where they are numbered.
    pub(super) faults: Option<u8>,
}

/// One step, with its client and its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Look(usize, usize),
    Decide(usize, usize),
    Store(usize, usize),
    Grant(usize, usize),
    Fail(usize, usize),
    /// With the record, or without.
    OtherRun(usize, bool),
    Flush(usize),
    Anew(usize),
    Tick,
}

pub(super) const ONE_HOLD: &str = "one valid hold";
pub(super) const NOT_STRANDED: &str = "two healthy masters grant within two longest leases";
pub(super) const FORGOTTEN: &str = "a hold is valid that every master has forgotten";

impl Model for Introductions {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let record = Record {
            set: THREE,
            is_of_run: true,
            age: LEASE,
        };
        let master = |number| Master {
            record: (number >= self.new).then_some(record),
            holder: None,
            links: [Link::default(); 2],
        };
        vec![State {
            masters: [0, 1, 2].map(master),
            clients: [Client::default(); 2],
            faults: self.faults.unwrap_or_default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let faulty = self.faults.is_none() || state.faults > 0;
        for (master, one) in state.masters.iter().enumerate() {
            for (client, link) in one.links.iter().enumerate() {
                actions.extend(match link.phase {
                    Phase::Away => Some(Action::Look(client, master)),
                    Phase::Doubted => self
                        .has_heard(state, client)
                        .then_some(Action::Decide(client, master)),
                    Phase::Storing | Phase::Late => Some(Action::Store(client, master)),
                    Phase::Up => self
                        .grants(state, client, master)
                        .then_some(Action::Grant(client, master)),
                });
                actions.extend(faulty.then_some(Action::Fail(client, master)));
            }
            if faulty {
                let other_run = [true, false].map(|keeps_record| Action::OtherRun(master, keeps_record));
                actions.extend(other_run.into_iter().chain([Action::Flush(master)]));
            }
        }
        actions.extend([Action::Anew(0), Action::Anew(1), Action::Tick]);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        match action {
            Action::Look(client, master) => self.look(&mut next, client, master),
            Action::Decide(client, master) => self.decide(&mut next, client, master),
            Action::Store(client, master) => self.store(&mut next, client, master),
            Action::Grant(client, master) => self.grant(&mut next, client, master),
            Action::Fail(client, master) => {
                let link = &mut next.masters[master].links[client];
                link.end();
                link.word = if self.words_matter() {
                    Word::Silent
                } else {
                    link.word
                };
            }
            Action::OtherRun(master, keeps_record) => self.other_run(&mut next.masters[master], keeps_record),
            Action::Flush(master) => next.masters[master].flush(),
            Action::Anew(client) => next.begin_anew(client),
            Action::Tick => self.tick(&mut next),
        }
        if let Action::Fail(..) | Action::OtherRun(..) | Action::Flush(_) = action {
            next.faults = next.faults.saturating_sub(1);
        }
        next.masters.sort_unstable();
        // Clients that are alike may change places, too.
        Some(if self.lists[0] == self.lists[1] {
            next.min(next.mirrored())
        } else {
            next
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLD, |_, state: &State| {
                state.clients.iter().any(|client| client.left == 0)
            }),
            Property::always(NOT_STRANDED, |model: &Self, state: &State| {
                (0..MASTERS).all(|away| model.is_granted(*state, away))
            }),
            Property::sometimes(FORGOTTEN, |_, state: &State| {
                let holds = state.clients.iter().any(|client| client.left > 0);
                holds && state.masters.iter().all(|master| master.holder.is_none())
            }),
        ]
    }
}
