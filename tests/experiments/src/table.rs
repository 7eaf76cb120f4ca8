//! The tables of all ways.

use std::fmt::Write;

use crate::harness::Row;

/// One row for each way.
pub(crate) fn of(rows: &[Row]) -> String {
    let mut text = String::from(
        "| guarded by | pauses | acknowledged | lost | % | overtaken | refused |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let tenths = (row.lost * 1000).checked_div(row.acknowledged).unwrap_or(0);
        writeln!(
            text,
            "| {} | {} | {} | {} | {}.{} | {} | {} |",
            row.way.describe(),
            row.pauses,
            row.acknowledged,
            row.lost,
            tenths / 10,
            tenths % 10,
            row.overtaken,
            row.refused
        )
        .expect("a string takes it");
    }
    text
}
