//! A history for people: one line an event, in milliseconds since its beginning.

use std::fmt::Write;

use crate::event::{Done, Event, Micros, Said, What};

/// The events from `from` to `to`, looks and refusals that say nothing new left out unless `all`.
pub fn timeline(events: &[Event], from: Micros, to: Micros, all: bool) -> String {
    let start = events.first().map_or(0, |event| event.at);
    let mut text = String::new();
    for event in events {
        if (from..=to).contains(&event.at) && (all || telling(event)) {
            let _ = writeln!(text, "{:>10.3}  {}", since(event.at, start), line(event, start));
        }
    }
    text
}

/// Milliseconds.
#[allow(clippy::cast_precision_loss)]
pub fn since(at: Micros, start: Micros) -> f64 {
    (at as f64 - start as f64) / 1000.0
}

fn telling(event: &Event) -> bool {
    !matches!(
        &event.what,
        What::Said(
            _,
            Said::Refused { .. }
                | Said::Hello
                | Said::Write { accepted: true, .. }
                | Said::Read { accepted: true, .. }
        )
    )
}

fn line(event: &Event, start: Micros) -> String {
    let ms = |at: Micros| format!("{:.3}", since(at, start));
    match &event.what {
        What::Done(done) => match done {
            Done::Break(what) => format!("*** {what}"),
            Done::Healed => "*** healed".to_owned(),
            Done::Over => "*** over".to_owned(),
            Done::Stopped { worker } => format!("*** SIGSTOP to worker {worker}"),
            Done::Continued { worker } => format!("*** SIGCONT to worker {worker}"),
        },
        What::Said(task, said) => match said {
            Said::Hello => format!("{task} begins"),
            Said::Enter {
                names,
                token,
                policy,
                mode,
                began,
                from,
                until,
            } => format!(
                "{task} ENTERS {} ({policy}, {mode}) token {token}: granted from {}, valid {} .. {}",
                names.join("+"),
                ms(*began),
                ms(*from),
                ms(*until)
            ),
            Said::Downgrade { at } => format!("{task} only reads from {} on", ms(*at)),
            Said::Write {
                looked,
                until,
                accepted,
            }
            | Said::Read {
                looked,
                until,
                accepted,
            } => {
                let verb = if matches!(said, Said::Read { .. }) {
                    "reads"
                } else {
                    "writes"
                };
                let outcome = if *accepted {
                    "accepted"
                } else {
                    "REJECTED as stale"
                };
                format!(
                    "{task} {verb}: looked at {}, valid until {}; {outcome}",
                    ms(*looked),
                    ms(*until)
                )
            }
            Said::Lost { at, .. } => format!("{task} learns at {} that its hold is LOST", ms(*at)),
            Said::Leave { at } => format!("{task} leaves at {}", ms(*at)),
            Said::Unlocked { kind } => format!("{task} has left: {kind}"),
            Said::Refused {
                policy,
                began,
                ended,
                refusal,
                detail,
            } => format!(
                "{task} ({policy}) refused, {} .. {}: {refusal:?} {detail}",
                ms(*began),
                ms(*ended)
            ),
            Said::Gone => format!("{task} is gone"),
            Said::Ran { job, .. } => format!("{task} has done {job}"),
        },
    }
}
