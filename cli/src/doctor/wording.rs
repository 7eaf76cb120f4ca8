//! A finding in words, for people, in the color of its severity.

use comfy_table::{ContentArrangement, Table, presets};

use super::finding::{Finding, Severity};
use crate::say::visible;
use crate::translation::{page, translated};

/// Width of the text.
const WIDTH: u16 = 110;

const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
pub(super) const GREEN: &str = "\x1b[32m";
pub(super) const PLAIN: &str = "\x1b[0m";

/// Color of the worst finding.
pub(super) fn color<'a>(findings: impl Iterator<Item = &'a Finding>) -> &'static str {
    match findings.map(|finding| finding.severity).min() {
        Some(Severity::Unfit | Severity::NoQuorum) => RED,
        Some(Severity::Warning) => YELLOW,
        Some(Severity::Note) | None => GREEN,
    }
}

/// Wraps the text, so that a terminal does not break words. Texts of servers have no colors of their own.
pub(super) fn worded(finding: &Finding) -> String {
    let color = color(std::iter::once(finding));
    let node = finding
        .node
        .as_ref()
        .map_or(String::new(), |node| format!("{node}: "));
    // The address stays in one piece, so that it can be clicked.
    let page = finding
        .faq
        .map_or(String::new(), |entry| format!("    {}\n", page(entry)));
    let word = finding.severity.word();
    let seen = format!("{word} {node}{}", translated(&finding.seen));
    let seen = wrapped(&visible(&seen), "");
    let remedy = wrapped(&visible(&translated(&finding.remedy)), "    ");
    format!("{color}{word}{PLAIN}{}{remedy}{page}", &seen[word.len()..])
}

/// Wraps a text, with an indent before each line.
fn wrapped(text: &str, indent: &str) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .add_row([text]);
    let lines: Vec<String> = table
        .lines()
        .map(|line| format!("{indent}{}\n", line.trim()))
        .collect();
    lines.concat()
}
