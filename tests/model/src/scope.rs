//! Bounds of an exploration: the numbers of clients, attempts and faults.

use crate::rules::Rules;
use crate::state::{CLIENTS, NODES};

/// The bounds of one exploration. Within them everything may happen, in any order.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// Which rules are followed.
    pub rules: Rules,
    /// Grants that each client needs.
    pub quorum: [u8; CLIENTS],
    /// Attempts of each client.
    pub attempts: [u8; CLIENTS],
    /// Extensions of each client, over all its holds.
    pub extensions: [u8; CLIENTS],
    /// Whether an extension may also ask for a lease of one tick.
    pub shorter: bool,
    /// Re-entries of each client, over all its holds.
    pub entries: [u8; CLIENTS],
    /// How often each client passes a grant on, over all its grants.
    pub passes: [u8; CLIENTS],
    /// Whether time passes. Without it nothing expires, and more can be explored of the rules that do not
    /// rest on time.
    pub time: bool,
    /// The lease, in ticks.
    pub lease: u8,
    /// The part of the lease that is never trusted, in ticks.
    pub drift: u8,
    /// By how many ticks each node's lease is longer or shorter than the lease.
    pub skew: [i8; NODES],
    /// Connections that break.
    pub breaks: u8,
    /// Whether an abandoned socket may still deliver acquires, and not extensions alone.
    pub late_acquires: bool,
    /// Nodes that restart.
    pub restarts: u8,
    /// Losses that a restart may cause.
    pub losses: &'static [Loss],
    /// Whether holds have fencing tokens.
    pub fenced: bool,
    /// How many tokens an attempt proposes at once, for as many holds of its grant.
    pub block: u8,
    /// The first token that each client proposes; for tokens from clocks, the ticks by which each clock is off.
    pub clocks: [i8; CLIENTS],
    /// The number of ticks explored where tokens come from clocks; 0 where they only count upwards.
    pub clock_until: u8,
    /// Whether somebody may force a hold out, once.
    pub force: bool,
    /// Promises that are not made under these conditions, by their names.
    pub not_promised: &'static [&'static str],
    /// States that must come about in it, so that it is not vacuous.
    pub witnesses: &'static [&'static str],
}

/// Loss of a node in a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The lock and its marks, not the fence.
    Lock,
    /// The fence, not the lock.
    Fence,
    /// Everything.
    All,
}

impl Scope {
    /// `RedLock` of three, one attempt each, nothing goes wrong but time and order.
    pub const REDLOCK: Self = Self {
        name: "redlock",
        rules: Rules::PROTOCOL,
        quorum: [2; CLIENTS],
        attempts: [1; CLIENTS],
        extensions: [0; CLIENTS],
        shorter: false,
        entries: [0; CLIENTS],
        passes: [0; CLIENTS],
        time: true,
        lease: 2,
        drift: 0,
        skew: [0; NODES],
        breaks: 0,
        late_acquires: true,
        restarts: 0,
        losses: &[Loss::Lock],
        fenced: false,
        block: 1,
        clocks: [0; CLIENTS],
        clock_until: 0,
        force: false,
        not_promised: &[],
        witnesses: &[],
    };

    /// For how long a quorum's grant is valid, in ticks from the start of its round.
    pub(crate) fn validity(&self) -> u8 {
        self.lease - if self.rules.drift { self.drift } else { 0 }
    }

    /// How long a restarted node has no vote, in ticks.
    pub(crate) fn quarantine(&self) -> u8 {
        match (self.rules.quarantine, self.rules.quarantine_of_a_lease) {
            (false, _) => 0,
            (true, true) => self.lease,
            (true, false) => self.lease - 1,
        }
    }

    /// How many nodes in quarantine may vote for a quorum: of it and any other policy's smallest, a
    /// majority, at least one node in common must remember.
    pub(crate) fn forgetful_allowed(&self, quorum: usize) -> usize {
        let majority = NODES / 2 + 1;
        let allowed = quorum + majority - NODES - 1;
        allowed + usize::from(!self.rules.allowance)
    }

    /// Whether nodes are alike, so that states that differ in their order only are one.
    pub(crate) fn is_symmetric(&self) -> bool {
        self.skew.iter().all(|skew| *skew == self.skew[0])
    }
}
