//! The effect of each step.

use super::model::{Form, Introductions};
use super::state::{LEASE, Link, MASTERS, Master, Phase, Record, State, THREE, Word};

impl Introductions {
    pub(super) fn look(&self, state: &mut State, client: usize, master: usize) {
        let memory = state.masters[master]
            .record
            .and_then(|record| self.memory(record));
        let link = &mut state.masters[master].links[client];
        link.phase = match memory {
            Some(_) => Phase::Up,
            None if self.words_matter() => Phase::Doubted,
            None => Phase::Storing,
        };
        link.age = memory.unwrap_or_default();
        self.told(state, client, master);
    }

    pub(super) fn decide(&self, state: &mut State, client: usize, master: usize) {
        let told = |master: &Master| matches!(master.links[client].word, Word::Told(Some(_)));
        let alone = !state.masters.iter().any(told);
        let refused = self.is_refused(state, client) && self.form != Form::Refused;
        let link = &mut state.masters[master].links[client];
        link.phase = if refused { Phase::Away } else { Phase::Storing };
        if self.form == Form::Alone && alone {
            link.age = LEASE;
        }
    }

    /// The script, and the use that the client makes of its answer.
    pub(super) fn store(&self, state: &mut State, client: usize, master: usize) {
        let one = &mut state.masters[master];
        let link = &mut one.links[client];
        let (set, is_of_run) = (self.lists[client], true);
        let stands = |record: &Record| record.set != set || self.memory(*record).is_some();
        let age = link.age;
        let record = one
            .record
            .filter(stands)
            .unwrap_or(Record { set, is_of_run, age });
        one.record = Some(record);
        if link.phase == Phase::Late {
            link.end();
        } else {
            (link.phase, link.age) = (Phase::Up, record.age);
            self.told(state, client, master);
        }
    }

    /// For how long a record says that the memory counts, if it is believed.
    fn memory(&self, record: Record) -> Option<u8> {
        let age = if self.form == Form::NoSince {
            LEASE
        } else {
            record.age
        };
        (record.is_of_run || self.form == Form::NoRun).then_some(age)
    }

    pub(super) fn words_matter(&self) -> bool {
        self.lists[0] != self.lists[1] || self.form == Form::Alone
    }

    /// Takes in the record that a master has told. A client that is refused uses none any more.
    fn told(&self, state: &mut State, client: usize, master: usize) {
        if !self.words_matter() {
            return;
        }
        let one = &mut state.masters[master];
        one.links[client].word = Word::Told(one.record.map(|record| record.set));
        if self.is_refused(state, client) {
            let up = |link: &&mut Link| link.phase == Phase::Up;
            state.links(client).filter(up).for_each(Link::end);
        }
    }

    fn is_refused(&self, state: &State, client: usize) -> bool {
        let other = |word| matches!(word, Word::Told(Some(set)) if set != self.lists[client]);
        state
            .masters
            .iter()
            .any(|master| other(master.links[client].word))
    }

    pub(super) fn has_heard(&self, state: &State, client: usize) -> bool {
        let heard = |master: &Master| master.links[client].word != Word::Awaited;
        self.form == Form::Early || state.masters.iter().all(heard)
    }

    /// Whether a master grants, and that counts.
    pub(super) fn grants(&self, state: &State, client: usize, master: usize) -> bool {
        let (one, quarantine) = (&state.masters[master], LEASE - u8::from(self.form == Form::Short));
        let link = &one.links[client];
        let counts = link.phase == Phase::Up && link.age >= quarantine;
        counts && one.holder.is_none() && !link.granted && state.clients[client].left == 0
    }

    pub(super) fn grant(&self, state: &mut State, client: usize, master: usize) {
        state.masters[master].holder = Some((client, LEASE));
        state.masters[master].links[client].granted = true;
        let elapsed = *state.clients[client].round.get_or_insert(0);
        let quorum = if self.lists[client] == THREE { 2 } else { 1 };
        if state.links(client).filter(|link| link.granted).count() >= quorum {
            state.clients[client].left = LEASE - elapsed;
            state.end_round(client);
        }
    }

    pub(super) fn other_run(&self, master: &mut Master, keeps_record: bool) {
        let age = |record: Record| if self.form == Form::NoRun { record.age } else { 0 };
        let kept = master.record.filter(|_| keeps_record);
        *master = Master {
            record: kept.map(|record| Record {
                is_of_run: false,
                age: age(record),
                ..record
            }),
            holder: None,
            links: master.links.map(|link| Link {
                phase: Phase::Away,
                age: 0,
                ..link
            }),
        };
    }

    pub(super) fn tick(&self, state: &mut State) {
        let later = |age: &mut u8| *age = (*age + 1).min(LEASE);
        for master in &mut state.masters {
            let believed = |record: &&mut Record| self.memory(**record).is_some();
            let memories = master
                .record
                .iter_mut()
                .filter(believed)
                .map(|record| &mut record.age);
            memories.for_each(later);
            let holder = master.holder.filter(|(_, left)| *left > 1);
            master.holder = holder.map(|(client, left)| (client, left - 1));
            let ages = |link: &&mut Link| match link.phase {
                Phase::Away => false,
                Phase::Up => true,
                _ => self.form == Form::SinceTheLook,
            };
            master
                .links
                .iter_mut()
                .filter(ages)
                .for_each(|link| later(&mut link.age));
        }
        for client in [0, 1] {
            let one = &mut state.clients[client];
            one.left = one.left.saturating_sub(1);
            one.round.iter_mut().for_each(later);
            if one.round == Some(LEASE) {
                state.end_round(client);
            }
        }
    }

    /// Whether a client of three gets a grant in time. It starts again and cannot reach one of the masters, and nobody else
    /// does anything.
    pub(super) fn is_granted(&self, mut state: State, away: usize) -> bool {
        let client = 0;
        state.begin_anew(client);
        state.links(client).for_each(|link| *link = Link::default());
        state.masters[away].links[client].word = Word::Silent;
        let healthy = || (0..MASTERS).filter(|master| *master != away);
        healthy().for_each(|master| self.look(&mut state, client, master));
        for master in healthy() {
            if state.masters[master].links[client].phase == Phase::Doubted {
                self.decide(&mut state, client, master);
            }
            if state.masters[master].links[client].phase == Phase::Storing {
                self.store(&mut state, client, master);
            }
        }
        for _ in 0..=2 * LEASE {
            for master in healthy() {
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
