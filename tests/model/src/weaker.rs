//! The weaker forms: the protocol without one of its rules, and the promise that each breaks.

use crate::properties::{
    FORCED_OUT, IN_TIME, LOST_IS_LOST, NO_ORPHAN, ONE_HOLD, ONE_RAISE, RELEASED_ONCE, REMEMBERED, STANDS,
    TOKENS_RISE, TOKENS_UNIQUE, TTL,
};
use crate::rules::Rules;
use crate::scope::Scope;

/// A weaker form, and the promise that it breaks.
#[derive(Clone, Debug)]
pub struct Weaker {
    /// The protocol without a rule, or under more faults than it promises to tolerate.
    pub scope: Scope,
    /// The promise that must turn out broken.
    pub breaks: &'static str,
    /// In how many steps, at least.
    pub steps: usize,
}

/// A weaker form: its name, the rule it leaves out, the promise that breaks and in how many steps,
/// and the rest of the scope.
macro_rules! weaker {
    ($name:literal, {$($rule:ident),*}, $breaks:ident in $steps:literal, {$($field:ident : $value:expr),* $(,)?}) => {
        Weaker {
            scope: Scope {
                name: $name,
                rules: Rules { $($rule: false,)* ..Rules::PROTOCOL },
                $($field: $value,)*
                ..Scope::REDLOCK
            },
            breaks: $breaks,
            steps: $steps,
        }
    };
}

/// All of them.
#[must_use]
pub fn weaker_forms() -> Vec<Weaker> {
    let mut forms = of_attempts();
    forms.extend(of_holds());
    forms.extend(of_memory());
    forms.extend(of_tokens());
    forms.extend(of_grants());
    forms
}

fn of_attempts() -> Vec<Weaker> {
    vec![
        weaker!("one owner field for all attempts", { fresh_owner }, STANDS in 14, { attempts: [2, 0] }),
        weaker!("answers however late", { answers_in_time }, ONE_HOLD in 12, {}),
        weaker!("a hold handed out late", { answers_in_time }, IN_TIME in 7, {}),
        weaker!("validity as long as the lease", { drift }, ONE_HOLD in 12, {
            lease: 3, drift: 1, skew: [-1, 0, 1],
        }),
        weaker!(
            "rollback where a grant was read",
            { rollback_wherever },
            NO_ORPHAN in 3,
            {}
        ),
        weaker!("no obligations", { obligations }, NO_ORPHAN in 4, { breaks: 1 }),
        weaker!("predecessors live on", { kill_predecessor }, NO_ORPHAN in 6, { breaks: 1 }),
    ]
}

fn of_holds() -> Vec<Weaker> {
    vec![
        weaker!("revival", { lapse_is_terminal }, LOST_IS_LOST in 12, { extensions: [1, 0] }),
        weaker!("unlock sends first", { unlock_ends_first }, ONE_HOLD in 12, {}),
        weaker!("extension that creates", { extend_creates_nothing, kill_predecessor }, NO_ORPHAN in 11, {
            extensions: [1, 0], breaks: 1, late_acquires: false,
        }),
        weaker!("the last writer sets the lease", { lease_only_raised }, TTL in 7, {
            extensions: [1, 0], shorter: true,
        }),
        weaker!("a shorter lease, two holders", { lease_only_raised }, ONE_HOLD in 13, {
            extensions: [1, 0], shorter: true,
        }),
        weaker!("nodes count re-entries", { client_counts }, STANDS in 10, { entries: [1, 0], breaks: 2 }),
        weaker!("force without a mark", { force_marks }, FORCED_OUT in 5, { extensions: [1, 0], force: true }),
    ]
}

fn of_memory() -> Vec<Weaker> {
    vec![
        weaker!("no quarantine", { quarantine }, ONE_HOLD in 11, { restarts: 1 }),
        weaker!("quarantine of a lease less one", { quarantine_of_a_lease }, ONE_HOLD in 12, { restarts: 1 }),
        weaker!("extensions count quarantined nodes", { quarantine_in_extensions }, ONE_HOLD in 20, {
            extensions: [1, 0], restarts: 1,
        }),
        weaker!("MultiLock when all forget", { quarantine }, ONE_HOLD in 17, { quorum: [3, 3], restarts: 3 }),
        weaker!("one forgetful vote more, RedLock", { allowance }, ONE_HOLD in 11, { restarts: 1 }),
        weaker!("one forgetful vote more, mixed", { allowance }, ONE_HOLD in 14, { quorum: [2, 3], restarts: 2 }),
    ]
}

fn of_tokens() -> Vec<Weaker> {
    vec![
        weaker!("equal tokens accepted", { accept_strictly }, TOKENS_UNIQUE in 12, { fenced: true }),
        weaker!("accepted without a grant", { accept_with_grant }, TOKENS_RISE in 22, {
            fenced: true, attempts: [1, 2], clocks: [1, 0], time: false,
        }),
    ]
}

fn of_grants() -> Vec<Weaker> {
    vec![
        weaker!("passed on to one that needs more", { same_needs }, STANDS in 7, { passes: [1, 0] }),
        weaker!("a round for more, confirmed by fewer", { same_needs }, REMEMBERED in 15, {
            quorum: [3, 2], extensions: [1, 0], passes: [1, 0], restarts: 1, time: false,
        }),
        weaker!("the next hold before the end of the last", { ends_before_next }, ONE_HOLD in 6, { passes: [1, 0] }),
        weaker!("a lease from the pass on", { validity_of_grant }, ONE_HOLD in 14, { passes: [1, 0] }),
        weaker!("old guards release", { old_guards_idle }, ONE_HOLD in 14, { passes: [1, 0] }),
        weaker!("old guards release, twice", { old_guards_idle }, RELEASED_ONCE in 9, { passes: [1, 0] }),
        weaker!("released, then passed on", { released_is_over }, ONE_HOLD in 14, { passes: [1, 0] }),
        weaker!("released, passed on, released", { released_is_over }, RELEASED_ONCE in 8, { passes: [1, 0] }),
        weaker!("given up between two holds, kept", { given_up_is_released }, NO_ORPHAN in 7, { passes: [1, 0] }),
        weaker!("one token for a grant", { token_for_each_hold }, TOKENS_UNIQUE in 7, {
            passes: [1, 0], fenced: true, block: 2,
        }),
        weaker!("only the first token of a block stored", { block_stored }, TOKENS_UNIQUE in 14, {
            passes: [1, 0], fenced: true, block: 2, clocks: [0, 1],
        }),
        weaker!("a raise inside the own block", { above_own_block }, ONE_RAISE in 11, {
            fenced: true, block: 2, clocks: [0, 1],
        }),
    ]
}
