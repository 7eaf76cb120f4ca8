//! The weaker forms: the protocol without one of its rules, and the promise that each breaks.

use super::properties::{COVERED, EXCLUSION, ONE_WAY, OWN_END};
use super::scope::{PROTOCOL, Rules, Scope};

/// A weaker form, the promise that it breaks, and the least number of steps to do so.
#[derive(Clone, Debug)]
pub(super) struct Weaker {
    pub(super) scope: Scope,
    pub(super) breaks: &'static str,
    pub(super) steps: usize,
}

/// A weaker form: its name, the rules it leaves out, the promise that breaks and in how many steps, and where.
macro_rules! weaker {
    ($name:literal, {$($rule:ident),*}, $breaks:ident in $steps:literal, $base:ident {
        $($field:ident : $value:expr),* $(,)?
    }) => {
        Weaker {
            scope: Scope {
                name: $name,
                rules: Rules { $($rule: false,)* ..PROTOCOL },
                $($field: $value,)*
                ..Scope::$base
            },
            breaks: $breaks,
            steps: $steps,
        }
    };
}

/// All of them.
pub(super) fn weaker_forms() -> Vec<Weaker> {
    vec![
        weaker!("a leaver that deletes the key", { leaver_spares_others }, COVERED in 9, READERS {}),
        weaker!("the last reader sets the lease", { longest_lease_stays }, COVERED in 7, READERS {
            leases: [3, 1, 1],
        }),
        weaker!("a leaver that leaves its lease", { leaver_settles }, OWN_END in 6, READERS { leases: [3, 1, 1] }),
        weaker!("read one, write a majority", {}, EXCLUSION in 8, READER_AND_WRITER { quorum: [1, 2, 2] }),
        weaker!("a late extension that turns the key back", { late_extension_reads, kill_predecessor },
            ONE_WAY in 11, READER_AND_WRITER { extensions: [0, 1, 0], downgrades: true, breaks: [0, 1, 0] }),
        weaker!("a late acquire that turns the key back", { late_acquire_refused, kill_predecessor },
        ONE_WAY in 12, READER_AND_WRITER {
            extensions: [0, 1, 0], downgrades: true, breaks: [0, 1, 0], read_at_once: true,
        }),
        weaker!("a writer until its downgrade is confirmed", { reads_before_downgrade }, EXCLUSION in 12,
            READER_AND_WRITER { downgrades: true }),
        weaker!("a downgrade that is done again", { downgraded_once, kill_predecessor }, OWN_END in 10,
            READER_AND_WRITER { extensions: [0, 1, 0], downgrades: true, breaks: [0, 1, 0], read_at_once: true }),
        weaker!("a reader counts one in quarantine", { allowance }, EXCLUSION in 11, READER_AND_WRITER { restarts: 1 }),
        weaker!("a reader's extension counts one in quarantine", { quarantine_in_extensions }, EXCLUSION in 13,
            READER_AND_WRITER { extensions: [1, 0, 0], restarts: 1, read_at_once: true }),
        weaker!("a MultiLock reader counts two in quarantine", { allowance }, EXCLUSION in 9, READER_AND_WRITER {
            quorum: [3, 2, 2], restarts: 2, read_at_once: true,
        }),
    ]
}
