//! The weaker forms: the protocol without one of its rules, and the promise that each breaks.

use crate::properties::{
    FORCED_OUT, IN_TIME, LOST_IS_LOST, NO_ORPHAN, ONE_HOLD, STANDS, TOKENS_RISE, TOKENS_UNIQUE, TTL,
};
use crate::rules::Rules;
use crate::scope::Scope;

/// A weaker form and what it breaks.
#[derive(Clone, Debug)]
pub struct Weaker {
    /// The protocol without a rule, or beyond what it promises to stand.
    pub scope: Scope,
    /// The promise that must turn out broken.
    pub breaks: &'static str,
}

/// A weaker form: its name, the rule it leaves out, the promise that breaks, and the rest of the scope.
macro_rules! weaker {
    ($name:literal, {$($rule:ident),*}, $breaks:expr, {$($field:ident : $value:expr),* $(,)?}) => {
        Weaker {
            scope: Scope {
                name: $name,
                rules: Rules { $($rule: false,)* ..Rules::PROTOCOL },
                $($field: $value,)*
                ..Scope::REDLOCK
            },
            breaks: $breaks,
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
    forms
}

fn of_attempts() -> Vec<Weaker> {
    vec![
        weaker!("one owner field for all attempts", { fresh_owner }, STANDS, { attempts: [2, 0] }),
        weaker!("answers however late", { answers_in_time }, ONE_HOLD, {}),
        weaker!("a hold handed out late", { answers_in_time }, IN_TIME, {}),
        weaker!("validity as long as the lease", { drift }, ONE_HOLD, {
            lease: 3, drift: 1, skew: [-1, 0, 1],
        }),
        weaker!(
            "rollback where a grant was read",
            { rollback_wherever },
            NO_ORPHAN,
            {}
        ),
        weaker!("no obligations", { obligations }, NO_ORPHAN, { breaks: 1 }),
        weaker!("predecessors live on", { kill_predecessor }, NO_ORPHAN, { breaks: 1 }),
    ]
}

fn of_holds() -> Vec<Weaker> {
    vec![
        weaker!("revival", { lapse_is_terminal }, LOST_IS_LOST, { extensions: [1, 0] }),
        weaker!("unlock sends first", { unlock_ends_first }, ONE_HOLD, {}),
        weaker!("extension that creates", { extend_creates_nothing, kill_predecessor }, NO_ORPHAN, {
            extensions: [1, 0], breaks: 1, late_acquires: false,
        }),
        weaker!("the last writer sets the lease", { lease_only_raised }, TTL, {
            extensions: [1, 0], shorter: true,
        }),
        weaker!("a shorter lease, two holders", { lease_only_raised }, ONE_HOLD, {
            extensions: [1, 0], shorter: true,
        }),
        weaker!("nodes count re-entries", { client_counts }, STANDS, { entries: [1, 0], breaks: 2 }),
        weaker!("force without a mark", { force_marks }, FORCED_OUT, { extensions: [1, 0], force: true }),
    ]
}

fn of_memory() -> Vec<Weaker> {
    vec![
        weaker!("no quarantine", { quarantine }, ONE_HOLD, { restarts: 1 }),
        weaker!("quarantine of a lease less one", { quarantine_of_a_lease }, ONE_HOLD, { restarts: 1 }),
        weaker!("extensions count quarantined nodes", { quarantine_in_extensions }, ONE_HOLD, {
            extensions: [1, 0], restarts: 1,
        }),
        weaker!("MultiLock when all forget", { quarantine }, ONE_HOLD, { quorum: [3, 3], restarts: 3 }),
        weaker!("one forgetful vote more, RedLock", { allowance }, ONE_HOLD, { restarts: 1 }),
        weaker!("one forgetful vote more, mixed", { allowance }, ONE_HOLD, { quorum: [2, 3], restarts: 2 }),
    ]
}

fn of_tokens() -> Vec<Weaker> {
    vec![
        weaker!("equal tokens accepted", { accept_strictly }, TOKENS_UNIQUE, { fenced: true }),
        weaker!("accepted without a grant", { accept_with_grant }, TOKENS_RISE, {
            fenced: true, attempts: [1, 2], clocks: [1, 0], time: false,
        }),
    ]
}
