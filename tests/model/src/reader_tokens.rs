//! Readers' tokens: three masters, attempts to read or to write in any order with any proposals, and messages that are
//! executed at any time or never.
//!
//! Holders of a name are left out, so more is allowed here than the protocol allows. Every master answers every attempt,
//! and a field that is gone is a message that never comes. So only forgotten fences rest on time, by clocks of each
//! master's own. A raise is an attempt that begins later, so more is promised of it. Attempts are numbered as they begin.

mod model;
mod state;

use model::{READERS_KEEP_UP, WRITERS_RISE};
use state::{BACK, BEHIND, MASTERS, NAMES};

use crate::run::{Verdict, explored, refuted_in};

/// The rules that are switches here.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
struct Rules {
    /// A token that fewer than a quorum have told is written to the masters that granted first.
    written_back: bool,
    /// Choice of a reader's token among the tokens that its quorum told.
    of_quorum: Choice,
    /// Without a stored fence, a reader is told the floor at least, and that is stored. Off: its proposal.
    floor: bool,
    /// The token that a reader is told is stored for every one of its names. Off: a lower fence stays.
    lower_raised: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Largest,
    Smallest,
    OwnProposal,
}

const PROTOCOL: Rules = Rules {
    written_back: true,
    of_quorum: Choice::Largest,
    floor: true,
    lower_raised: true,
};

/// Bounds of one exploration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReaderTokens {
    name: &'static str,
    rules: Rules,
    attempts: usize,
    /// Names that there are. Writers are for one of them, readers for all.
    names: usize,
    /// Proposals are at least 1 and at most that.
    tokens: u8,
    /// Number of tokens that a writer proposes at once. The last one is stored.
    block: u8,
    /// Until when masters' clocks go on, from [`BEHIND`]. With 0 no fence is forgotten.
    end: u8,
    masters: usize,
    /// Whether each clock may be set back, once.
    set_back: bool,
}

const UNTIMED: ReaderTokens = ReaderTokens {
    name: "reader tokens",
    rules: PROTOCOL,
    attempts: 3,
    names: 1,
    tokens: 3,
    block: 2,
    end: 0,
    masters: MASTERS,
    set_back: false,
};

/// Two names, and readers of both.
const TWO_NAMES: ReaderTokens = ReaderTokens {
    name: "reader tokens, two names",
    names: NAMES,
    tokens: 2,
    ..UNTIMED
};

/// Every fence is gone by the end, and every token below the floor. Blocks are one token long, for the sake of time.
const FORGOTTEN: ReaderTokens = ReaderTokens {
    name: "reader tokens, fences that are forgotten",
    attempts: 2,
    tokens: 2,
    block: 1,
    end: 2 + BEHIND + BACK + 1,
    ..UNTIMED
};

/// One master with a clock that is set back.
const SET_BACK: ReaderTokens = ReaderTokens {
    name: "reader tokens, a clock that is set back",
    attempts: 3,
    tokens: 3,
    end: 3 + BEHIND + BACK + 1,
    masters: 1,
    set_back: true,
    ..FORGOTTEN
};

/// Explores readers' tokens.
#[must_use]
pub fn explore_reader_tokens() -> Vec<Verdict> {
    [UNTIMED, TWO_NAMES, FORGOTTEN, SET_BACK]
        .map(|scope| explored(scope.name, scope))
        .into()
}

/// Refutes the weaker forms.
#[must_use]
pub fn refute_reader_tokens() -> Vec<Verdict> {
    let weaker = |name, scope: ReaderTokens, rules| ReaderTokens { name, rules, ..scope };
    let not_written_back = Rules {
        written_back: false,
        ..PROTOCOL
    };
    let smallest = Rules {
        of_quorum: Choice::Smallest,
        ..PROTOCOL
    };
    let own_proposal = Rules {
        of_quorum: Choice::OwnProposal,
        ..PROTOCOL
    };
    let without_floor = Rules {
        floor: false,
        ..PROTOCOL
    };
    let lower_stays = Rules {
        lower_raised: false,
        ..PROTOCOL
    };
    let forms = [
        (
            weaker(
                "a reader's token that is not written back",
                UNTIMED,
                not_written_back,
            ),
            WRITERS_RISE,
            9,
        ),
        (
            weaker("the smallest token of a reader's quorum", UNTIMED, smallest),
            READERS_KEEP_UP,
            8,
        ),
        (
            weaker("a reader's own proposal", UNTIMED, own_proposal),
            READERS_KEEP_UP,
            8,
        ),
        (
            weaker("a reader's proposal below the floor", FORGOTTEN, without_floor),
            READERS_KEEP_UP,
            10,
        ),
        (
            weaker("a lower fence that a reader leaves", TWO_NAMES, lower_stays),
            WRITERS_RISE,
            10,
        ),
    ];
    forms
        .map(|(form, promise, steps)| refuted_in(steps, form.name, || form, promise))
        .into()
}
