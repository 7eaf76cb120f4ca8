//! The report as metrics, for the textfile collector of `node_exporter`.

use std::fmt::Write;
use std::time::Duration;

use multilock::Examination;

use super::finding::Severity;
use super::{Diagnosis, together};
use crate::leave::escaped;

/// Name, help, and the value of a master, if it is known.
type Gauge = (&'static str, &'static str, fn(&Examination) -> Option<f64>);

const OF_MASTERS: [Gauge; 6] = [
    (
        "multilock_master_up",
        "Whether the master answered the examination",
        |master| Some(f64::from(u8::from(master.server.is_ok()))),
    ),
    (
        "multilock_master_has_vote",
        "Whether its vote counts now",
        |master| {
            let votes = together::usable(master).is_some_and(|facts| facts.quarantine.is_zero());
            Some(f64::from(u8::from(votes)))
        },
    ),
    (
        "multilock_master_quarantine_seconds",
        "Time for which it has no vote",
        |master| Some(master.server.as_ref().ok()?.quarantine.as_secs_f64()),
    ),
    (
        "multilock_master_remembers_seconds",
        "Time since which its memory counts",
        |master| Some(master.server.as_ref().ok()?.remembers?.as_secs_f64()),
    ),
    (
        "multilock_master_round_trip_seconds",
        "Round trip of the examination",
        |master| Some(master.server.as_ref().ok()?.round_trip.as_secs_f64()),
    ),
    (
        "multilock_master_clock_offset_seconds",
        "Time by which its clock is ahead of this host's",
        |master| Some(seconds(master.server.as_ref().ok()?.clock_offset_us)),
    ),
];

/// Seconds of a number of microseconds.
fn seconds(us: i64) -> f64 {
    let seconds = Duration::from_micros(us.unsigned_abs()).as_secs_f64();
    if us < 0 { -seconds } else { seconds }
}

pub(super) fn of(diagnosis: &Diagnosis, code: u8) -> String {
    let mut text = String::new();
    let begin = |text: &mut String, name: &str, help: &str| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    };
    for (name, help, value) in OF_MASTERS {
        begin(&mut text, name, help);
        for master in &diagnosis.masters {
            if let Some(value) = value(master) {
                let _ = writeln!(text, "{name}{{node=\"{}\"}} {value}", escaped(&master.node));
            }
        }
    }
    let name = "multilock_doctor_findings";
    begin(&mut text, name, "Number of findings");
    for severity in [Severity::Unfit, Severity::Warning, Severity::Note] {
        let word = severity.word();
        let count = diagnosis
            .findings
            .iter()
            .filter(|finding| finding.severity.word() == word)
            .count();
        let _ = writeln!(text, "{name}{{severity=\"{word}\"}} {count}");
    }
    let name = "multilock_doctor_exit_code";
    begin(
        &mut text,
        name,
        "Exit code of multilock doctor: 0 if nothing is wrong",
    );
    let _ = writeln!(text, "{name} {code}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_be_behind() {
        let told = [-1_500_000, 0, 250].map(|us| seconds(us).to_string());
        assert_eq!(told, ["-1.5", "0", "0.00025"]);
    }
}
