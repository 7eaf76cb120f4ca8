//! Verdict of a history on the promises of a row.

use std::fmt;

use crate::checker::Findings;
use crate::event::{Layout, Micros, Mode};
use crate::faults::{Expect, Row};
use crate::history::History;
use crate::hold::Pair;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Promised, and so it was.
    Kept,
    /// Not promised; whether it happened is in the figures.
    Expected,
    /// Nobody should have come to this.
    Unexpected,
    /// Promised and broken.
    Violation,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "kept",
            Self::Expected => "expected",
            Self::Unexpected => "UNEXPECTED",
            Self::Violation => "VIOLATION",
        })
    }
}

/// One thing that is wrong, and when it was seen.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub verdict: Verdict,
    pub what: String,
    pub at: Option<Micros>,
    /// Layout of the locks that it is about, if it is not about all.
    pub layout: Option<Layout>,
}

impl Wrong {
    pub fn is_about(&self, layout: Layout) -> bool {
        self.layout.is_none_or(|its| its == layout)
    }
}

/// Harm that was expected and is not in a history.
const NO_OVERLAP: &str = "two holders at once were to be seen, and none were";
const NOTHING_STALE: &str = "a stale write or read was to be seen, and none was";

/// Everything that is wrong with a history.
pub fn judge(row: &Row, history: &History) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let mut say = |verdict, what: String, at| {
        wrong.push(Wrong {
            verdict,
            what,
            at,
            layout: None,
        });
    };
    if let Some(error) = &history.error {
        let last = history.events.last().map(|event| event.at);
        say(Verdict::Unexpected, error.clone(), last);
    }
    if row.clean && !history.left_over.is_empty() {
        say(
            Verdict::Violation,
            format!("left behind: {}", history.left_over.join(", ")),
            None,
        );
    }
    if history.error.is_none() && history.findings.plain.strikes == 0 {
        say(Verdict::Unexpected, "the fault never struck".to_owned(), None);
    }
    if row.jobs && history.error.is_none() && history.findings.plain.jobs == 0 {
        say(Verdict::Unexpected, "no job was done".to_owned(), None);
    }
    // Of either layout: a rival of each in every history would take very many strikes.
    let found = history.findings.each();
    if row.overlaps == Expect::Seen && found.iter().all(|(_, found)| found.overlaps.is_empty()) {
        say(Verdict::Unexpected, NO_OVERLAP.to_owned(), None);
    }
    if row.stale == Expect::Seen && found.iter().all(|(_, found)| found.stale.is_empty()) {
        say(Verdict::Unexpected, NOTHING_STALE.to_owned(), None);
    }
    for found in &history.linearizable.wrong {
        let at = found.moments.first().copied();
        say(Verdict::Violation, found.what.clone(), at);
    }
    for (layout, found) in history.findings.each() {
        judge_locks(row, layout, found, &mut wrong);
    }
    wrong
}

/// Whether all that is wrong is harm that was not seen, which another history may show.
pub fn may_be_seen_later(wrong: &[Wrong]) -> bool {
    let is_unseen = |wrong: &Wrong| [NO_OVERLAP, NOTHING_STALE].contains(&wrong.what.as_str());
    !wrong.is_empty() && wrong.iter().all(is_unseen)
}

/// Everything that is wrong with the locks of one layout.
fn judge_locks(row: &Row, layout: Layout, found: &Findings, wrong: &mut Vec<Wrong>) {
    let mut say = |verdict, what: String, at| {
        wrong.push(Wrong {
            verdict,
            what: format!("{layout} locks: {what}"),
            at,
            layout: Some(layout),
        });
    };
    let first = |pairs: &[Pair]| pairs.first().map(|pair| pair.second.from);
    let overlaps = found.overlaps.len();
    if overlaps > 0 && row.overlaps == Expect::Never {
        let what = format!(
            "{overlaps} times two were valid at once that exclude each other{}",
            example(&found.overlaps)
        );
        say(Verdict::Violation, what, first(&found.overlaps));
    }
    // Where masters forget their fences, only a grant after another is promised the larger token.
    let mut falls = found.token_falls.clone();
    falls.retain(|pair| row.overlaps == Expect::Never || !pair.at_once());
    falls.retain(|pair| row.reader_tokens || pair.second.mode == Mode::Exclusive);
    if row.tokens && !falls.is_empty() {
        let what = format!(
            "{} tokens not above an earlier one{}",
            falls.len(),
            example(&falls)
        );
        say(Verdict::Violation, what, first(&falls));
    }
    if row.tokens && !found.stale_accepted.is_empty() {
        let what = format!(
            "the fenced resource took {} stale writes or reads",
            found.stale_accepted.len()
        );
        say(
            Verdict::Violation,
            what,
            found.stale_accepted.first().map(|(at, _)| *at),
        );
    }
    if let Some((at, job)) = found.done_again.first().filter(|_| row.jobs) {
        let what = format!("{} jobs done again, the first {job}", found.done_again.len());
        say(Verdict::Violation, what, Some(*at));
    }
    if let Some((due, task, late)) = found.late.first() {
        let what = format!(
            "{} losses told late, the first by {late:?} to {task}",
            found.late.len()
        );
        say(Verdict::Violation, what, Some(*due));
    }
    if row.blackout && !found.wrong_without_majority.is_empty() {
        let n = found.wrong_without_majority.len();
        let what = format!("{n} times granted or called held without a majority");
        say(
            Verdict::Violation,
            what,
            found.wrong_without_majority.first().copied(),
        );
    }
    if row.available && !found.idle_strikes.is_empty() {
        let what = format!(
            "no majority lock was granted during {} strikes",
            found.idle_strikes.len()
        );
        say(Verdict::Violation, what, found.idle_strikes.first().copied());
    }
    if let Some((at, _)) = found.starved.first() {
        let who: Vec<String> = found.starved.iter().map(|(_, task)| task.to_string()).collect();
        let what = format!("no lock within {:?} for {}", row.back_within, who.join(", "));
        say(Verdict::Unexpected, what, Some(*at));
    }
    if let Some((at, detail)) = found.wrong_refusals.first() {
        let what = format!(
            "{} refusals that no fault explains: {detail}",
            found.wrong_refusals.len()
        );
        say(Verdict::Unexpected, what, Some(*at));
    }
}

fn example(pairs: &[Pair]) -> String {
    pairs
        .first()
        .map_or(String::new(), |Pair { name, first, second }| {
            let (one, other) = (first.task, second.task);
            let (token, later) = (first.token, second.token);
            format!(", first {name}: {one} with token {token}, then {other} with token {later}")
        })
}

pub fn verdict<'a>(row: &Row, wrong: impl IntoIterator<Item = &'a Wrong>) -> Verdict {
    let worst = wrong.into_iter().map(|wrong| wrong.verdict).max();
    worst.unwrap_or(match row.overlaps {
        Expect::Never => Verdict::Kept,
        Expect::Open | Expect::Seen => Verdict::Expected,
    })
}
