//! A client: its phase and its counters. Its knowledge of each node is in its links.

use crate::scope::Scope;

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// Attempts begun so far.
    pub(crate) attempts: u8,
    pub(crate) extensions_left: u8,
    pub(crate) entries_left: u8,
    pub(crate) passes_left: u8,
    /// Grants that its attempt or hold needs.
    pub(crate) needs: u8,
    /// Rounds of the present attempt and its grant so far.
    pub(crate) round: u8,
    /// Ticks since the present round began; not counted beyond the validity.
    pub(crate) elapsed: u8,
    /// The validity that the extension under way will give, in ticks from its start.
    pub(crate) extending: Option<u8>,
    /// A re-entry is under way, where nodes count.
    pub(crate) entering: bool,
    /// Ticks of validity left.
    pub(crate) left: u8,
    /// How often the hold was entered.
    pub(crate) count: u8,
    /// The token of the hold, or the first token that the attempt proposes.
    pub(crate) token: u8,
    /// The last token of its block.
    pub(crate) top: u8,
    /// The largest token that it proposed or saw.
    pub(crate) highest: u8,
    /// Attempts with a lapsed hold that is not released yet, a bit each.
    pub(crate) lapsed: u8,
    /// Attempts that were released, a bit each.
    pub(crate) released: u8,
}

/// State of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Acquiring,
    /// A quorum granted; now it is to accept a larger token.
    Raising,
    Holding,
    /// The grant stands; one hold of it has ended, and the next one does not exist yet.
    Between,
}

impl Client {
    pub(crate) fn new(scope: &Scope, client: usize) -> Self {
        let highest = if scope.clock_until == 0 {
            scope.clocks[client].unsigned_abs()
        } else {
            0
        };
        Self {
            phase: Phase::Idle,
            attempts: 0,
            extensions_left: scope.extensions[client],
            entries_left: scope.entries[client],
            passes_left: scope.passes[client],
            needs: scope.quorum[client],
            round: 0,
            elapsed: 0,
            extending: None,
            entering: false,
            left: 0,
            count: 0,
            token: 0,
            top: 0,
            highest,
            lapsed: 0,
            released: 0,
        }
    }

    /// Whether it has a guard with validity left.
    pub(crate) fn is_valid(&self) -> bool {
        self.phase == Phase::Holding && self.left > 0
    }

    /// Whether a grant of it stands, with a hold or between two.
    pub(crate) fn has_grant(&self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::Between)
    }

    pub(crate) fn is_trying(&self) -> bool {
        matches!(self.phase, Phase::Acquiring | Phase::Raising)
    }

    /// The number of the present attempt, or of the one before where there is none.
    pub(crate) fn attempt(&self) -> u8 {
        self.attempts - 1
    }

    /// Tells the requests of its rounds apart.
    pub(crate) fn serial(&self) -> u8 {
        self.attempt() << 4 | self.round
    }
}
