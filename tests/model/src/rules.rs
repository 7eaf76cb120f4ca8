//! The rules of the protocol, each of them a switch.

/// With all of them on it is the protocol. Each one off is a weaker form that must be refuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct Rules {
    /// Every attempt has an owner field of its own. Off: a client keeps one for all its attempts.
    pub fresh_owner: bool,
    /// Answers are counted only while validity is left. Off: a quorum is a hold, however late.
    pub answers_in_time: bool,
    /// Validity ends a drift before the lease. Off: it is as long as the lease.
    pub drift: bool,
    /// A lapse is terminal. Off: an extension that a quorum confirms brings the hold back.
    pub lapse_is_terminal: bool,
    /// The last unlock ends the validity before it sends anything. Off: only the lapse does.
    pub unlock_ends_first: bool,
    /// A rollback goes wherever something may have been granted. Off: where a grant was read.
    pub rollback_wherever: bool,
    /// A release that may not have arrived is sent again after reconnecting.
    pub obligations: bool,
    /// A new connection has the server end its predecessor first.
    pub kill_predecessor: bool,
    /// A node that may have forgotten a lease has no vote.
    pub quarantine: bool,
    /// The quarantine is as long as the lease. Off: a tick shorter.
    pub quarantine_of_a_lease: bool,
    /// It has no vote in extensions either.
    pub quarantine_in_extensions: bool,
    /// So many forgetful nodes may vote that every quorum still meets every other in one that
    /// remembers. Off: one more.
    pub allowance: bool,
    /// An extension creates nothing. Off: it takes what is free.
    pub extend_creates_nothing: bool,
    /// A time to live is only ever raised. Off: the last writer sets it.
    pub lease_only_raised: bool,
    /// A node accepts a token above what it has stored. Off: one that equals it, too.
    pub accept_strictly: bool,
    /// Tokens are numbers the client proposes. Off: each node counts, and the largest is the token.
    pub one_token_for_all: bool,
    /// A raise is sent to nodes that granted and accepted only where the owner holds. Off: anywhere.
    pub raise_needs_owner: bool,
    /// A release leaves the fence at the token of the hold or above, also where it was not accepted.
    pub release_raises: bool,
    /// A token is accepted only together with the grant. Off: by a node that refuses, too.
    pub accept_with_grant: bool,
    /// Tokens start above whatever a restarted node may have forgotten.
    pub floor: bool,
    /// Force leaves a mark that keeps the former owner out.
    pub force_marks: bool,
    /// The client counts re-entries. Off: the nodes do, up and down.
    pub client_counts: bool,
}

impl Rules {
    /// All of them.
    pub const PROTOCOL: Self = Self {
        fresh_owner: true,
        answers_in_time: true,
        drift: true,
        lapse_is_terminal: true,
        unlock_ends_first: true,
        rollback_wherever: true,
        obligations: true,
        kill_predecessor: true,
        quarantine: true,
        quarantine_of_a_lease: true,
        quarantine_in_extensions: true,
        allowance: true,
        extend_creates_nothing: true,
        lease_only_raised: true,
        accept_strictly: true,
        one_token_for_all: true,
        raise_needs_owner: true,
        release_raises: true,
        accept_with_grant: true,
        floor: true,
        force_marks: true,
        client_counts: true,
    };
}
