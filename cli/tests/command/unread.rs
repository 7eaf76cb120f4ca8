//! Nobody reads the output of the command: a pager that waits for a key, or a log reader that was stopped.

use std::process::Stdio;

use multilock_test_support::{connect, held_everywhere, three, undisturbed, until, until_free};
use rustix::process::{Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::Child;

use crate::loss::supervisor_of;
use crate::stage::{Witness, full_pipe, ms, multilock, said, signal, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

/// Says that it is asked to end. A shell tells on stderr of a child that a signal ended, and would wait for a reader.
fn asked(code: u8) -> String {
    format!("exec 2>&-; trap 'say TERM; exit {code}' TERM; say A; while :; do sleep 0.02; done")
}

#[tokio::test]
async fn a_program_starts_and_signals_reach_it() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let (_unread, stderr) = full_pipe();
    let script = witness.script(&asked(7));
    let mut command = multilock(&urls(&servers));
    command
        .args(["run", "a", "-v", "-c", "--", &script])
        .stderr(stderr);
    let running = command.spawn().expect("the command");
    witness.until_said("A").await;
    signal(&running, Signal::TERM);
    assert_eq!(said(running).await.code, Some(7));
    assert_eq!(witness.lines(), ["A", "TERM"]);
    until_free(&servers, "a").await;
}

/// It has all of its notice.
#[tokio::test]
async fn a_program_is_asked_to_end_before_its_hold_does() {
    undisturbed(ms(500), async || {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let (_unread, stderr) = full_pipe();
        let script = witness.script(&asked(0));
        let mut command = multilock(&urls(&servers));
        let terms = [
            "--lease",
            "6s",
            "--max-hold",
            "6s",
            "--node-timeout",
            "1s",
            "-k",
            "3s",
        ];
        command.args(["run", "a"]).args(terms);
        command.args(["-c", "--", &script]).stderr(stderr);
        let ended = said(command.spawn().expect("the command")).await;
        assert_eq!(ended.code, Some(124), "{ended:?}");
        assert_eq!(witness.lines(), ["A", "TERM"]);
        until_free(&servers, "a").await;
    })
    .await;
}

#[tokio::test]
async fn the_end_of_a_program_is_seen_after_the_second_process_was_killed() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let go = witness.file("go");
    let (_unread, stderr) = full_pipe();
    let script = witness.script(&format!(
        "say A; while [ ! -e '{go}' ]; do sleep 0.02; done; exit 3"
    ));
    let mut command = multilock(&urls(&servers));
    command.args(["run", "a", "-c", "--", &script]).stderr(stderr);
    let running = command.spawn().expect("the command");
    witness.until_said("A").await;
    let before = supervisor_of(&running).expect("a supervisor");
    kill_process(before, Signal::KILL).expect("it runs");
    until("another one is there", async || {
        supervisor_of(&running).is_some_and(|pid| pid != before)
    })
    .await;
    std::fs::write(&go, "").expect("a file");
    assert_eq!(said(running).await.code, Some(3));
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn a_refusal_ends_the_command() {
    let servers = three(ARGS).await;
    let guard = held_everywhere(&connect(urls(&servers)).await.red_lock("a")).await;
    let (_unread, stderr) = full_pipe();
    let mut command = multilock(&urls(&servers));
    command.args(["run", "a", "-n", "--", "true"]).stderr(stderr);
    assert_eq!(said(command.spawn().expect("the command")).await.code, Some(75));
    guard.unlock().await.expect("held");
}

async fn is_held(urls: &[String]) -> Option<i32> {
    let mut command = multilock(urls);
    let held = command.args(["held", "a"]).spawn().expect("the command");
    said(held).await.code
}

#[tokio::test]
async fn a_hold_whose_line_nobody_reads_ends_by_a_signal() {
    let servers = three(ARGS).await;
    let urls = urls(&servers);
    let (_unread, stdout) = full_pipe();
    let mut command = multilock(&urls);
    command.args(["hold", "a"]).stdin(Stdio::piped()).stdout(stdout);
    let holding = command.spawn().expect("the command");
    until("it is held", async || is_held(&urls).await == Some(0)).await;
    signal(&holding, Signal::TERM);
    assert_eq!(said(holding).await.signal, Some(Signal::TERM.as_raw()));
    until_free(&servers, "a").await;
}

/// A line that is read late has its place among the others.
#[tokio::test]
async fn lines_that_are_read_late_are_there_in_order() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let (unread, stderr) = full_pipe();
    let go = witness.file("go");
    let script = format!("say A; while [ ! -e '{go}' ]; do sleep 0.02; done");
    let script = witness.script(&script);
    let mut command = multilock(&urls(&servers));
    command
        .args(["run", "a", "-v", "-c", "--", &script])
        .stderr(stderr);
    let running: Child = command.spawn().expect("the command");
    drop(command);
    witness.until_said("A").await;
    unread.set_nonblocking(true).expect("a socket");
    let mut read = tokio::net::UnixStream::from_std(unread).expect("a runtime");
    std::fs::write(&go, "").expect("a file");
    let (mut text, ended) = (String::new(), said(running));
    let (ended, _) = tokio::join!(ended, read.read_to_string(&mut text));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = text.trim_start_matches('x').lines().collect();
    let [granted, given_back] = lines[..] else {
        panic!("{lines:?}")
    };
    assert!(granted.starts_with("multilock: a granted as hold "), "{granted}");
    assert_eq!(given_back, "multilock: given back: the names are free");
}
