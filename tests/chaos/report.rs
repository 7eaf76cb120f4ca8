//! The table, and the report of a failing history.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::event::Micros;
use crate::faults::Row;
use crate::history::History;
use crate::support::linearizability::Figures;
use crate::timeline::timeline;
use crate::verdict::{Verdict, Wrong, verdict};

/// Around a violation.
const BEFORE: Micros = 1_500_000;
const AFTER: Micros = 300_000;

pub struct Line {
    pub row: Row,
    pub verdict: Verdict,
    pub history: History,
    pub wrong: Vec<Wrong>,
}

/// Of each history a row for plain locks and one for read/write locks.
pub fn table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:<58} {:>2} {:>3} {:<10} {:>6} {:>6} {:>7} {:>6} {:>8} {:>13} {:>8} {:>7} {:>7}  verdict\n",
        "fault",
        "n",
        "hit",
        "locks",
        "holds",
        "shared",
        "downgr.",
        "losses",
        "overlaps",
        "twin/fenced",
        "late ms",
        "back s",
        "took s"
    );
    for line in lines {
        for (layout, found) in line.history.findings.each() {
            let of_layout = line.wrong.iter().filter(|wrong| wrong.is_about(layout));
            let _ = writeln!(
                text,
                "{:<58} {:>2} {:>3} {:<10} {:>6} {:>6} {:>7} {:>6} {:>8} {:>13} {:>8} {:>7.2} {:>7.1}  {}: {}",
                line.row.name,
                line.history.masters,
                found.strikes,
                layout.to_string(),
                found.holds,
                found.shared,
                found.downgrades,
                found.losses,
                found.overlaps.len(),
                format!("{} / {}", found.stale.len(), found.stale_accepted.len()),
                found.latest_loss.as_millis(),
                found.slowest_return.as_secs_f64(),
                line.history.took.as_secs_f64(),
                verdict(&line.row, of_layout),
                line.row.promise,
            );
        }
    }
    text
}

/// The faults below a timeline around them, so that the end of a long log has them; the whole history goes to a file.
pub fn trouble(line: &Line) -> String {
    let history = &line.history;
    let mut text = String::from("\n");
    if let Some(at) = line.wrong.iter().find_map(|wrong| wrong.at) {
        let around = timeline(&history.events, at.saturating_sub(BEFORE), at + AFTER, false);
        // The end matters; a broken lock fills pages.
        let lines: Vec<&str> = around.lines().collect();
        for line in &lines[lines.len().saturating_sub(60)..] {
            let _ = writeln!(text, "    {line}");
        }
    }
    let _ = writeln!(
        text,
        "{}: {} (seed {}, {} masters)",
        line.verdict, line.row.name, history.seed, history.masters
    );
    for wrong in &line.wrong {
        let _ = writeln!(text, "  {}: {}", wrong.verdict, wrong.what);
    }
    match store(line) {
        Ok(path) => {
            let _ = writeln!(text, "  the whole history: {}", path.display());
        }
        Err(error) => {
            let _ = writeln!(text, "  the history could not be stored: {error}");
        }
    }
    text
}

fn store(line: &Line) -> std::io::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let dir = target.join("chaos");
    fs::create_dir_all(&dir)?;
    let name: String = line
        .row
        .name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let path = dir.join(format!("{name}-{}.txt", line.history.seed));
    let mut text = format!(
        "{}: {}, seed {}\n",
        line.verdict, line.row.name, line.history.seed
    );
    for wrong in &line.wrong {
        let _ = writeln!(text, "{}: {}", wrong.verdict, wrong.what);
    }
    text.push_str(&timeline(&line.history.events, 0, Micros::MAX, true));
    fs::write(&path, text)?;
    Ok(path)
}

/// Of each history, how much the linearizability checker had to judge.
pub fn linearizable(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let judged = &line.history.linearizable;
        let wrong = judged.wrong.len();
        let _ = writeln!(
            text,
            "{:<58} not linearizable={wrong} {}",
            line.row.name, judged.figures
        );
    }
    text
}

/// The last lines of a campaign.
pub fn summary(faults: usize, lines: &[Line]) -> String {
    let mut judged = Figures::default();
    for line in lines {
        judged += &line.history.linearizable.figures;
    }
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    format!(
        "linearizable: {judged}\nchaos: faults={faults} histories={} violations={} unexpected={}",
        lines.len(),
        count(Verdict::Violation),
        count(Verdict::Unexpected)
    )
}
