//! Masters with their records, and clients with their knowledge of these.

pub(super) const MASTERS: usize = 3;
/// The longest lease, for which every client asks, in ticks.
pub(super) const LEASE: u8 = 2;
/// How many masters a client lists. Two of five are new, always grant, and are left out.
pub(super) const THREE: u8 = 3;
pub(super) const FIVE: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) set: u8,
    /// Whether it names the run of the server.
    pub(super) is_of_run: bool,
    /// Ticks since its memory counts, no more than matter.
    pub(super) age: u8,
}

/// One master, and its link to each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Master {
    pub(super) record: Option<Record>,
    /// Which client, and for how long.
    pub(super) holder: Option<(usize, u8)>,
    pub(super) links: [Link; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) phase: Phase,
    /// Age of the memory; before the store, the age that the store records.
    pub(super) age: u8,
    pub(super) word: Word,
    /// Whether it has granted in the present round.
    pub(super) granted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Away,
    /// There was no record, or none that is believed.
    Doubted,
    Storing,
    /// The connection has ended, and the store is still on its way. The master is looked at again after that.
    Late,
    Up,
}

/// A client's knowledge of a master's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Word {
    #[default]
    Awaited,
    Silent,
    Told(Option<u8>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Client {
    /// Ticks since the first grant of its round.
    pub(super) round: Option<u8>,
    /// Validity.
    pub(super) left: u8,
}

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct State {
    pub(super) masters: [Master; MASTERS],
    pub(super) clients: [Client; 2],
    pub(super) faults: u8,
}

impl Link {
    /// The connection ends, or the store that is still on its way is lost.
    pub(super) fn end(&mut self) {
        let on_its_way = self.phase == Phase::Storing;
        (self.phase, self.age) = if on_its_way {
            (Phase::Late, self.age)
        } else {
            (Phase::Away, 0)
        };
    }
}

impl Master {
    /// A client that is connected notices, as votes no longer come with the record that it knows.
    pub(super) fn flush(&mut self) {
        (self.record, self.holder) = (None, None);
        let up = |link: &&mut Link| link.phase == Phase::Up;
        self.links.iter_mut().filter(up).for_each(Link::end);
    }
}

impl State {
    pub(super) fn links(&mut self, client: usize) -> impl Iterator<Item = &mut Link> {
        self.masters
            .iter_mut()
            .map(move |master| &mut master.links[client])
    }

    pub(super) fn end_round(&mut self, client: usize) {
        self.clients[client].round = None;
        self.links(client).for_each(|link| link.granted = false);
    }

    pub(super) fn begin_anew(&mut self, client: usize) {
        self.end_round(client);
        self.clients[client] = Client::default();
        let connected = |link: &&mut Link| link.phase != Phase::Late;
        self.links(client).filter(connected).for_each(Link::end);
        self.links(client).for_each(|link| link.word = Word::Awaited);
    }

    /// The same with the clients' places exchanged.
    pub(super) fn mirrored(mut self) -> Self {
        self.clients.reverse();
        for master in &mut self.masters {
            master.links.reverse();
            master.holder = master.holder.map(|(client, left)| (1 - client, left));
        }
        self.masters.sort_unstable();
        self
    }
}
