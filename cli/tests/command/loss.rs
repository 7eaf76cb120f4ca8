//! A program ends with its hold. The next holder's program looks whether anything of it is left.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use multilock_test_support::{Direction, Proxy, Server, connect, three, undisturbed, until, until_free};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::stage::{PROGRAM, Witness, full_pipe, ms, multilock, said, signal, urls};

const ARGS: &[&str] = &["--appendonly", "no"];
const LEASE: Duration = Duration::from_secs(6);
/// A standstill of the machine for which the drift leaves time. A longer one lets a program outlive its lease.
const STANDS: Duration = Duration::from_millis(500);

/// Writes all the time, and says so when it is asked to end.
const ASKED: &str = "trap 'say TERM; exit 0' TERM; say A; while :; do say a; sleep 0.005; done";
const DEAF: &str = "trap 'say TERM' TERM; say A; while :; do say a; sleep 0.005; done";
const STOPPED: &str = "trap 'say TERM; kill -STOP $$' TERM; say A; while :; do say a; sleep 0.005; done";
/// It ends at once, and the processes that it has started go on.
const CHILDREN: &str = "for i in 1 2 3; do (trap '' TERM; while :; do say a; sleep 0.005; done) & done
    trap 'say TERM; exit 0' TERM; say A; while :; do sleep 0.01; done";

fn run(mut command: Command, script: &str) -> Child {
    // On an overloaded host, a process may not run for a second. So there is time for each step. The kill has the drift, the
    // program has `-k` to end by itself, and renewals have the rest of the lease.
    let terms = ["--lease", "6s", "--drift-factor", "0.2", "-k", "1500ms"];
    let terms = [&terms[..], &["--node-timeout", "1s"]].concat();
    let command = command.args(["run", "a"]).args(terms).args(["-c", "--", script]);
    command.spawn().expect("the command")
}

/// The next holder's program has run, after the first one's, and alone.
async fn second_runs_alone(witness: &Witness, second: Child) {
    let second = said(second).await;
    let lines = witness.lines();
    assert_eq!(second.code, Some(0), "{second:?}");
    assert!(!lines.iter().any(|line| line == "OVERLAP"), "two at once");
    let at = lines.iter().position(|line| line == "B").expect("it ran");
    assert_eq!(at + 1, lines.len(), "nothing of the first one wrote after it");
}

/// The first holder's packets are lost, so that its masters serve the next one as soon as its lease has ended.
async fn cut_off(script: &str, extra: impl AsyncFnOnce(&Child)) -> (Witness, Option<i32>, String) {
    let servers = three(ARGS).await;
    let mut proxies = Vec::new();
    for server in &servers {
        proxies.push(Proxy::start(server.port()).await);
    }
    let ways: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let witness = Witness::new();
    let first = run(multilock(&ways), &witness.script(script));
    witness.until_said("A").await;
    let second = run(multilock(&urls(&servers)), &witness.script("sleep 0.2; say B"));
    // By then the holder has renewed its hold at least once, at a third of the lease.
    sleep(LEASE / 2).await;
    for proxy in &proxies {
        proxy.pause(Direction::ToServer);
        proxy.pause(Direction::ToClient);
    }
    extra(&first).await;
    second_runs_alone(&witness, second).await;
    let first = said(first).await;
    witness.until_nobody_lives().await;
    (witness, first.code, first.stderr)
}

#[tokio::test]
async fn it_is_asked_to_end_before_the_hold_does() {
    undisturbed(STANDS, async || {
        let (witness, code, stderr) = cut_off(ASKED, async |_| {}).await;
        assert_eq!(code, Some(124), "{stderr}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
    })
    .await;
}

#[tokio::test]
async fn it_is_killed_where_it_does_not_care() {
    undisturbed(STANDS, async || {
        let (witness, code, stderr) = cut_off(DEAF, async |_| {}).await;
        assert_eq!(code, Some(124), "{stderr}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
    })
    .await;
}

#[tokio::test]
async fn it_is_killed_where_it_is_stopped() {
    undisturbed(STANDS, async || {
        let (witness, code, stderr) = cut_off(STOPPED, async |_| {}).await;
        assert_eq!(code, Some(124), "{stderr}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
    })
    .await;
}

#[tokio::test]
async fn its_children_are_killed_with_it_and_after_it() {
    undisturbed(STANDS, async || {
        let (witness, code, stderr) = cut_off(CHILDREN, async |_| {}).await;
        assert_eq!(code, Some(124), "{stderr}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
    })
    .await;
}

/// The command cannot do anything then; the process beside it can.
#[tokio::test]
async fn it_ends_where_the_command_itself_is_stopped() {
    undisturbed(STANDS, async || {
        let go_on = async |first: &Child| {
            signal(first, Signal::STOP);
            sleep(LEASE * 3 / 2).await;
            signal(first, Signal::CONT);
        };
        let (witness, code, stderr) = cut_off(CHILDREN, go_on).await;
        assert_eq!(code, Some(124), "{stderr}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
    })
    .await;
}

#[tokio::test]
async fn it_ends_where_the_command_itself_is_killed() {
    undisturbed(STANDS, async || {
        killed(Stdio::piped(), |_| {}).await;
    })
    .await;
}

/// systemd sends a signal to every process of a unit before it kills them, and a log reader may have stopped.
#[tokio::test]
async fn it_ends_where_the_command_is_killed_after_others_got_signals_and_nobody_reads_stderr() {
    undisturbed(STANDS, async || {
        let (unread, stderr) = full_pipe();
        killed(stderr, |first| {
            let supervisor = supervisor_of(first).expect("a supervisor");
            for sent in [Signal::HUP, Signal::INT, Signal::TERM] {
                kill_process(supervisor, sent).expect("it runs");
            }
        })
        .await;
        drop(unread);
    })
    .await;
}

async fn killed(stderr: impl Into<Stdio>, before: impl FnOnce(&Child)) {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let mut command = multilock(&urls(&servers));
    // Two thirds are left at least, and the program would be asked 1.5 s before their end.
    let terms = ["--lease", "15s", "--drift-factor", "0.1", "-k", "1500ms"];
    let command = command.args(["run", "a"]).args(terms).stderr(stderr);
    // A shell says of a child that a signal ended it, and would wait for somebody to read it.
    let script = witness.script(&format!("exec 2>&-; {CHILDREN}"));
    let command = command.args(["-c", "--", &script]);
    let mut first = command.spawn().expect("the command");
    witness.until_said("A").await;
    let second = run(multilock(&urls(&servers)), &witness.script("say B"));
    before(&first);
    first.kill().await.expect("it runs");
    // At once, as nobody renews it any more.
    let asked = Instant::now();
    witness.until_said("TERM").await;
    assert!(asked.elapsed() < ms(5000), "{:?}", asked.elapsed());
    second_runs_alone(&witness, second).await;
    witness.until_nobody_lives().await;
    until_free(&servers, "a").await;
}

/// The process that ends the program in place of the command.
pub(crate) fn supervisor_of(command: &Child) -> Option<Pid> {
    let parent = command.id().expect("it runs").to_string();
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let supervisor = processes.map(|process| process.path()).find(|process| {
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        read("stat")
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1))
            == Some(&parent)
            && read("cmdline").contains("__supervise")
    })?;
    let pid = supervisor.file_name()?.to_str()?.parse().ok()?;
    Pid::from_raw(pid)
}

/// The next supervisor ends the program when the command is killed.
#[tokio::test]
async fn another_supervisor_follows_one_that_was_killed() {
    undisturbed(STANDS, async || {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let first = run(multilock(&urls(&servers)), &witness.script(CHILDREN));
        witness.until_said("A").await;
        let before = supervisor_of(&first).expect("a supervisor");
        kill_process(before, Signal::KILL).expect("it runs");
        until("another one is there", async || {
            supervisor_of(&first).is_some_and(|pid| pid != before)
        })
        .await;
        // It gets the deadlines at the next look.
        sleep(ms(1500)).await;
        signal(&first, Signal::KILL);
        let second = run(multilock(&urls(&servers)), &witness.script("say B"));
        witness.until_said("TERM").await;
        second_runs_alone(&witness, second).await;
        witness.until_nobody_lives().await;
        let first = said(first).await;
        let told = "multilock: the supervising process has ended; another one was started\n";
        assert!(first.stderr.starts_with(told), "{first:?}");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_told_of_a_quiet_command_that_is_killed() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let mut command = multilock(&urls(&servers));
    let script = witness.script(&format!("exec 2>&-; {ASKED}"));
    let first = command.args(["run", "a", "-q", "-c", "--", &script]).spawn();
    let first = first.expect("the command");
    witness.until_said("A").await;
    signal(&first, Signal::KILL);
    witness.until_said("TERM").await;
    witness.until_nobody_lives().await;
    let first = said(first).await;
    assert_eq!(first.stderr, "", "{first:?}");
}

/// A command may be killed, or stopped until its hold has ended, when it has started its program, and has not told the
/// supervisor which process that is.
#[tokio::test]
async fn a_program_whose_command_was_killed_while_it_started_is_ended() {
    let stopped = "until - 1\n";
    for (number, kind, more, by) in [
        (1, "group", None, Signal::TERM),
        (2, "process", None, Signal::TERM),
        (3, "group", Some(stopped), Signal::KILL),
    ] {
        let hold = format!("{number}-{}", std::process::id());
        let mut supervisor = Command::new(PROGRAM);
        supervisor
            .arg("__supervise")
            .stdin(Stdio::piped())
            .stderr(Stdio::null());
        let mut supervisor = supervisor.kill_on_drop(true).spawn().expect("the command");
        let mut orders = supervisor.stdin.take().expect("a pipe");
        let expected = format!("expect {kind} {hold} 15 {}\n", std::process::id());
        orders.write_all(expected.as_bytes()).await.expect("it reads");
        if let Some(more) = more {
            orders.write_all(more.as_bytes()).await.expect("it reads");
        }
        let orders = more.map(|_| orders);
        sleep(ms(100)).await;
        let mut program = Command::new("sleep");
        program
            .arg("60")
            .env("MULTILOCK_HOLD", &hold)
            .process_group(0)
            .kill_on_drop(true);
        let mut program = program.spawn().expect("sleep");
        let ended = program.wait().await.expect("a status");
        assert_eq!(ended.signal(), Some(by.as_raw()), "{kind}, {more:?}");
        drop(orders);
        let ended = supervisor.wait().await.expect("a status");
        assert_eq!(ended.code(), Some(0), "{kind}");
    }
}

/// A unit may be ended while its command starts.
#[tokio::test]
async fn a_signal_before_the_first_instruction_of_the_supervisor_ends_nothing() {
    let servers = three(ARGS).await;
    for _ in 0..20 {
        let witness = Witness::new();
        let first = run(multilock(&urls(&servers)), &witness.script("say A; sleep 60"));
        let mut supervisor = None;
        until("a supervisor is there", async || {
            let until = Instant::now() + ms(50);
            while supervisor.is_none() && Instant::now() < until {
                supervisor = supervisor_of(&first);
            }
            supervisor.is_some()
        })
        .await;
        let supervisor = supervisor.expect("it is there");
        kill_process(supervisor, Signal::TERM).expect("it runs");
        witness.until_said("A").await;
        // One that has ended is a zombie, or gone.
        assert_eq!(supervisor_of(&first), Some(supervisor), "a signal has ended it");
        signal(&first, Signal::TERM);
        assert_eq!(said(first).await.signal, Some(Signal::TERM.as_raw()));
    }
}

/// A quorum is frozen. Until the hold has ended, a frozen master cannot be distinguished from a slow one.
#[tokio::test]
async fn it_ends_where_a_quorum_is_frozen() {
    undisturbed(STANDS, async || {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let first = run(multilock(&urls(&servers)), &witness.script(CHILDREN));
        witness.until_said("A").await;
        freeze(&servers[..2]).await;
        let second = run(multilock(&urls(&servers)), &witness.script("say B"));
        let first = said(first).await;
        assert_eq!(first.code, Some(124), "{first:?}");
        assert!(witness.has("TERM"), "{:?}", witness.lines());
        witness.until_nobody_lives().await;
        for server in &servers {
            server.thaw().await;
        }
        second_runs_alone(&witness, second).await;
        until_free(&servers, "a").await;
    })
    .await;
}

async fn freeze(servers: &[Server]) {
    for server in servers {
        server.freeze().await;
    }
}

/// The command learns of it at the next renewal. Then the program has as much time as at the end of a hold.
#[tokio::test]
async fn it_is_asked_to_end_where_the_name_is_taken_away() {
    undisturbed(STANDS, async || {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let mut command = multilock(&urls(&servers));
        // The lease is long beside the waits of this test.
        let script = witness.script(DEAF);
        let command = command.args(["run", "a", "--lease", "18s", "-k", "1500ms", "-c", "--", &script]);
        let first = command.spawn().expect("the command");
        witness.until_said("A").await;
        let begun = Instant::now();
        let masters = connect(urls(&servers)).await;
        let lock = masters.red_lock("a").force_reason("stuck, #1234");
        lock.force_release().await.expect("taken away");
        let first = said(first).await;
        assert_eq!(first.code, Some(124), "{first:?}");
        let why = "multilock: the lock was taken away by force (multilock force-release) by ";
        let because = ": stuck, #1234; the program was made to end\n";
        assert!(
            first.stderr.contains(why) && first.stderr.ends_with(because),
            "{first:?}"
        );
        assert!(witness.has("TERM"), "{:?}", witness.lines());
        // The command learns of it within a third of the lease. Two thirds of the lease would have been left then.
        assert!(begun.elapsed() < ms(14_000), "{:?}", begun.elapsed());
        witness.until_nobody_lives().await;
    })
    .await;
}

/// Also after a success of the program: nothing kept another one out.
#[tokio::test]
async fn a_lock_that_is_found_lost_after_the_program_is_no_success() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    for (end, told) in [
        ("exit 0", "its exit code was 0"),
        ("exit 3", "its exit code was 3"),
        ("kill $$", "signal 15 ended it"),
    ] {
        let witness = Witness::new();
        let script = witness.script(&format!("say A; read line; {end}"));
        let mut command = multilock(&urls(&servers));
        let mut running = command
            .args(["run", "a", "--lease", "30s", "-c", "--", &script])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command");
        witness.until_said("A").await;
        masters.red_lock("a").force_release().await.expect("taken away");
        let next = masters.red_lock("a").try_lock().await.expect("free");
        let mut stdin = running.stdin.take().expect("a pipe");
        stdin.write_all(b"go\n").await.expect("it reads");
        let ended = said(running).await;
        assert_eq!(ended.code, Some(124), "{ended:?}");
        assert!(
            ended
                .stderr
                .contains("multilock: the lock was lost before it was given back: "),
            "{ended:?}"
        );
        assert!(
            ended
                .stderr
                .ends_with(&format!("another program may have run meanwhile ({told})\n")),
            "{ended:?}"
        );
        assert!(next.is_valid());
        next.unlock().await.expect("held");
    }
}

/// At a renewal that comes too late, as after Ctrl-Z.
#[tokio::test]
async fn a_lease_that_ended_is_told_without_what_masters_said_before() {
    undisturbed(STANDS, async || {
        let (_, code, stderr) = cut_off(ASKED, async |first: &Child| {
            signal(first, Signal::STOP);
            sleep(LEASE * 3 / 2).await;
            signal(first, Signal::CONT);
        })
        .await;
        assert_eq!(code, Some(124), "{stderr}");
        for word in ["granted", "Expired", "votes", "supervising"] {
            assert!(!stderr.contains(word), "{stderr}");
        }
        assert!(stderr.contains("; the program was made to end\n"), "{stderr}");
    })
    .await;
}
