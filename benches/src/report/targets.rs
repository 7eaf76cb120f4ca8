//! The targets, and the figures that meet or miss them.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use crate::summary::{Figure, Line};

/// Rounding error of a sum of fractions.
const DUST: f64 = 1e-6;

const TARGETS: &str = include_str!("targets.txt");

struct Target {
    id: String,
    words: String,
    /// The line that is looked at.
    line: String,
    /// The figure in it that is judged.
    key: String,
    bound: Bound,
    /// The absolute figure that is shown beside it, and its unit.
    shown: Option<(String, String)>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

fn targets() -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for row in TARGETS.lines().filter(|row| !row.starts_with('#')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [id, words, line, points, key, bound, shown] = cells[..] else {
            bail!("not a target: {row}");
        };
        let (relation, bound) = bound.split_once(' ').with_context(|| format!("a bound: {row}"))?;
        let bound: f64 = bound.trim().parse().with_context(|| format!("a number: {row}"))?;
        let mut points: Vec<&str> = points.split_whitespace().collect();
        if points.is_empty() {
            points.push("");
        }
        for point in points {
            ensure!(point.is_empty() != line.contains('*'), "points: {row}");
            targets.push(Target {
                id: id.to_owned(),
                words: words.to_owned(),
                line: line.replace('*', point),
                key: key.to_owned(),
                bound: if relation == "<=" {
                    Bound::AtMost(bound)
                } else {
                    Bound::AtLeast(bound)
                },
                shown: shown
                    .split_once(' ')
                    .map(|(key, unit)| (key.to_owned(), unit.to_owned())),
            });
        }
    }
    Ok(targets)
}

/// Table of the targets and their figures. A target without its line is marked so.
pub fn table(lines: &[Line]) -> Result<String> {
    let mut table =
        String::from("| id | what | point | target | is | figure | |\n|---|---|---|---|---|---|---|\n");
    let (mut met, mut missed) = (0, 0);
    for Target {
        id,
        words,
        line: name,
        key,
        bound,
        shown,
    } in targets()?
    {
        let line = lines.iter().find(|line| line.scenario == name);
        let figure = |key: &str| line.and_then(|line| line.number(key));
        let shown = shown.and_then(|(key, unit)| Some(format!("{} {unit}", Figure::Number(figure(&key)?))));
        let shown = shown.unwrap_or_default();
        let (wanted, verdict) = match (bound, figure(&key)) {
            (Bound::AtMost(bound), is) => (format!("≤ {bound}"), is.map(|is| is <= bound + DUST)),
            (Bound::AtLeast(bound), is) => (format!("≥ {bound}"), is.map(|is| is >= bound - DUST)),
        };
        met += usize::from(verdict == Some(true));
        missed += usize::from(verdict == Some(false));
        let is = figure(&key).map_or_else(|| "–".to_owned(), |is| Figure::Number(is).to_string());
        let verdict = match verdict {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        writeln!(
            table,
            "| {id} | {words} | `{name}` | {wanted} | {is} | {shown} | {verdict} |"
        )?;
    }
    writeln!(table, "\n{met} met, {missed} missed.")?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_can_be_read() {
        assert!(targets().expect("the file is well formed").len() > 80);
    }
}
