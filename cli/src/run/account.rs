//! The outcome of `run` and `hold`, for programs: as JSON, and as metrics for a textfile collector.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use multilock::{Mode, MultiLockGuard};
use rustix::process::WaitStatus;
use serde_json::json;
use tokio::time::Instant;

use crate::args::OutcomeFiles;
use crate::exit::{self, End, Failure};
use crate::inspect::as_text;
use crate::leave::{check_folder, escaped, put};
use crate::names::Names;
use crate::report::{hold_id, ms};
use crate::writer;

/// Course of the command so far.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) begun: Instant,
    granted: Option<Granted>,
    /// Whether another held the lock, for as long as this command waited.
    is_contended: bool,
    /// End of the program, if it has run.
    program: Option<WaitStatus>,
}

#[derive(Debug)]
struct Granted {
    at: Instant,
    hold: String,
    token: Option<u64>,
    seat: Option<u32>,
    /// End of the hold.
    ended: Option<Instant>,
}

impl Account {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            granted: None,
            is_contended: false,
            program: None,
        }
    }

    pub(super) fn granted<M: Mode>(&mut self, guard: &MultiLockGuard<M>, seat: Option<u32>) {
        self.granted = Some(Granted {
            at: Instant::now(),
            hold: hold_id(&guard.holder()),
            token: Some(guard.fencing_token().get()),
            seat,
            ended: None,
        });
    }

    pub(super) fn contended(&mut self) {
        self.is_contended = true;
    }

    pub(super) fn program_ended(&mut self, status: Option<WaitStatus>) {
        self.program = status;
    }

    pub(super) fn hold_ended(&mut self) {
        if let Some(granted) = &mut self.granted {
            granted.ended = Some(Instant::now());
        }
    }

    /// Refuses files in folders that do not exist, and one file for both.
    pub(super) fn check(files: &OutcomeFiles) -> Result<(), Failure> {
        for (option, file) in [("--report", &files.report), ("--textfile", &files.textfile)] {
            if let Some(file) = file {
                check_folder(option, file)?;
            }
        }
        match &files.textfile {
            Some(file) if files.are_one() => Err(Failure::usage(format_args!(
                "--textfile: {} is not allowed; allowed: another file than that of --report",
                file.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Adds the end of the program, if one has run, to a failure that hides it.
    pub(super) fn with_end(&self, failure: Failure, end: End) -> Failure {
        match self.program {
            Some(_) => Failure::new(failure.code, format_args!("{} ({end})", failure.message)),
            None => failure,
        }
    }

    /// Writes the files that the arguments name. A file that cannot be written is a failure of the command.
    pub(super) fn write(
        &self,
        files: &OutcomeFiles,
        names: &Names,
        result: &Result<End, Failure>,
    ) -> Result<(), Failure> {
        // A file may be stderr.
        writer::settle();
        let report = files.report.as_ref().map_or(Ok(()), |file| {
            put("--report", file, &as_text(&self.report(names, result), false))
        });
        // Also if the report cannot be written: metrics that stay would tell of the run before.
        let metrics = files.textfile.as_ref().filter(|_| !files.are_one());
        let metrics = metrics.map_or(Ok(()), |file| {
            put("--textfile", file, &self.metrics(names, result))
        });
        report.and(metrics)
    }

    fn outcome(&self, result: &Result<End, Failure>) -> &'static str {
        match result {
            Ok(_) if self.granted.is_some() => "done",
            Ok(_) => "interrupted",
            // Its exit code is free to choose.
            Err(_) if self.is_contended => "contended",
            Err(failure) => match failure.code {
                exit::LOST => "lost",
                exit::NO_QUORUM => "unreachable",
                exit::UNFIT => "unfit",
                exit::USAGE => "invalid",
                _ => "failed",
            },
        }
    }

    /// Time for which it waited, and time for which it held the lock.
    fn times(&self) -> (Duration, Option<Duration>) {
        match &self.granted {
            None => (self.begun.elapsed(), None),
            Some(granted) => {
                let ended = granted.ended.unwrap_or_else(Instant::now);
                (granted.at - self.begun, Some(ended - granted.at))
            }
        }
    }

    fn report(&self, names: &Names, result: &Result<End, Failure>) -> serde_json::Value {
        let (waited, held) = self.times();
        let granted = self.granted.as_ref();
        let program = self
            .program
            .map(|status| json!({"code": status.exit_status(), "signal": status.terminating_signal()}));
        json!({
            "outcome": self.outcome(result),
            "names": **names,
            "ended_at": humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            "waited_ms": ms(waited),
            "held_ms": held.map(ms),
            "hold": granted.map(|granted| &granted.hold),
            "token": granted.and_then(|granted| granted.token),
            "seat": granted.and_then(|granted| granted.seat),
            "program": program,
            "error": result.as_ref().err().map(|failure| &failure.message),
        })
    }

    fn metrics(&self, names: &Names, result: &Result<End, Failure>) -> String {
        let (waited, held) = self.times();
        let outcome = self.outcome(result);
        let labels = format!("names=\"{}\"", escaped(&names.to_string()));
        let mut text = String::new();
        let mut gauge = |name: &str, help: &str, more: &str, value: f64| {
            let _ = writeln!(
                text,
                "# HELP {name} {help}
# TYPE {name} gauge
{name}{{{labels}{more}}} {value}"
            );
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        gauge(
            "multilock_run_ended_timestamp_seconds",
            "Time at which multilock run ended last, since 1970, with its outcome",
            &format!(",outcome=\"{outcome}\""),
            now.as_secs_f64(),
        );
        gauge(
            "multilock_run_success",
            "Whether the lock was held to the end and the program's exit code was 0",
            "",
            f64::from(u8::from(matches!(result, Ok(End::Code(0))))),
        );
        gauge(
            "multilock_run_waited_seconds",
            "Time for which it waited for the lock",
            "",
            waited.as_secs_f64(),
        );
        if let Some(held) = held {
            gauge(
                "multilock_run_held_seconds",
                "Time for which it held the lock",
                "",
                held.as_secs_f64(),
            );
        }
        text
    }
}
