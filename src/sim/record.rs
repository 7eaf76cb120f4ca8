//! Records that masters in memory have from the beginning.

use crate::values::master_set::MasterSet;

/// Text of a master's record for a set, a run and a time.
pub(super) fn record_text(set: MasterSet, run: &str, since_us: u64) -> String {
    let longest = set.for_tests.map(|longest| format!(" {}", longest.as_millis()));
    format!("{} {run} {since_us}{}", set.masters, longest.unwrap_or_default())
}
