//! The figures of one run: as a line between processes, and as a row of the table.

use serde::{Deserialize, Serialize};

use crate::setting::Setting;

/// Figures of one run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) grants: u64,
    pub(crate) timed_out: u64,
    pub(crate) unreachable: u64,
    pub(crate) lost: u64,
    pub(crate) wait_p50_us: u64,
    pub(crate) wait_p99_us: u64,
    pub(crate) wait_max_us: u64,
    pub(crate) scripts: u64,
    pub(crate) most_pending: u64,
    pub(crate) connected_kib: u64,
    pub(crate) ended_kib: u64,
    /// Times that two valid holds of one name met.
    pub(crate) meetings: u64,
    /// Locks on masters, and pending releases, after everything has come to rest.
    pub(crate) left: u64,
    /// Times that the fault has struck.
    pub(crate) strikes: u64,
}

/// Head of the table.
pub(crate) const HEADER: &str = "\
| clients | names | distance | fault, strikes | grants | timed out | unreachable | lost | wait p50 ms | p99 ms | longest ms | scripts/grant | most pending | memory MiB, connected → end | two at once | left |
|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

impl Row {
    /// The figures in one line.
    pub(crate) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("numbers alone")
    }

    /// Takes in that line.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Whether the run broke a promise, or shows nothing of its fault.
    pub(crate) fn is_broken(&self, setting: &Setting) -> bool {
        let shows_nothing = setting.fault.is_some() && self.strikes == 0 || self.grants == 0;
        self.meetings > 0 || self.left > 0 || shows_nothing
    }

    /// The row of the table.
    pub(crate) fn to_table(&self, setting: &Setting) -> String {
        let ms = |us: u64| format!("{}.{}", us / 1000, us % 1000 / 100);
        let tenths = self.scripts * 10 / self.grants.max(1);
        format!(
            "| {} | {} | {} % | {} | {} | {} | {} | {} | {} | {} | {} | {}.{} | {} | {} → {} | {} | {} |",
            setting.clients,
            setting.names,
            setting.distance,
            setting.fault.map_or("none".to_owned(), |fault| format!(
                "{}, {}",
                fault.word(),
                self.strikes
            )),
            self.grants,
            self.timed_out,
            self.unreachable,
            self.lost,
            ms(self.wait_p50_us),
            ms(self.wait_p99_us),
            ms(self.wait_max_us),
            tenths / 10,
            tenths % 10,
            self.most_pending,
            self.connected_kib / 1024,
            self.ended_kib / 1024,
            self.meetings,
            self.left,
        )
    }
}
