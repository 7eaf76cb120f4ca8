//! Lines of earlier runs on the page. A run of some scenarios replaces the lines of these scenarios; the other lines stay.

use anyhow::{Context, Result};

use super::page::between;
use crate::summary::{Line, Summary};

/// The scenario that a line belongs to: `S1` of `S1.n5.p50`.
fn scenario(line: &Line) -> &str {
    line.scenario.split('.').next().unwrap_or_default()
}

/// The scenarios of a run, in its order.
pub fn scenarios(summary: &Summary) -> Vec<&str> {
    let mut all: Vec<&str> = summary.lines.iter().map(scenario).collect();
    all.dedup();
    all
}

/// Lines on the page of scenarios that are not in the run.
pub fn kept(page: &str, summary: &Summary) -> Result<Vec<Line>> {
    let lines = between(page, "lines")?.lines();
    let lines = lines.filter(|line| line.starts_with("scenario="));
    let lines: Vec<Line> = lines.map(str::parse).collect::<Result<_>>()?;
    let measured = scenarios(summary);
    let others = lines
        .into_iter()
        .filter(|line| !measured.contains(&scenario(line)));
    Ok(others.collect())
}

/// Both in the order of their scenarios' numbers.
pub fn merge(kept: Vec<Line>, measured: &[Line]) -> Result<Vec<Line>> {
    let mut all = kept;
    all.extend_from_slice(measured);
    let number = |line: &Line| -> Result<u32> {
        let digits: String = scenario(line)
            .chars()
            .skip(1)
            .take_while(char::is_ascii_digit)
            .collect();
        digits
            .parse()
            .with_context(|| format!("a scenario: {}", line.scenario))
    };
    let mut numbered: Vec<(u32, Line)> = Vec::new();
    for line in all {
        numbered.push((number(&line)?, line));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, line)| line).collect())
}

/// Rows of the page about the machines: a row for the whole run, and a row for each later run of some scenarios.
pub fn machines(page: &str, of: &[&str], told: &str) -> Result<String> {
    let begin = format!("{}: ", of.join(", "));
    let rows = between(page, "machine")?.lines().map(str::trim);
    let mut rows: Vec<&str> = rows
        .filter(|row| !row.is_empty() && !row.starts_with(&begin))
        .collect();
    let row = begin + told;
    rows.push(&row);
    Ok(rows.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    const PAGE: &str = "<!-- machine: begin -->\nall\n\nS2: old\n<!-- machine: end -->\n<!-- lines: begin -->\n```text\n\
                        scenario=S1.a n=5 ours_us=1.500 peer_x_us=fails\nscenario=S2 n=1 ours_us=7\nscenario=S10.b n=5\n```\n\
                        <!-- lines: end -->";

    fn run(scenario: &str) -> Summary {
        Summary {
            machine: Machine::default(),
            quick: false,
            runs: 5,
            seconds: 1.0,
            lines: vec![Line::new(scenario, 1).with("ours_us", 9.0)],
            distributions: Vec::new(),
        }
    }

    #[test]
    fn other_scenarios_stay_as_they_are() {
        let run = run("S2.new");
        let kept = kept(PAGE, &run).expect("lines");
        let merged = merge(kept, &run.lines).expect("numbers");
        let merged: Vec<String> = merged.iter().map(ToString::to_string).collect();
        assert_eq!(
            merged,
            [
                "scenario=S1.a n=5 ours_us=1.500 peer_x_us=fails",
                "scenario=S2.new n=1 ours_us=9.000",
                "scenario=S10.b n=5"
            ]
        );
    }

    #[test]
    fn a_run_of_some_scenarios_has_a_row_of_its_own() {
        assert_eq!(machines(PAGE, &["S2"], "new").expect("rows"), "all\n\nS2: new");
        assert_eq!(
            machines(PAGE, &["S1", "S2"], "new").expect("rows"),
            "all\n\nS2: old\n\nS1, S2: new"
        );
    }
}
