//! `multilock doctor`: problems of the masters and of the lists of their clients, and the remedies.

mod finding;
mod json;
mod lists;
mod master;
mod metrics;
mod refusal;
mod table;
mod together;
mod watch;
mod wording;

use std::time::Duration;

use multilock::{Examination, MastersBuilder};
use serde_json::Value;

use self::finding::{Finding, Severity};
use self::watch::{Watched, watch};
use crate::args::{DoctorArgs, MastersArgs};
use crate::exit::{self, Failure};
use crate::inspect::{as_text, print, print_coloured};
use crate::leave::put;
use crate::say::{LiveLine, Rough, Voice};

/// Facts, and the findings in them.
struct Diagnosis {
    masters: Vec<Examination>,
    watched: Watched,
    findings: Vec<Finding>,
}

pub(crate) async fn doctor(args: &DoctorArgs, masters: &MastersArgs, voice: Voice) -> Result<u8, Failure> {
    let diagnosis = diagnose(masters.builder()?, args.watch_for, voice).await?;
    let code = code(&diagnosis.findings, args.strict);
    let printed = if args.json {
        print(&as_text(&json::of(&diagnosis, code), false))
    } else {
        print_coloured(&table::of(&diagnosis))
    };
    // Also if nothing can be printed: metrics that stay would tell of the look before.
    let written = args.prometheus.as_ref().map_or(Ok(()), |file| {
        put("--prometheus", file, &metrics::of(&diagnosis, code))
    });
    printed.and(written)?;
    Ok(code)
}

/// The report for programs.
pub(crate) async fn report(builder: MastersBuilder, watch_for: Duration) -> Result<Value, Failure> {
    let diagnosis = diagnose(builder, watch_for, Voice::Quiet).await?;
    let code = code(&diagnosis.findings, false);
    Ok(json::of(&diagnosis, code))
}

async fn diagnose(builder: MastersBuilder, watch_for: Duration, voice: Voice) -> Result<Diagnosis, Failure> {
    let masters = builder.clone().examine().await?;
    let mut line = LiveLine::begin(voice);
    let waiting = |left| line.draw(format_args!("clients are watched for {} more", Rough(left)));
    let watched = watch(&builder, &masters, watch_for, waiting).await?;
    drop(line);
    let mut findings = together::findings(&masters);
    findings.extend(masters.iter().flat_map(master::findings));
    findings.extend(lists::findings(&masters, &watched));
    // The worst come first; equal ones stay in their order.
    findings.sort_by_key(|finding| finding.severity);
    Ok(Diagnosis {
        masters,
        watched,
        findings,
    })
}

/// Exit code, as the other commands return for the same problem.
fn code(findings: &[Finding], strict: bool) -> u8 {
    let has = |severity| findings.iter().any(|finding| finding.severity == severity);
    if has(Severity::Unfit) {
        exit::UNFIT
    } else if has(Severity::NoQuorum) {
        exit::NO_QUORUM
    } else if strict && has(Severity::Warning) {
        exit::FOUND
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_makes_the_code() {
        let codes = |severities: &[Severity]| {
            let finding = |severity: &Severity| Finding::of(*severity, "a", "seen", "remedy");
            let findings: Vec<Finding> = severities.iter().map(finding).collect();
            (code(&findings, false), code(&findings, true))
        };
        assert_eq!(codes(&[]), (0, 0));
        assert_eq!(codes(&[Severity::Note]), (0, 0));
        assert_eq!(codes(&[Severity::Note, Severity::Warning]), (0, 1));
        assert_eq!(codes(&[Severity::Warning, Severity::NoQuorum]), (69, 69));
        assert_eq!(codes(&[Severity::NoQuorum, Severity::Unfit]), (78, 78));
    }
}
