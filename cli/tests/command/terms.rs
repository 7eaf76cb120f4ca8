//! How long the lock is kept, and processes of the program that outlive it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use multilock_test_support::{connect, in_a_child, is_child, three, undisturbed, until_free};
use rustix::process::{Signal, getpid, set_child_subreaper};
use tokio::time::{Instant, sleep};

use crate::stage::{PROGRAM, Witness, ms, multilock, run, said, signal, urls, with_variables_of};

const ARGS: &[&str] = &["--appendonly", "no"];

#[tokio::test]
async fn the_names_are_kept_for_as_long_as_is_asked() {
    let servers = three(ARGS).await;
    let begun = Instant::now();
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "--at-least", "6s", "--", "true"],
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let refused = run(multilock(&urls(&servers)), &["a", "-n", "--", "true"]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    let mut inspect = multilock(&urls(&servers));
    let told = said(inspect.args(["inspect", "a"]).spawn().expect("the command")).await;
    let is_told = told.stdout.contains("held by nobody for ") && !told.stdout.contains("renewed");
    assert!(is_told, "nobody renews it: {told:?}");
    let next = connect(urls(&servers))
        .await
        .red_lock("a")
        .lock()
        .await
        .expect("in the end");
    assert!(begun.elapsed() >= ms(6000), "{:?}", begun.elapsed());
    next.unlock().await.expect("held");
}

/// Two programs at once, each with a seat of its own, and a third program that waits for a seat.
#[tokio::test]
async fn as_many_programs_run_as_there_are_seats() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    // Each program keeps a file of its seat locked, and ends as soon as `go` is there: after 60 s in any case.
    let (go, seat) = (witness.file("go"), witness.file("seat"));
    let script = format!(
        "exec 9>>'{seat}'$MULTILOCK_SEAT; flock -n 9 || {{ echo overlap; exit 99; }}
        echo $MULTILOCK_SEAT; i=0
        while [ ! -e '{go}' ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i + 1)); done"
    );
    let args = ["gpu", "--seats", "2", "--about", "epoch 7", "-c", "--", &script];
    let program = || run(multilock(&urls(&servers)), &args);
    let held = async || {
        let mut command = multilock(&urls(&servers));
        command.args(["held", "gpu", "--seats", "2"]);
        said(command.spawn().expect("the command")).await.code
    };
    assert_eq!(held().await, Some(1), "both are free");
    let looking = async {
        let mut seen = None;
        for _ in 0..200 {
            let mut command = multilock(&urls(&servers));
            command.args(["inspect", "gpu", "--seats", "2"]);
            let now = said(command.spawn().expect("the command")).await;
            // Each seat has a line of its own and one of each master.
            let both = now.stdout.matches("held").count() == 2 * 4;
            seen = Some(now);
            if both {
                break;
            }
            sleep(ms(100)).await;
        }
        assert_eq!(held().await, Some(0), "both are held");
        std::fs::write(&go, "").expect("the file");
        seen.expect("one look")
    };
    let (one, other, third, seen) = tokio::join!(program(), program(), program(), looking);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    for seat in ["gpu:seat:1", "gpu:seat:2"] {
        assert!(seen.stdout.contains(seat), "{seen:?}");
    }
    assert_eq!(seen.stdout.matches("held").count(), 2 * 4, "{seen:?}");
    assert!(seen.stdout.contains("epoch 7"), "{seen:?}");
    let all = [&one, &other, &third];
    assert_eq!(all.map(|said| said.code), [Some(0); 3], "{all:?}");
    let seats: BTreeSet<&str> = all.iter().map(|said| said.stdout.trim()).collect();
    assert_eq!(seats, BTreeSet::from(["1", "2"]));
    let refused = run(
        multilock(&urls(&servers)),
        &["a", "b", "--seats", "2", "--", "true"],
    )
    .await;
    assert!(
        refused.code == Some(64) && refused.stderr.contains("--seats: 2 names"),
        "{refused:?}"
    );
}

/// Programs with `--shared` run at once. A program without it waits for them.
#[tokio::test]
async fn programs_that_share_run_at_once() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    // Each program waits for the other one: after 60 s at the latest it gives up.
    let file = |name: &str| witness.file(name);
    let script = |own: &str, other: &str| {
        format!(
            "touch '{own}'; i=0
            while [ ! -e '{other}' ]; do sleep 0.05; i=$((i + 1)); [ $i -lt 1200 ] || exit 99; done
            {PROGRAM} run rows -n -- true; echo alone $?; {PROGRAM} run rows -n --shared -- true; echo shared $?"
        )
    };
    let program = |own: &str, other: &str| {
        let script = script(&file(own), &file(other));
        let command = multilock(&urls(&servers));
        async move { run(command, &["rows", "--shared", "-c", "--", &script]).await }
    };
    let (one, other) = tokio::join!(program("one", "other"), program("other", "one"));
    for said in [one, other] {
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stdout, "alone 75\nshared 0\n", "{said:?}");
    }
    until_free(&servers, "rows").await;
    let refused = run(
        multilock(&urls(&servers)),
        &["rows", "--shared", "--seats", "2", "--", "true"],
    )
    .await;
    assert_eq!(refused.code, Some(64), "{refused:?}");
}

/// A program that outlives several leases.
#[tokio::test]
async fn the_hold_is_renewed() {
    undisturbed(ms(500), async || {
        let servers = three(ARGS).await;
        let ended = run(
            multilock(&urls(&servers)),
            // Between a renewal and the end there is time for a busy machine.
            &[
                "a",
                "--lease",
                "4s",
                "--node-timeout",
                "1s",
                "-v",
                "--",
                "sleep",
                "9",
            ],
        )
        .await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended.stderr.contains("given back: the names are free"),
            "{ended:?}"
        );
    })
    .await;
}

/// Processes that the program leaves behind would run without the lock: in its group, or in the group of a job.
#[tokio::test]
async fn what_the_program_leaves_ends_before_the_release() {
    const DEAF: &str = "(trap '' TERM HUP; while :; do sleep 0.02; done)";
    for (left, is_asked_to_end) in [
        (format!("{DEAF} & say A"), false),
        (format!("set -m; {DEAF} & say A; exit 0"), false),
        // A job of a job, which has no parent left.
        (
            format!("set -m; (set -m; {DEAF} & exit 0) & say A; wait; exit 0"),
            false,
        ),
        // `timeout` makes a group of its own, and the shell ends before it.
        (
            "say A; timeout 100 bash -c 'trap \"\" TERM; while :; do sleep 0.02; done'; true".to_owned(),
            true,
        ),
    ] {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let script = witness.script(&left);
        let begun = Instant::now();
        let args = ["run", "a", "-k", "500ms", "--", "bash", "-c", &script];
        let first = multilock(&urls(&servers))
            .args(args)
            .spawn()
            .expect("the command");
        witness.until_said("A").await;
        if is_asked_to_end {
            // The shell waits for the job by then.
            sleep(ms(200)).await;
            signal(&first, Signal::TERM);
        }
        let first = said(first).await;
        let ends = if is_asked_to_end {
            (None, Some(15))
        } else {
            (Some(0), None)
        };
        assert_eq!((first.code, first.signal), ends, "{left}: {first:?}");
        assert!(begun.elapsed() < ms(20_000));
        let script = witness.script("say B");
        let second = run(multilock(&urls(&servers)), &["a", "-c", "--", &script]).await;
        assert_eq!(second.code, Some(0), "{left}: {second:?}");
        assert_eq!(witness.lines(), ["A", "B"], "{left}");
        until_free(&servers, "a").await;
    }
}

/// The program has ended, and the command is killed while it waits for the processes that are left.
#[tokio::test]
async fn what_the_program_leaves_ends_with_the_lease_if_the_command_is_killed() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    // The job inherits the trap. If it set its own, it could be ended before that.
    let script = witness.script("trap '' TERM HUP; set -m; (say A; while :; do sleep 0.02; done) & exit 0");
    let args = [
        "run",
        "a",
        "--lease",
        "12s",
        "--node-timeout",
        "3s",
        "-k",
        "6s",
        "--",
        "bash",
        "-c",
        &script,
    ];
    let first = multilock(&urls(&servers))
        .args(args)
        .spawn()
        .expect("the command");
    witness.until_said("A").await;
    sleep(ms(200)).await;
    signal(&first, Signal::KILL);
    let script = witness.script("say B");
    let second = run(multilock(&urls(&servers)), &["a", "-c", "--", &script]).await;
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(witness.lines(), ["A", "B"]);
    witness.until_nobody_lives().await;
}

/// As in a container in which process 1 waits for no child but the command.
#[tokio::test]
async fn what_was_left_and_killed_is_gone_though_nobody_else_asks_for_it() {
    if !is_child() {
        let test = "terms::what_was_left_and_killed_is_gone_though_nobody_else_asks_for_it";
        return in_a_child(test, &[]).await;
    }
    set_child_subreaper(Some(getpid())).expect("Linux, which has subreapers");
    let servers = three(ARGS).await;
    // Five orphans end while the program runs, and a sixth is killed after it.
    // The five are reaped while it runs, possibly after more than half a second.
    let script = "for i in 1 2 3 4 5; do sh -c 'sleep 0.01 &'; done; sleep 0.5; i=0
        zombies() { cat /proc/[0-9]*/stat | grep -c \") Z $PPID \"; }
        while [ $(zombies) != 0 ] && [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done
        zombies; sleep 100 & echo left";
    let begun = Instant::now();
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "-k", "15s", "-c", "--", script],
    )
    .await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "0\nleft\n"),
        "{ended:?}"
    );
    // The kill after TERM would come after 15 s.
    assert!(begun.elapsed() < ms(14_000), "{:?}", begun.elapsed());
}

/// Its process group is none of the container's, and the kernel does not let it die of a signal of its own.
#[tokio::test]
async fn it_may_be_process_1_of_a_container() {
    let servers = three(ARGS).await;
    for (script, code) in [
        ("sleep 100 & echo left", 0),
        ("sleep 100 & kill -TERM $$", 128 + 15),
    ] {
        let command = multilock(&urls(&servers));
        let mut container = tokio::process::Command::new("unshare");
        container
            .args([
                "--pid",
                "--fork",
                "--mount-proc",
                PROGRAM,
                "run",
                "a",
                "-k",
                "15s",
                "-c",
                "--",
                script,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        with_variables_of(&mut container, &command);
        let begun = Instant::now();
        let ended = said(container.spawn().expect("unshare of util-linux")).await;
        assert_eq!(
            ended.code,
            Some(code),
            "needs the right to make PID namespaces, as root has it: {ended:?}"
        );
        // As long as a kill after TERM would take.
        assert!(begun.elapsed() < ms(14_000), "{:?}", begun.elapsed());
    }
}

/// A process that has left the session does not wait for its child, which has not.
#[tokio::test]
async fn a_zombie_keeps_nobody_waiting() {
    let servers = three(ARGS).await;
    let script = "(sleep 0.01 & exec setsid sleep 20) >/dev/null 2>&1 & sleep 0.5";
    let begun = Instant::now();
    let ended = run(
        multilock(&urls(&servers)),
        &["a", "-k", "15s", "-c", "--", script],
    )
    .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(begun.elapsed() < ms(14_000), "{:?}", begun.elapsed());
}

/// Compose and Helm set variables that nobody has given a value, and people write durations as for `flock`.
#[tokio::test]
async fn empty_variables_and_bare_seconds_are_understood() {
    let servers = three(ARGS).await;
    let rows: [(&str, &str, i32); 15] = [
        ("MULTILOCK_QUARANTINE", " off ", 0),
        ("MULTILOCK_DRIFT_FACTOR", " 0.02", 0),
        ("MULTILOCK_LEASE", " ", 0),
        ("MULTILOCK_MAX_HOLD", "\t", 0),
        ("MULTILOCK_STRICT", " ", 0),
        ("MULTILOCK_ALLOW_EVICTION", " true ", 0),
        ("MULTILOCK_STRICT", "1", 0),
        ("MULTILOCK_STRICT", "no", 0),
        ("MULTILOCK_STRICT", "", 0),
        ("MULTILOCK_STRICT", "maybe", 64),
        ("MULTILOCK_NAMESPACE", "", 0),
        ("MULTILOCK_LEASE", "", 0),
        ("MULTILOCK_LEASE", "20", 0),
        ("MULTILOCK_NODE_TIMEOUT", "0.2", 0),
        ("MULTILOCK_LEASE", "long", 64),
    ];
    for (name, value, code) in rows {
        let mut command = multilock(&urls(&servers));
        command.env(name, value);
        let ended = run(command, &["a", "--", "true"]).await;
        assert_eq!(ended.code, Some(code), "{name}={value}: {ended:?}");
    }
    // A value that cannot be read does not count as not set.
    for name in [
        "MULTILOCK_NAMESPACE",
        "MULTILOCK_CLIENT_LABEL",
        "MULTILOCK_ROUNDS",
    ] {
        let mut command = multilock(&urls(&servers));
        command.env(name, OsStr::from_bytes(b"m\xfcnchen"));
        let ended = run(command, &["a", "--", "true"]).await;
        assert_eq!(ended.code, Some(64), "{name}: {ended:?}");
        assert!(
            ended.stderr.contains(name) || ended.stderr.contains("UTF-8"),
            "{name}: {ended:?}"
        );
    }
}

/// People see which program holds the lock. A name is data for a terminal.
#[tokio::test]
async fn the_holder_is_shown_by_its_program_and_the_name_as_text() {
    let servers = three(ARGS).await;
    let script = format!("{PROGRAM} inspect \"$MULTILOCK_NAMES\"; {PROGRAM} list");
    let name = "red\u{1b}[31m";
    let mut command = multilock(&urls(&servers));
    // As Compose and Helm pass it on.
    command.env("MULTILOCK_CLIENT_LABEL", "");
    let ended = run(command, &[name, "--", "/bin/sh", "-c", &script]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout.matches("red\\u{1b}[31m").count(), 2, "{ended:?}");
    assert!(ended.stdout.contains("held by sh@"), "{ended:?}");
    let mut command = multilock(&urls(&servers));
    command.env("MULTILOCK_CLIENT_LABEL", "mine");
    let ended = run(
        command,
        &["a", "--", "/bin/sh", "-c", &format!("{PROGRAM} inspect a")],
    )
    .await;
    assert!(ended.stdout.contains("held by mine for "), "{ended:?}");
}
