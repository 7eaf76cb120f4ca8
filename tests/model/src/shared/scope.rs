//! Bounds of the exploration of read and write locks.

use super::properties::{NO_ORPHAN, QUIET};
use super::state::{CLIENTS, Kind, MASTERS};

/// The rules, each of them a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
pub(super) struct Rules {
    /// A reader that leaves takes its own field out. Off: the key is deleted.
    pub(super) leaver_spares_others: bool,
    /// A reader that leaves has the key end with the last of the others. Off: the time to live stays.
    pub(super) leaver_settles: bool,
    /// A key that is read lives for the longest lease in it. Off: for the lease of the last reader that came or renewed.
    pub(super) longest_lease_stays: bool,
    /// A writer's extension that finds its field in mode read renews it as a reader's. Off: it turns the key back.
    pub(super) late_extension_reads: bool,
    /// A writer's acquire that finds its field in mode read is refused. Off: it turns the key back.
    pub(super) late_acquire_refused: bool,
    /// A guard is a reader's before its downgrade is sent. Off: once a quorum has confirmed it.
    pub(super) reads_before_downgrade: bool,
    /// A downgrade that comes late, to a key that is read already, changes nothing. Off: it raises the time to live.
    pub(super) downgraded_once: bool,
    /// A new connection has the server end its predecessor first.
    pub(super) kill_predecessor: bool,
    /// A master that may have forgotten a lease has no vote.
    pub(super) quarantine: bool,
    /// It has no vote in extensions either.
    pub(super) quarantine_in_extensions: bool,
    /// Forgetful masters may vote as long as every two quorums have a master in common that remembers. Off: one more
    /// may vote, for readers.
    pub(super) allowance: bool,
}

pub(super) const PROTOCOL: Rules = Rules {
    leaver_spares_others: true,
    leaver_settles: true,
    longest_lease_stays: true,
    late_extension_reads: true,
    late_acquire_refused: true,
    reads_before_downgrade: true,
    downgraded_once: true,
    kill_predecessor: true,
    quarantine: true,
    quarantine_in_extensions: true,
    allowance: true,
};

/// Without the right to end other connections of its own, a client leaves sockets behind that deliver late.
const NO_KILL: Rules = Rules {
    kill_predecessor: false,
    ..PROTOCOL
};

/// The bounds of one exploration. Within them everything may happen, in any order.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(super) name: &'static str,
    pub(super) rules: Rules,
    /// Purpose of each client's locks.
    pub(super) kinds: [Kind; CLIENTS],
    /// Attempts of each client; a client with none takes no part.
    pub(super) attempts: [u8; CLIENTS],
    /// Grants that each client needs.
    pub(super) quorum: [usize; CLIENTS],
    /// Leases, in ticks.
    pub(super) leases: [u8; CLIENTS],
    /// The part of a lease that is never trusted, in ticks.
    pub(super) drift: u8,
    /// By how many ticks each master's leases are longer or shorter than that.
    pub(super) skew: [i8; MASTERS],
    /// Extensions of each client, over all its holds.
    pub(super) extensions: [u8; CLIENTS],
    /// Whether writers may become readers.
    pub(super) downgrades: bool,
    /// Whether an answer is read in the moment in which it is given.
    pub(super) read_at_once: bool,
    /// How often a connection of each client breaks.
    pub(super) breaks: [u8; CLIENTS],
    /// Masters that restart.
    pub(super) restarts: u8,
    /// Promises that are not made under these conditions.
    pub(super) not_promised: &'static [&'static str],
    /// States that must come about in it, so that it is not vacuous.
    pub(super) witnesses: &'static [&'static str],
}

impl Scope {
    /// A reader and a writer by `RedLock`, one attempt each, nothing goes wrong but time and order.
    pub(super) const READER_AND_WRITER: Self = Self {
        name: "a reader and a writer",
        rules: PROTOCOL,
        kinds: [Kind::Read, Kind::Write, Kind::Read],
        attempts: [1, 1, 0],
        quorum: [2; CLIENTS],
        leases: [2; CLIENTS],
        drift: 0,
        skew: [0; MASTERS],
        extensions: [0; CLIENTS],
        downgrades: false,
        read_at_once: false,
        breaks: [0; CLIENTS],
        restarts: 0,
        not_promised: &[],
        witnesses: &[],
    };

    /// Two readers.
    pub(super) const READERS: Self = Self {
        kinds: [Kind::Read, Kind::Read, Kind::Write],
        ..Self::READER_AND_WRITER
    };

    /// For how long a quorum's grant is valid, in ticks from the start of its round.
    pub(super) fn validity(&self, client: usize) -> u8 {
        self.leases[client] - self.drift
    }

    /// Whether masters are alike, so that states that differ in their order only are one.
    pub(super) fn is_symmetric(&self) -> bool {
        self.skew == [self.skew[0]; MASTERS]
    }

    /// How long a restarted master has no vote, in ticks: as long as anybody's lease.
    pub(super) fn quarantine(&self) -> u8 {
        let longest = self.leases.into_iter().max().unwrap_or(0);
        if self.rules.quarantine { longest } else { 0 }
    }

    /// How many masters in quarantine may vote for a client's quorum: of it and any other policy's smallest, a
    /// majority, at least one master in common must remember.
    pub(super) fn forgetful_allowed(&self, client: usize) -> usize {
        let majority = MASTERS / 2 + 1;
        let allowed = (self.quorum[client] + majority).saturating_sub(MASTERS + 1);
        allowed + usize::from(!self.rules.allowance && self.kinds[client] == Kind::Read)
    }
}

/// The scopes in which the rules hold. They are bounded so that all of them together take half a minute: one attempt of
/// each client, an extension of one or two. Three clients take part only if answers are read at once. A later reading
/// only delays the next step of the client, and every step may be late anyway. The exception are requests that the
/// client sends over the same connection in between. So a reader, a writer, the downgrade and the restarts are explored
/// with both.
pub(super) fn scopes() -> Vec<Scope> {
    let mut scopes = of_readers();
    scopes.extend(of_downgrades());
    scopes.extend(of_memory());
    scopes
}

fn of_readers() -> Vec<Scope> {
    vec![
        Scope {
            name: "a reader and a writer",
            extensions: [1, 1, 0],
            witnesses: &[
                "an extension",
                "a retake",
                "a writer after a reader that never left",
            ],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "readers and a writer",
            attempts: [1, 1, 1],
            extensions: [1, 0, 0],
            read_at_once: true,
            witnesses: &["two readers at once", "a writer after a reader that never left"],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "two readers, leases 3 and 1",
            leases: [3, 1, 1],
            extensions: [1, 1, 0],
            witnesses: &[
                "two readers at once",
                "an extension",
                "a retake",
                "a leaver brings the end nearer",
            ],
            ..Scope::READERS
        },
        Scope {
            name: "a reader and a writer, clocks that differ",
            leases: [3; CLIENTS],
            drift: 1,
            skew: [-1, 0, 1],
            extensions: [1, 0, 0],
            read_at_once: true,
            witnesses: &["an extension", "a writer after a reader that never left"],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "key ends with its readers",
            leases: [2, 1, 1],
            attempts: [1, 1, 1],
            extensions: [1, 0, 0],
            read_at_once: true,
            witnesses: &[
                "a leaver brings the end nearer",
                "a writer after a reader that never left",
            ],
            ..Scope::READERS
        },
    ]
}

fn of_downgrades() -> Vec<Scope> {
    vec![
        Scope {
            name: "downgrade",
            extensions: [0, 1, 0],
            downgrades: true,
            witnesses: &["a reader beside a downgraded hold", "an extension"],
            ..Scope::READER_AND_WRITER
        },
        // Only the writer's connections break: of the reader nothing can come late that turns a key or ends it.
        Scope {
            name: "downgrade beside a broken connection",
            rules: NO_KILL,
            extensions: [0, 1, 0],
            downgrades: true,
            breaks: [0, 1, 0],
            read_at_once: true,
            not_promised: &[NO_ORPHAN, QUIET],
            witnesses: &[
                "a reader beside a downgraded hold",
                "a late writer finds readers",
                "a missed downgrade is made up for",
            ],
            ..Scope::READER_AND_WRITER
        },
    ]
}

fn of_memory() -> Vec<Scope> {
    vec![
        Scope {
            name: "restarts, shared",
            extensions: [1, 0, 0],
            restarts: 1,
            witnesses: &["a retake", "a quarantined answer"],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "downgrade, a master forgets",
            extensions: [0, 1, 0],
            downgrades: true,
            restarts: 1,
            read_at_once: true,
            witnesses: &[
                "a reader beside a downgraded hold",
                "a retake",
                "a quarantined answer",
            ],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "a reader and a MultiLock writer",
            quorum: [2, 3, 2],
            extensions: [1, 1, 0],
            restarts: 1,
            read_at_once: true,
            witnesses: &["a retake"],
            ..Scope::READER_AND_WRITER
        },
        Scope {
            name: "mixed policies, shared",
            quorum: [3, 2, 2],
            extensions: [1, 0, 0],
            restarts: 1,
            witnesses: &["a retake"],
            ..Scope::READER_AND_WRITER
        },
    ]
}
