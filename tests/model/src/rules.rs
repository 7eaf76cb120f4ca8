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
    /// Forgetful nodes may vote as long as every two quorums have a node in common that remembers. Off: one more may
    /// vote.
    pub allowance: bool,
    /// An extension creates nothing. Off: it takes the name of a node where it is free.
    pub extend_creates_nothing: bool,
    /// A time to live is only ever raised. Off: the last writer sets it.
    pub lease_only_raised: bool,
    /// A node accepts a token above its stored one. Off: an equal token, too.
    pub accept_strictly: bool,
    /// Tokens are numbers the client proposes. Off: each node counts, and the largest is the token.
    pub one_token_for_all: bool,
    /// A raise is sent to nodes that granted and accepted only where the owner holds. Off: anywhere.
    pub raise_needs_owner: bool,
    /// A token is accepted only together with the grant. Off: by a node that refuses, too.
    pub accept_with_grant: bool,
    /// Tokens start above all tokens that a restarted node may have forgotten.
    pub floor: bool,
    /// Force leaves a mark that keeps the former owner out.
    pub force_marks: bool,
    /// The client counts re-entries. Off: the nodes do, up and down.
    pub client_counts: bool,
    /// A grant is passed on to holds that need as many grants as the one before. Off: to any.
    pub same_needs: bool,
    /// A hold has ended before the next one of its grant exists. Off: it ends afterwards.
    pub ends_before_next: bool,
    /// A hold that was passed on is valid for the rest of the grant. Off: for a lease from then.
    pub validity_of_grant: bool,
    /// Every hold of a grant has a token of its own. Off: they share one.
    pub token_for_each_hold: bool,
    /// A node that accepts a block of tokens stores its last one. Off: its first.
    pub block_stored: bool,
    /// A client proposes above the last token of its own last block. Off: above the first.
    pub above_own_block: bool,
    /// Extensions and retakes declare the last token of the block. Off: the hold's, which
    /// nothing here refutes: as long as no fence is lost, a quorum has stored the block's last token.
    pub block_declared: bool,
    /// A guard of a hold that was passed on releases nothing.
    pub old_guards_idle: bool,
    /// A grant that was released is not passed on.
    pub released_is_over: bool,
    /// A grant is released if its next hold is given up before it exists.
    pub given_up_is_released: bool,
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
        accept_with_grant: true,
        floor: true,
        force_marks: true,
        client_counts: true,
        same_needs: true,
        ends_before_next: true,
        validity_of_grant: true,
        token_for_each_hold: true,
        block_stored: true,
        above_own_block: true,
        block_declared: true,
        old_guards_idle: true,
        released_is_over: true,
        given_up_is_released: true,
    };
}
