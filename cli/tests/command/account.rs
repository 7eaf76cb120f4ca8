//! `hold`, and the files in which commands leave their outcome.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use multilock_test_support::{
    Server, WITHIN, connect, held_everywhere, three, undisturbed, until, until_free,
};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::time::timeout;

use crate::stage::{Said, Witness, ms, multilock, run, said, signal, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

/// A command that holds `a`, its stdin, and its first line.
async fn hold(servers: &[Server], args: &[&str]) -> (Child, ChildStdin, String) {
    let mut command = multilock(&urls(servers));
    let mut child = command
        .arg("hold")
        .args(args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the command");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = timeout(WITHIN, lines.next_line()).await.expect("in time");
    let input = child.stdin.take().expect("a pipe");
    (child, input, line.expect("text").expect("a line"))
}

async fn is_held(servers: &[Server]) -> Option<i32> {
    let mut command = multilock(&urls(servers));
    said(command.args(["held", "a"]).spawn().expect("the command"))
        .await
        .code
}

#[tokio::test]
async fn a_lock_is_held_until_stdin_closes_or_a_signal_comes() {
    let servers = three(ARGS).await;
    let (child, input, line) = hold(&servers, &["a"]).await;
    assert!(
        line.starts_with("a: held as ") && line.contains(" under token 1"),
        "{line}"
    );
    assert_eq!(is_held(&servers).await, Some(0));
    let mut refused = multilock(&urls(&servers));
    let refused = refused.args(["hold", "a", "-n"]).spawn().expect("the command");
    assert_eq!(said(refused).await.code, Some(75));
    drop(input);
    assert_eq!(said(child).await.code, Some(0));
    assert_eq!(is_held(&servers).await, Some(1));
    let (child, _input, _) = hold(&servers, &["a", "--shared"]).await;
    let (other, _other_input, _) = hold(&servers, &["a", "--shared"]).await;
    signal(&child, Signal::TERM);
    assert_eq!(said(child).await.signal, Some(15));
    assert_eq!(is_held(&servers).await, Some(0), "the other one holds it");
    signal(&other, Signal::INT);
    assert_eq!(said(other).await.signal, Some(2));
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn a_hold_that_is_taken_away_ends_the_command() {
    let servers = three(ARGS).await;
    // It is told at the next renewal, which comes long before the lease ends.
    let (child, _input, _) = hold(&servers, &["a", "--lease", "12s"]).await;
    let mut force = multilock(&urls(&servers));
    let force = force
        .args(["force-release", "a", "--yes"])
        .spawn()
        .expect("the command");
    assert_eq!(said(force).await.code, Some(0));
    let ended = said(child).await;
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.stderr.contains("taken away by force"), "{ended:?}");
    assert!(!ended.stderr.contains("program"), "there is none: {ended:?}");
}

#[tokio::test]
async fn a_hold_that_ends_as_planned_is_not_told_as_a_loss() {
    undisturbed(ms(500), async || {
        let servers = three(ARGS).await;
        let terms = ["a", "--node-timeout", "1s", "--lease", "3s", "--max-hold", "3s"];
        let (child, _input, _) = hold(&servers, &terms).await;
        let ended = said(child).await;
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(124), "multilock: the hold came to its end\n")
        );
    })
    .await;
}

/// A parent may have made the pipe non-blocking for itself, and with it for this end.
#[tokio::test]
async fn a_stdin_that_does_not_block_is_read_to_its_end() {
    let servers = three(ARGS).await;
    let (input, its) = UnixStream::pair().expect("a pair");
    its.set_nonblocking(true).expect("a socket");
    let mut command = multilock(&urls(&servers));
    let stdin = Stdio::from(OwnedFd::from(its));
    let child = command
        .args(["hold", "a"])
        .stdin(stdin)
        .spawn()
        .expect("the command");
    until("it is held", async || is_held(&servers).await == Some(0)).await;
    (&input).write_all(b"x").expect("written");
    drop(input);
    let ended = said(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    until_free(&servers, "a").await;
}

/// As under nohup: there is no end of stdin that anybody could wait for.
#[tokio::test]
async fn a_stdin_that_cannot_be_read_ends_nothing() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let mut command = multilock(&urls(&servers));
    let unreadable = std::fs::File::create(witness.file("stdin")).expect("a file");
    let mut child = command
        .args(["hold", "a", "--seats", "2"])
        .stdin(unreadable)
        .spawn()
        .expect("the command");
    until("it is held", async || {
        let mut command = multilock(&urls(&servers));
        let seats = command
            .args(["inspect", "a", "--seats", "2"])
            .spawn()
            .expect("the command");
        said(seats).await.stdout.contains("held by ")
    })
    .await;
    // The masters show the hold before the command looks at its stdin.
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let line = timeout(WITHIN, lines.next_line())
        .await
        .expect("in time")
        .expect("text");
    assert!(
        line.as_ref()
            .is_some_and(|line| line.contains("stdin cannot be read")),
        "{line:?}"
    );
    signal(&child, Signal::TERM);
    let ended = said(child).await;
    assert_eq!(ended.signal, Some(15), "{ended:?}");
    assert!(ended.stdout.contains(", in seat "), "{ended:?}");
}

/// Report and metrics of a run with these arguments.
async fn account(servers: &[Server], witness: &Witness, args: &[&str]) -> (Said, Value, String) {
    let (report, textfile) = (witness.file("report.json"), witness.file("run.prom"));
    let mut command = multilock(&urls(servers));
    command.args(["run", "--report", &report, "--textfile", &textfile]);
    let ended = said(command.args(args).spawn().expect("the command")).await;
    let text = std::fs::read_to_string(&report).expect("a report");
    let metrics = std::fs::read_to_string(&textfile).expect("metrics");
    (ended, serde_json::from_str(&text).expect("JSON"), metrics)
}

#[tokio::test]
async fn the_outcome_is_left_in_files() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let (ended, report, metrics) = account(
        &servers,
        &witness,
        &["a", "b", "-c", "--", "echo $MULTILOCK_TOKEN $MULTILOCK_HOLD"],
    )
    .await;
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert_eq!(report["outcome"], "done");
    assert_eq!(report["names"], serde_json::json!(["a", "b"]));
    assert_eq!(report["token"].to_string(), words[0]);
    assert_eq!(report["hold"], words[1]);
    assert_eq!(report["program"]["code"], 0);
    assert!(
        report["held_ms"].is_u64() && report["error"].is_null(),
        "{report}"
    );
    assert!(
        metrics.contains("multilock_run_success{names=\"a,b\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.contains("outcome=\"done\""), "{metrics}");

    // The program's codes are told from those of the command.
    let (ended, report, metrics) = account(&servers, &witness, &["a", "-c", "--", "exit 75"]).await;
    assert_eq!((ended.code, &report["outcome"]), (Some(75), &"done".into()));
    assert_eq!(report["program"]["code"], 75);
    assert!(
        metrics.contains("multilock_run_success{names=\"a\"} 0\n"),
        "{metrics}"
    );
    let (_, report, _) = account(&servers, &witness, &["a", "-c", "--", "kill -9 $$"]).await;
    assert_eq!(
        (&report["program"]["signal"], &report["program"]["code"]),
        (&9.into(), &Value::Null)
    );
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let (ended, report, _) = account(&servers, &witness, &["a", "-n", "-E", "69", "--", "true"]).await;
    assert_eq!((ended.code, &report["outcome"]), (Some(69), &"contended".into()));
    let (ended, report, metrics) = account(&servers, &witness, &["a", "-n", "--", "true"]).await;
    assert_eq!((ended.code, &report["outcome"]), (Some(75), &"contended".into()));
    assert!(
        report["program"].is_null() && report["held_ms"].is_null(),
        "{report}"
    );
    assert!(!metrics.contains("multilock_run_held_seconds"), "{metrics}");
    guard.unlock().await.expect("held");
    let (ended, report, _) = account(&servers, &witness, &["a", "--", "/no/such/program"]).await;
    assert_eq!((ended.code, &report["outcome"]), (Some(127), &"failed".into()));
    let (ended, report, _) = account(
        &servers,
        &witness,
        &[
            "a",
            "--node-timeout",
            "1s",
            "--lease",
            "3s",
            "--max-hold",
            "3s",
            "--",
            "sleep",
            "60",
        ],
    )
    .await;
    assert_eq!((ended.code, &report["outcome"]), (Some(124), &"lost".into()));
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "--report", "/dev/null", "--", "true"],
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let null = std::fs::symlink_metadata("/dev/null").expect("a device");
    assert!(!null.is_file(), "a device is no place for a file");
    for server in &servers[..2] {
        server.kill().await;
    }
    let (ended, report, _) = account(&servers, &witness, &["a", "-n", "--", "true"]).await;
    assert_eq!(
        (ended.code, &report["outcome"]),
        (Some(69), &"unreachable".into())
    );
}

/// Otherwise it would tell of the run before.
#[tokio::test]
async fn arguments_and_variables_that_are_refused_are_reported() {
    let witness = Witness::new();
    let (report, textfile) = (witness.file("report.json"), witness.file("run.prom"));
    let reported = async |verb: &str, args: &[&str], variable: (&str, &str)| {
        for file in [&report, &textfile] {
            std::fs::write(file, "before").expect("written");
        }
        let mut command = multilock(&["redis://127.0.0.1:1"]);
        command.env(variable.0, variable.1).arg(verb).args(args);
        let ended = said(command.spawn().expect("the command")).await;
        assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
        [&report, &textfile].map(|file| std::fs::read_to_string(file).expect("a file"))
    };
    let (in_one, metrics_in_one) = (format!("--report={report}"), format!("--textfile={textfile}"));
    let in_two: &[&str] = &["--report", &report, "--textfile", &textfile];
    let in_one: &[&str] = &[&in_one, &metrics_in_one];
    let (no_variable, long) = (("TZ", "UTC"), ("MULTILOCK_LEASE", "long"));
    for (verb, args, variable, names, says) in [
        (
            "run",
            [&["a", "-n", "-w", "5"], in_two, &["--", "true"]].concat(),
            no_variable,
            0,
            "cannot be used with",
        ),
        (
            "run",
            [in_one, &["a,", "--", "true"]].concat(),
            no_variable,
            0,
            "a name is empty",
        ),
        ("run", [&["a"], in_two].concat(), no_variable, 0, "<COMMAND>"),
        (
            "hold",
            [&["a", "--policy", "foo"], in_one].concat(),
            no_variable,
            0,
            "red, multi or a number",
        ),
        (
            "run",
            [&["a"], in_two, &["--", "true"]].concat(),
            long,
            1,
            "MULTILOCK_LEASE: ",
        ),
    ] {
        let [text, metrics] = reported(verb, &args, variable).await;
        let told: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{args:?}: {text}"));
        assert_eq!(told["outcome"], "invalid", "{told}");
        assert_eq!(told["names"].as_array().map(Vec::len), Some(names), "{told}");
        assert!(
            told["error"].as_str().is_some_and(|error| error.contains(says)),
            "{told}"
        );
        assert!(metrics.contains("multilock_run_success{names="), "{metrics}");
        assert!(metrics.contains("\"} 0\n"), "{metrics}");
    }
    // These are the program's.
    let args = [&["a", "-n", "-w", "5", "--", "program"], in_two].concat();
    assert_eq!(reported("run", &args, no_variable).await, ["before", "before"]);
    // One file for both would keep one of them.
    let args = ["a", "--report", &report, "--textfile", &report, "--", "true"];
    let [text, _] = reported("run", &args, no_variable).await;
    assert!(
        text.contains("\"invalid\"") && text.contains("--textfile: "),
        "{text}"
    );
    // Other commands have no such options, and leave no such files.
    let [text, _] = reported("held", &["a", "--report", &report], no_variable).await;
    assert_eq!(text, "before");
}

#[tokio::test]
async fn a_device_takes_both_reports_and_a_new_file_one_of_them() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let new = witness.file("new.json");
    for (file, code) in [(new.as_str(), 64), ("/dev/null", 0)] {
        let args = ["a", "--report", file, "--textfile", file, "--", "true"];
        let ended = run(multilock(&urls(&servers)), &args).await;
        assert_eq!(ended.code, Some(code), "{file}: {ended:?}");
    }
    let text = std::fs::read_to_string(&new).expect("a report");
    assert!(text.contains("\"invalid\""), "{text}");
}

/// As after `run NAME`.
#[tokio::test]
async fn hold_takes_no_program_for_a_name() {
    let servers = three(ARGS).await;
    for args in [&["a", "--", "true"][..], &["a", "-n", "--", "sh", "-c", "true"]] {
        let mut command = multilock(&urls(&servers));
        let ended = said(command.arg("hold").args(args).spawn().expect("the command")).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(64), ""),
            "{args:?}: {ended:?}"
        );
        assert!(ended.stderr.contains("multilock run"), "{ended:?}");
    }
    let mut command = multilock(&urls(&servers));
    let held = command.args(["hold", r"\-d"]).spawn().expect("the command");
    let held = said(held).await;
    assert_eq!(held.code, Some(0), "{held:?}");
    assert!(held.stdout.starts_with(r"\-d: held as "), "{held:?}");
}

#[tokio::test]
async fn a_report_that_cannot_be_written_is_a_failure_that_hides_nothing() {
    let servers = three(ARGS).await;
    // No program runs for a file without a folder.
    let args = ["a", "--report", "/no/such/file", "--", "echo", "ran"];
    let refused = run(multilock(&urls(&servers)), &args).await;
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (Some(125), ""),
        "{refused:?}"
    );
    let says = "--report: /no/such/file cannot be written";
    assert!(refused.stderr.contains(says), "{refused:?}");
    let args = ["a", "--report", "/", "--", "sh", "-c", "exit 3"];
    let refused = run(multilock(&urls(&servers)), &args).await;
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(
        refused.stderr.ends_with(" (its exit code was 3)\n"),
        "{refused:?}"
    );
    // The metrics do not go on telling of the run before.
    let witness = Witness::new();
    let textfile = witness.file("run.prom");
    for (report, success) in [("/no/such/file", "0"), ("/", "1")] {
        std::fs::write(&textfile, "the run before").expect("written");
        let args = ["a", "--report", report, "--textfile", &textfile, "--", "true"];
        let ended = run(multilock(&urls(&servers)), &args).await;
        let says = format!("--report: {report} cannot be written");
        assert!(
            ended.code == Some(125) && ended.stderr.contains(&says),
            "{ended:?}"
        );
        let metrics = std::fs::read_to_string(&textfile).expect("metrics");
        let line = format!("multilock_run_success{{names=\"a\"}} {success}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

/// Runs a program that says something, with a report to stderr, which is this file.
async fn reported_to(log: std::fs::File, servers: &[Server], args: &[&str]) -> Said {
    let mut command = multilock(&urls(servers));
    command.args(["run", "a", "--report", "/dev/stderr"]).args(args);
    command.args(["--", "sh", "-c", "echo today >&2"]).stderr(log);
    said(command.spawn().expect("the command")).await
}

/// A job of cron, whose output is appended to a log.
#[tokio::test]
async fn a_report_to_stderr_keeps_the_log_that_stderr_is() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let log = witness.file("log");
    std::fs::write(&log, "yesterday\n").expect("written");
    let appended = std::fs::OpenOptions::new()
        .append(true)
        .open(&log)
        .expect("the log");
    let ended = reported_to(appended, &servers, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(text.starts_with("yesterday\ntoday\n{"), "{text}");
    // The message of a failure stands behind the report, also if the log was not opened to be appended to.
    let truncated = std::fs::File::create(&log).expect("the log");
    let ended = reported_to(truncated, &servers, &["--textfile", "/"]).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    let text = std::fs::read_to_string(&log).expect("the log");
    assert!(text.starts_with("today\n{") && text.contains("}\n"), "{text}");
    assert!(
        text.trim_end().ends_with(')') && text.contains("--textfile: / cannot be written"),
        "{text}"
    );
}

#[tokio::test]
async fn an_examination_is_printed_even_if_its_metrics_cannot_be_written_and_the_other_way_round() {
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    command.args(["doctor", "--prometheus", "/no/such/file"]);
    let ended = said(command.spawn().expect("the command")).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!(ended.stdout.contains("round trip"), "{ended:?}");
    let witness = Witness::new();
    let file = witness.file("doctor.prom");
    let mut command = multilock(&urls(&servers));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    command
        .args(["doctor", "--prometheus", &file])
        .stdout(full.expect("a device"));
    let ended = said(command.spawn().expect("the command")).await;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    let metrics = std::fs::read_to_string(&file).expect("metrics");
    assert!(metrics.contains("multilock_master_up"), "{metrics}");
}

#[tokio::test]
async fn an_examination_is_left_as_metrics() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let file = witness.file("doctor.prom");
    servers[2].kill().await;
    let mut metrics = String::new();
    until("metrics are there", async || {
        let mut command = multilock(&urls(&servers));
        command.args(["doctor", "--for", "100ms", "--prometheus", &file]);
        let ended = said(command.spawn().expect("the command")).await;
        metrics = std::fs::read_to_string(&file).expect("metrics");
        ended.code == Some(0)
    })
    .await;
    let of = |index: usize, name: &str| {
        let url = servers[index].url();
        let label = url.trim_start_matches("redis://").trim_end_matches('/');
        let line = format!("{name}{{node=\"{label}\"}} ");
        metrics
            .lines()
            .find_map(|other| other.strip_prefix(&line).map(str::to_owned))
    };
    assert_eq!(of(0, "multilock_master_up").as_deref(), Some("1"), "{metrics}");
    assert_eq!(
        of(0, "multilock_master_has_vote").as_deref(),
        Some("1"),
        "{metrics}"
    );
    assert_eq!(of(2, "multilock_master_up").as_deref(), Some("0"), "{metrics}");
    assert_eq!(of(2, "multilock_master_round_trip_seconds"), None, "{metrics}");
    assert!(
        metrics.contains("multilock_doctor_findings{severity=\"error\"} 0\n"),
        "{metrics}"
    );
    assert!(metrics.contains("multilock_doctor_exit_code 0\n"), "{metrics}");
}
