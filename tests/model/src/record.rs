//! The record of each master: which set it is in, on which run of its server that was stored, and since when its memory
//! counts; and the clients that introduce themselves.
//!
//! Three masters, two clients, `RedLock`, one name. A look at a record, what is decided by it, and the store are steps of
//! their own. All of these happen at any time: a server is started anew or another one takes its place, with the record or
//! without; a master is flushed; a connection, or an attempt at one, fails, and what was sent over it is executed later; a
//! client's process ends, and another begins that knows nothing. Where all list the same masters, this is so any number of
//! times.
//!
//! More is allowed here than the protocol allows: a round counts from its first grant on, a memory from the look on and not
//! from the decision, and only a client that lists another number waits for what other masters tell. Nothing is released.
//! A client that is connected to a master when that is flushed is strict.

use std::fmt;

use stateright::{Model, Property};

use crate::run::{Verdict, explored, refuted_in};

const MASTERS: usize = 3;
/// The longest lease, and what every client asks for, in ticks.
const LEASE: u8 = 2;
/// How many masters a client lists. Two of five are new, always grant, and are left out.
const THREE: u8 = 3;
const FIVE: u8 = 5;

/// The rules that are switches here.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
struct Rules {
    since: Since,
    /// A record is believed only by the run that it names.
    run: bool,
    /// A memory has to reach back so many ticks.
    quarantine: u8,
    /// A client that is told another number stores nothing.
    refused_stores_nothing: bool,
    /// Nothing is stored before every other master has told of its record, or could not be connected.
    hears_others: bool,
}

/// Since when a memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// The protocol: since the store.
    Stored,
    Looked,
    /// Since ever, unless another master has a record.
    StoredWhereOthersHave,
    /// It is not recorded: only the client that stored the record waits.
    Nothing,
}

const PROTOCOL: Rules = Rules {
    since: Since::Stored,
    run: true,
    quarantine: LEASE,
    refused_stores_nothing: true,
    hears_others: true,
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Introductions {
    rules: Rules,
    /// How many masters each client lists.
    lists: [u8; 2],
    /// How many masters have no record at first. The memory of the others counts.
    new: usize,
    /// How many faults there are.
    faults: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    set: u8,
    /// Whether it names the run of the server.
    is_of_run: bool,
    /// Ticks since its memory counts, no more than matter.
    age: u8,
}

/// One master, and what each client has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Master {
    record: Option<Record>,
    /// Which client, and for how long.
    holder: Option<(usize, u8)>,
    links: [Link; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Link {
    phase: Phase,
    /// Of the memory; before the store, of the one that it records.
    age: u8,
    /// A store of an earlier connection is on its way, and the age that it records.
    late: Option<u8>,
    word: Word,
    /// Whether it has granted in the present round.
    granted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    #[default]
    Away,
    /// There was none, or it is not.
    Doubted,
    Storing,
    Up,
}

/// What is known of a master's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Word {
    #[default]
    Awaited,
    Silent,
    Told(Option<u8>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Client {
    /// Ticks since the first grant of its round.
    round: Option<u8>,
    /// Validity.
    left: u8,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct State {
    masters: [Master; MASTERS],
    clients: [Client; 2],
    faults: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Look {
        client: usize,
        master: usize,
    },
    Decide {
        client: usize,
        master: usize,
    },
    Store {
        client: usize,
        master: usize,
    },
    StoreLate {
        client: usize,
        master: usize,
    },
    Grant {
        client: usize,
        master: usize,
    },
    /// A restart, or a spare in its place.
    OtherRun {
        master: usize,
        keeps_record: bool,
    },
    Flush {
        master: usize,
    },
    Fail {
        client: usize,
        master: usize,
    },
    /// The client's process.
    Anew {
        client: usize,
    },
    Tick,
}

const ONE_HOLD: &str = "one valid hold";
const NOT_STRANDED: &str = "two healthy masters grant within two longest leases";
const FORGOTTEN: &str = "a hold is valid that every master has forgotten";

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
                match link.phase {
                    Phase::Away => actions.push(Action::Look { client, master }),
                    Phase::Doubted if !self.has_heard(state, client) => {}
                    Phase::Doubted => actions.push(Action::Decide { client, master }),
                    Phase::Storing => actions.push(Action::Store { client, master }),
                    Phase::Up if self.grants(state, client, master) => {
                        actions.push(Action::Grant { client, master });
                    }
                    Phase::Up => {}
                }
                if link.late.is_some() {
                    actions.push(Action::StoreLate { client, master });
                }
                if faulty {
                    actions.push(Action::Fail { client, master });
                }
            }
            if faulty {
                actions.push(Action::OtherRun {
                    master,
                    keeps_record: true,
                });
                actions.push(Action::OtherRun {
                    master,
                    keeps_record: false,
                });
                actions.push(Action::Flush { master });
            }
        }
        actions.extend([0, 1].map(|client| Action::Anew { client }));
        actions.push(Action::Tick);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = *state;
        self.act(&mut next, action);
        if let Action::Fail { .. } | Action::Flush { .. } | Action::OtherRun { .. } = action {
            next.faults = next.faults.saturating_sub(1);
        }
        next.masters.sort_unstable();
        // Clients that are alike may change places, too.
        if !self.numbers_differ() {
            next = next.min(next.mirrored());
        }
        Some(next)
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

impl Introductions {
    fn act(&self, state: &mut State, action: Action) {
        match action {
            Action::Look { client, master } => {
                let record = state.masters[master].record;
                let memory = record.and_then(|record| self.memory(record));
                let link = &mut state.masters[master].links[client];
                link.phase = match memory {
                    Some(_) => Phase::Up,
                    None if self.keeps_words() => Phase::Doubted,
                    None => Phase::Storing,
                };
                link.age = memory.unwrap_or_default();
                self.told(state, client, master);
            }
            Action::Decide { client, master } => self.decide(state, client, master),
            Action::Store { client, master } => {
                let age = state.masters[master].links[client].age;
                let age = self.store(&mut state.masters[master], client, age);
                let link = &mut state.masters[master].links[client];
                (link.phase, link.age) = (Phase::Up, age);
                self.told(state, client, master);
            }
            Action::StoreLate { client, master } => {
                let one = &mut state.masters[master];
                let age = one.links[client].late.take().unwrap_or_default();
                self.store(one, client, age);
            }
            Action::Grant { client, master } => self.grant(state, client, master),
            Action::OtherRun { master, keeps_record } => {
                let one = &mut state.masters[master];
                one.holder = None;
                one.record = one.record.filter(|_| keeps_record);
                if let Some(record) = &mut one.record {
                    record.is_of_run = false;
                    record.age = if self.rules.run { 0 } else { record.age };
                }
                for link in &mut one.links {
                    (link.phase, link.age, link.late) = (Phase::Away, 0, None);
                }
            }
            Action::Flush { master } => {
                let one = &mut state.masters[master];
                (one.record, one.holder) = (None, None);
                let strict = |link: &&mut Link| link.phase == Phase::Up;
                one.links
                    .iter_mut()
                    .filter(strict)
                    .for_each(|link| link.end(false));
            }
            Action::Fail { client, master } => {
                let link = &mut state.masters[master].links[client];
                link.end(self.numbers_differ());
                if self.keeps_words() {
                    link.word = Word::Silent;
                }
            }
            Action::Anew { client } => state.begin_anew(client, self.numbers_differ()),
            Action::Tick => self.tick(state),
        }
    }

    /// For how long a record says that the memory counts, if it is believed.
    fn memory(&self, record: Record) -> Option<u8> {
        let age = if self.rules.since == Since::Nothing {
            LEASE
        } else {
            record.age
        };
        (record.is_of_run || !self.rules.run).then_some(age)
    }

    /// The script; the age that stands there then.
    fn store(&self, master: &mut Master, client: usize, age: u8) -> u8 {
        let set = self.lists[client];
        if let Some(record) = master.record
            && (record.set != set || self.memory(record).is_some())
        {
            return record.age;
        }
        master.record = Some(Record {
            set,
            is_of_run: true,
            age,
        });
        age
    }

    fn numbers_differ(&self) -> bool {
        self.lists[0] != self.lists[1]
    }

    /// Whether what masters tell matters.
    fn keeps_words(&self) -> bool {
        self.numbers_differ() || self.rules.since == Since::StoredWhereOthersHave
    }

    /// Takes in what a master has told of its record. A client that is refused uses none any more.
    fn told(&self, state: &mut State, client: usize, master: usize) {
        if !self.keeps_words() {
            return;
        }
        let one = &mut state.masters[master];
        one.links[client].word = Word::Told(one.record.map(|record| record.set));
        if self.is_refused(state, client) {
            let up = |link: &&mut Link| link.phase == Phase::Up;
            state.links(client).filter(up).for_each(|link| link.end(false));
        }
    }

    fn is_refused(&self, state: &State, client: usize) -> bool {
        let other = |master: &Master| match master.links[client].word {
            Word::Told(Some(set)) => set != self.lists[client],
            _ => false,
        };
        state.masters.iter().any(other)
    }

    fn has_heard(&self, state: &State, client: usize) -> bool {
        let heard = |master: &Master| master.links[client].word != Word::Awaited;
        !self.keeps_words() || !self.rules.hears_others || state.masters.iter().all(heard)
    }

    fn decide(&self, state: &mut State, client: usize, master: usize) {
        let refused = self.is_refused(state, client);
        let told = |master: &Master| matches!(master.links[client].word, Word::Told(Some(_)));
        let alone = !state.masters.iter().any(told);
        let link = &mut state.masters[master].links[client];
        match link.phase {
            Phase::Doubted if !(refused && self.rules.refused_stores_nothing) => {
                link.phase = Phase::Storing;
                if self.rules.since == Since::StoredWhereOthersHave && alone {
                    link.age = LEASE;
                }
            }
            _ => link.end(false),
        }
    }

    /// Whether a master grants, and that counts.
    fn grants(&self, state: &State, client: usize, master: usize) -> bool {
        let one = &state.masters[master];
        let link = &one.links[client];
        let counts = link.phase == Phase::Up && link.age >= self.rules.quarantine;
        counts && one.holder.is_none() && !link.granted && state.clients[client].left == 0
    }

    fn grant(&self, state: &mut State, client: usize, master: usize) {
        state.masters[master].holder = Some((client, LEASE));
        state.masters[master].links[client].granted = true;
        let begun = state.clients[client].round.unwrap_or_default();
        state.clients[client].round = Some(begun);
        let quorum = if self.lists[client] == THREE { 2 } else { 1 };
        if state.links(client).filter(|link| link.granted).count() >= quorum {
            state.clients[client].left = LEASE - begun;
            state.end_round(client);
        }
    }

    fn tick(&self, state: &mut State) {
        let later = |age: u8| (age + 1).min(LEASE);
        for master in &mut state.masters {
            if let Some(record) = &mut master.record
                && (record.is_of_run || !self.rules.run)
            {
                record.age = later(record.age);
            }
            master.holder = master
                .holder
                .and_then(|(client, left)| (left > 1).then(|| (client, left - 1)));
            for link in &mut master.links {
                let looked = self.rules.since == Since::Looked;
                match link.phase {
                    Phase::Up => link.age = later(link.age),
                    Phase::Doubted | Phase::Storing if looked => link.age = later(link.age),
                    _ => {}
                }
                link.late = link.late.map(|age| if looked { later(age) } else { age });
            }
        }
        for client in [0, 1] {
            let one = &mut state.clients[client];
            one.left = one.left.saturating_sub(1);
            one.round = one.round.map(later);
            if one.round == Some(LEASE) {
                state.end_round(client);
            }
        }
    }

    /// Whether a client of three that begins anew and cannot reach one of the masters is granted in time, if nobody else does
    /// anything.
    fn is_granted(&self, mut state: State, away: usize) -> bool {
        let client = 0;
        state.begin_anew(client, self.numbers_differ());
        self.act(&mut state, Action::Fail { client, master: away });
        let healthy = (0..MASTERS).filter(|master| *master != away);
        for master in healthy.clone() {
            self.act(&mut state, Action::Look { client, master });
        }
        for master in healthy.clone() {
            if state.masters[master].links[client].phase == Phase::Doubted {
                self.act(&mut state, Action::Decide { client, master });
            }
            if state.masters[master].links[client].phase == Phase::Storing {
                self.act(&mut state, Action::Store { client, master });
            }
        }
        for _ in 0..=2 * LEASE {
            for master in healthy.clone() {
                if self.grants(&state, client, master) {
                    self.grant(&mut state, client, master);
                }
            }
            if state.clients[client].left > 0 {
                return true;
            }
            self.tick(&mut state);
        }
        false
    }
}

impl Link {
    /// The connection ends.
    fn end(&mut self, late: bool) {
        if late && self.phase == Phase::Storing {
            self.late = self.late.max(Some(self.age));
        }
        (self.phase, self.age) = (Phase::Away, 0);
    }
}

impl State {
    fn links(&mut self, client: usize) -> impl Iterator<Item = &mut Link> {
        self.masters
            .iter_mut()
            .map(move |master| &mut master.links[client])
    }

    fn end_round(&mut self, client: usize) {
        self.clients[client].round = None;
        self.links(client).for_each(|link| link.granted = false);
    }

    fn begin_anew(&mut self, client: usize, late: bool) {
        self.end_round(client);
        self.clients[client] = Client::default();
        for link in self.links(client) {
            link.end(late);
            link.word = Word::Awaited;
        }
    }

    /// The same with the clients' places exchanged.
    fn mirrored(mut self) -> Self {
        self.clients.reverse();
        for master in &mut self.masters {
            master.links.reverse();
            master.holder = master.holder.map(|(client, left)| (1 - client, left));
        }
        self.masters.sort_unstable();
        self
    }
}

const ONE_SET: Introductions = Introductions {
    rules: PROTOCOL,
    lists: [THREE, THREE],
    new: MASTERS,
    faults: None,
};

const TWO_NUMBERS: Introductions = Introductions {
    lists: [THREE, FIVE],
    new: 0,
    faults: Some(2),
    ..ONE_SET
};

/// The scopes in which records keep two clients apart, and strand none.
#[must_use]
pub fn explore_record() -> Vec<Verdict> {
    vec![
        explored("records of masters", ONE_SET),
        explored("records of masters, and a client that lists five", TWO_NUMBERS),
    ]
}

/// Refutes the weaker forms, and what is beyond the promise. Each begins with as few faults, and with as many masters that
/// are new, as it takes.
#[must_use]
pub fn refute_record() -> Vec<Verdict> {
    let of = |scope: Introductions, new, faults, rules| Introductions {
        rules,
        new,
        faults: Some(faults),
        ..scope
    };
    let one_set = |new, faults, rules| of(ONE_SET, new, faults, rules);
    let two_numbers = |new, faults, rules| of(TWO_NUMBERS, new, faults, rules);
    let since = |since| Rules { since, ..PROTOCOL };
    let no_run = Rules {
        run: false,
        ..PROTOCOL
    };
    let short = Rules {
        quarantine: LEASE - 1,
        ..PROTOCOL
    };
    let refused_stores = Rules {
        refused_stores_nothing: false,
        ..PROTOCOL
    };
    let hears_nobody = Rules {
        hears_others: false,
        ..PROTOCOL
    };
    let others_have = since(Since::StoredWhereOthersHave);
    [
        (11, "no since", one_set(0, 1, since(Since::Nothing)), ONE_HOLD),
        (
            13,
            "since the look",
            one_set(1, 1, since(Since::Looked)),
            ONE_HOLD,
        ),
        (
            14,
            "since only where others have a record",
            one_set(1, 2, others_have),
            ONE_HOLD,
        ),
        (9, "no run", one_set(0, 1, no_run), ONE_HOLD),
        (11, "a memory of a lease less one", one_set(0, 1, short), ONE_HOLD),
        (
            6,
            "refused, and stores",
            two_numbers(0, 1, refused_stores),
            NOT_STRANDED,
        ),
        (
            4,
            "stored before others have told",
            two_numbers(0, 1, hears_nobody),
            NOT_STRANDED,
        ),
        (
            6,
            "five, and three faults",
            two_numbers(0, 3, PROTOCOL),
            NOT_STRANDED,
        ),
        (
            5,
            "five in a new set",
            two_numbers(MASTERS, 0, PROTOCOL),
            NOT_STRANDED,
        ),
        (
            17,
            "five in a new set, two holders",
            two_numbers(MASTERS, 0, PROTOCOL),
            ONE_HOLD,
        ),
    ]
    .map(|(steps, name, model, breaks)| refuted_in(steps, name, || model, breaks))
    .into()
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
