//! The generated parts of the page: between its markers, so that the words around them are written by hand.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{published, targets};
use crate::summary::{Line, Summary};

/// Writes the run into the page.
pub fn write(summary: &Summary, path: &Path) -> Result<()> {
    let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let kept = published::kept(&page, summary)?;
    let machine = if kept.is_empty() {
        machine(summary)
    } else {
        published::machines(&page, &published::scenarios(summary), &machine(summary))?
    };
    let all = published::merge(kept, &summary.lines)?;
    let page = replace(&page, "machine", &machine)?;
    let page = replace(&page, "targets", &targets::table(&all)?)?;
    let page = replace(&page, "lines", &lines(&all))?;
    fs::write(path, page).with_context(|| path.display().to_string())
}

/// The page before, in and behind a generated part.
fn split<'a>(page: &'a str, what: &str) -> Result<(&'a str, &'a str, &'a str)> {
    let (begin, end) = (format!("<!-- {what}: begin -->"), format!("<!-- {what}: end -->"));
    let (before, rest) = page
        .split_once(&begin)
        .with_context(|| format!("the page has no '{begin}'"))?;
    let (part, after) = rest
        .split_once(&end)
        .with_context(|| format!("the page has no '{end}'"))?;
    Ok((before, part, after))
}

/// A generated part.
pub fn between<'a>(page: &'a str, what: &str) -> Result<&'a str> {
    split(page, what).map(|(_, part, _)| part)
}

fn replace(page: &str, what: &str, with: &str) -> Result<String> {
    let (before, _, after) = split(page, what)?;
    Ok(format!(
        "{before}<!-- {what}: begin -->\n{}\n<!-- {what}: end -->{after}",
        with.trim_end()
    ))
}

fn machine(summary: &Summary) -> String {
    let machine = &summary.machine;
    let versions: Vec<String> = machine
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    format!(
        "{} form, {}, on {} ({} cores, {}, {}; load before {}). {}; {}. {}.",
        if summary.quick { "Quick" } else { "Full" },
        summary.runs_told(),
        day(machine.date),
        machine.cores,
        machine.processor,
        machine.system,
        machine.load,
        machine
            .redis
            .split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" "),
        machine.rustc.split(" (").next().unwrap_or_default(),
        versions.join(", "),
    )
}

fn lines(all: &[Line]) -> String {
    let mut text = String::from("```text\n");
    for line in all {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    text + "```"
}

/// Year, month and day of a time since 1970, by the Gregorian calendar.
fn day(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 {
        (month + 3, year)
    } else {
        (month - 9, year + 1)
    };
    format!("{:04}-{month:02}-{day:02}", year + era * 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_every_kind() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_798_761_599), "2026-12-31");
    }

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let page = "a <!-- x: begin -->old<!-- x: end --> b";
        let new = replace(page, "x", "new").expect("the markers are there");
        assert_eq!(new, "a <!-- x: begin -->\nnew\n<!-- x: end --> b");
        assert!(replace(page, "y", "new").is_err());
    }
}
