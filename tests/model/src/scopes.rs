//! The scopes in which the protocol holds.

use crate::properties::{NO_ORPHAN, ONE_HOLD, QUIET, STANDS};
use crate::rules::Rules;
use crate::scope::Scope;

/// All of them.
#[must_use]
pub fn scopes() -> Vec<Scope> {
    let mut scopes = of_locks();
    scopes.extend(of_memory());
    scopes.extend(of_tokens());
    scopes.extend(of_grants());
    scopes
}

fn of_locks() -> Vec<Scope> {
    vec![
        Scope {
            name: "order and time",
            attempts: [2, 1],
            witnesses: &["a grant", "a refused rival wins", "a rollback", "a lapse"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "clocks that differ",
            lease: 3,
            drift: 1,
            skew: [-1, 0, 1],
            extensions: [1, 0],
            witnesses: &["a grant", "an extension", "a lapse"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "broken connections",
            attempts: [1, 1],
            breaks: 1,
            witnesses: &["a grant", "a late arrival"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "sockets that outlive",
            rules: Rules {
                kill_predecessor: false,
                ..Rules::PROTOCOL
            },
            attempts: [2, 0],
            breaks: 2,
            not_promised: &[NO_ORPHAN, QUIET],
            witnesses: &["a grant", "a late arrival"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "extension",
            extensions: [2, 0],
            witnesses: &["an extension", "a retake counts", "a lapse"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "late extensions",
            rules: Rules {
                kill_predecessor: false,
                ..Rules::PROTOCOL
            },
            extensions: [1, 0],
            breaks: 1,
            late_acquires: false,
            witnesses: &["an extension", "a late arrival"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "shorter leases",
            extensions: [2, 0],
            shorter: true,
            witnesses: &["an extension"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "force",
            attempts: [1, 0],
            extensions: [2, 0],
            force: true,
            not_promised: &[ONE_HOLD, STANDS],
            witnesses: &["a force"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "re-entry",
            entries: [2, 0],
            witnesses: &["a re-entry"],
            ..Scope::REDLOCK
        },
    ]
}

fn of_memory() -> Vec<Scope> {
    vec![
        Scope {
            name: "restarts",
            extensions: [1, 0],
            restarts: 1,
            witnesses: &["a retake counts", "a quarantined answer"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "MultiLock, all but one forget",
            rules: Rules {
                quarantine: false,
                ..Rules::PROTOCOL
            },
            quorum: [3, 3],
            extensions: [1, 0],
            restarts: 2,
            not_promised: &[STANDS],
            witnesses: &["a grant", "a retake counts"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "mixed policies",
            quorum: [2, 3],
            restarts: 1,
            ..Scope::REDLOCK
        },
    ]
}

fn of_tokens() -> Vec<Scope> {
    vec![Scope {
        name: "fencing",
        attempts: [2, 1],
        time: false,
        fenced: true,
        clocks: [0, 1],
        witnesses: &["a raise", "a refused rival wins", "quiet after a grant"],
        ..Scope::REDLOCK
    }]
}

fn of_grants() -> Vec<Scope> {
    vec![
        Scope {
            name: "passed on",
            extensions: [1, 0],
            passes: [2, 0],
            witnesses: &[
                "a pass",
                "an extension between two holds",
                "a retake counts",
                "a lapse",
            ],
            ..Scope::REDLOCK
        },
        Scope {
            name: "passed on, a node forgets",
            extensions: [1, 0],
            passes: [1, 0],
            restarts: 1,
            witnesses: &["a pass", "a retake counts", "a quarantined answer"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "passed on, MultiLock, all but one forget",
            rules: Rules {
                quarantine: false,
                ..Rules::PROTOCOL
            },
            quorum: [3, 3],
            extensions: [1, 0],
            passes: [1, 0],
            restarts: 2,
            not_promised: &[STANDS],
            witnesses: &["a pass", "a retake counts"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "passed on, late acquires",
            rules: Rules {
                kill_predecessor: false,
                ..Rules::PROTOCOL
            },
            extensions: [1, 0],
            passes: [1, 1],
            time: false,
            breaks: 1,
            fenced: true,
            block: 2,
            not_promised: &[NO_ORPHAN, QUIET],
            witnesses: &["a pass", "a late arrival"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "passed on, tokens",
            passes: [1, 1],
            fenced: true,
            block: 2,
            clocks: [0, 1],
            witnesses: &["a pass", "a raise", "asleep while passing on, and a rival holds"],
            ..Scope::REDLOCK
        },
        Scope {
            name: "passed on, tokens that are raised",
            attempts: [2, 1],
            extensions: [1, 0],
            passes: [2, 1],
            time: false,
            fenced: true,
            block: 3,
            clocks: [0, 1],
            witnesses: &["a pass", "a raise", "a refused rival wins", "quiet after a grant"],
            ..Scope::REDLOCK
        },
    ]
}
