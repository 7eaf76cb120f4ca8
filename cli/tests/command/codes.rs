//! Exit codes and messages of the command for its caller, row by row.

use std::process::Stdio;

use multilock_test_support::{
    Keep, Server, connect, held_everywhere, three, undisturbed, until, until_free, waiters,
};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

use crate::stage::{PROGRAM, Said, Witness, ms, multilock, run, said, signal, urls, with_variables_of};

const ARGS: &[&str] = &["--appendonly", "no"];

/// Addresses at which nobody answers.
const NOBODY: [&str; 3] = [
    "redis://127.0.0.1:1",
    "redis://127.0.0.1:2",
    "redis://127.0.0.1:3",
];

#[tokio::test]
async fn what_a_child_makes_of_it() {
    let servers = three(ARGS).await;
    let rows: [(&[&str], i32, &str); 14] = [
        (&["a", "--", "true"], 0, ""),
        (&["a", "--", "sh", "-c", "exit 3"], 3, ""),
        (&["a,b", "-c", "--", "exit 4"], 4, ""),
        (&["a", "--policy", "multi", "--", "true"], 0, ""),
        (&["a", "--policy", "3", "--", "true"], 0, ""),
        (&["a", "-c", "--", "kill -9 $$"], 128 + 9, ""),
        (&["a", "--", "/no/such/program"], 127, "No such file"),
        (&["a", "--", "no-such-program-anywhere"], 127, "No such file"),
        (&["a", "--", "/etc/passwd"], 126, "denied"),
        (&["a", "--", "/etc"], 126, ""),
        (&["a", "-q", "--", "/etc"], 126, ""),
        (&["a", "--foreground", "--", "sh", "-c", "exit 5"], 5, ""),
        (
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
            124,
            "the hold ends",
        ),
        // It is killed before it would be asked to end.
        (
            &[
                "a",
                "--node-timeout",
                "1s",
                "--lease",
                "3s",
                "--max-hold",
                "3s",
                "-k",
                "0",
                "--",
                "sleep",
                "60",
            ],
            124,
            "the program was made to end",
        ),
    ];
    for (args, code, says) in rows {
        // A lease of the rows with leases of their own may end in a longer standstill.
        undisturbed(ms(500), async || {
            let ended = run(multilock(&urls(&servers)), args).await;
            assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
            assert!(ended.stderr.contains(says), "{args:?}: {ended:?}");
            assert!(
                says.is_empty() || ended.stderr.starts_with("multilock: "),
                "{ended:?}"
            );
            if args.contains(&"-q") {
                assert_eq!(ended.stderr, "", "{args:?}");
            }
            until_free(&servers, "a").await;
        })
        .await;
    }
}

/// As `env`, `timeout` and shells run it.
#[tokio::test]
async fn a_script_without_an_interpreter_is_run_by_the_shell() {
    let servers = three(ARGS).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("a-script");
    std::fs::write(&file, "echo $1; exit 6\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("its owner");
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").expect("a path")
    );
    for program in [file.to_str().expect("a path"), "a-script"] {
        let mut command = multilock(&urls(&servers));
        command.env("PATH", &path);
        let ended = run(command, &["a", "--", program, "x y"]).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(6), "x y\n"),
            "{ended:?}"
        );
    }
    // A script of `-c` is no option of the shell.
    let ended = run(multilock(&urls(&servers)), &["a", "-c", "--", "-e echo hi"]).await;
    assert_eq!(ended.code, Some(127), "{ended:?}");
}

/// Renewals cannot end before the lease, which is 30 s by default.
#[tokio::test]
async fn an_option_overrides_a_variable_that_would_be_refused() {
    let servers = three(ARGS).await;
    for (option, code) in [
        (&["--max-hold", "60s"][..], 0),
        (&["--lease", "10s"], 0),
        (&[], 64),
    ] {
        let mut command = multilock(&urls(&servers));
        command.env("MULTILOCK_MAX_HOLD", "10s");
        command.env("MULTILOCK_NODE_TIMEOUT", "1s");
        let ended = run(command, &[&["a", "-n"], option, &["--", "true"]].concat()).await;
        assert_eq!(ended.code, Some(code), "{option:?}: {ended:?}");
        until_free(&servers, "a").await;
    }
}

/// A shell around it can distinguish a program that was ended by a signal from a program that has handled the signal.
#[tokio::test]
async fn it_dies_of_the_signal_that_ended_the_program() {
    let servers = three(ARGS).await;
    for (word, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
        let script = format!("kill -{word} $$");
        let ended = run(multilock(&urls(&servers)), &["a", "-c", "--", &script]).await;
        assert_eq!(
            (ended.code, ended.signal),
            (None, Some(number)),
            "{word}: {ended:?}"
        );
        until_free(&servers, "a").await;
    }
}

#[tokio::test]
async fn wrong_usage() {
    let servers = three(ARGS).await;
    let rows: [(&[&str], &str); 24] = [
        (&["a"], "required"),
        (
            &["a", "-c", "--", "echo", "hi", "there"],
            "3 arguments after -- are not allowed; allowed: one, in quotes",
        ),
        (&["a", "true"], "the program and its arguments stand after --"),
        (&["a", "--no-such-option", "--", "true"], "--no-such-option"),
        (&["a", "-n", "-w", "1s", "--", "true"], "cannot be used with"),
        (&["a", "-w", "soon", "--", "true"], "a duration such as 30s"),
        (&["a", "-w", "1e19", "--", "true"], "at most 100 years"),
        (
            &["a", "--lease", "7 parsecs", "--", "true"],
            "a duration such as 30s",
        ),
        (
            &["a", "--lease", "1ms", "--", "true"],
            "--lease: 1ms is not allowed",
        ),
        (
            &["a", "--max-hold", "29s", "--", "true"],
            "--max-hold: 29s is not allowed; allowed: 30s or more, the lease",
        ),
        (
            &["a", "--min-validity", "30s", "--", "true"],
            "--min-validity: 30s is not allowed; allowed: less than ",
        ),
        (&["a", "-s", "SOON", "--", "true"], "a signal such as TERM"),
        (&["a", "--quarantine", "x", "--", "true"], "allowed: auto, off"),
        (
            &["a", "-w", "-5", "--", "true"],
            "allowed: a duration such as 30s",
        ),
        (
            &["a", "-E", "-1", "--", "true"],
            "invalid value '-1' for '--conflict-exit-code <CODE>'",
        ),
        (
            &["a", "--policy", "-1", "--", "true"],
            "invalid value '-1' for '--policy ",
        ),
        (&["a", "--drift-factor", "x", "--", "true"], "allowed: a number"),
        (
            &["a", "-k", "16s", "--", "true"],
            "at most half of the lease, 15s",
        ),
        (
            &["a", "--policy", "1", "--", "true"],
            "--policy: 1 is not allowed; allowed: 2 to 3 over 3 masters",
        ),
        (&["a,", "--", "true"], "a name is empty"),
        (&["a", "--", "", "x"], "COMMAND: \"\" is not allowed"),
        (&["multilock_x", "--", "true"], "is not allowed"),
        (&["a", "b", "--seats", "2", "--", "true"], "--seats: 2 names"),
        (
            &["a", "--namespace", "multilock_x", "--", "true"],
            "--namespace: ",
        ),
    ];
    // No time mends them, so nothing is waited for without masters.
    for nodes in [urls(&servers), NOBODY.map(String::from).to_vec()] {
        for (args, says) in rows {
            let ended = run(multilock(&nodes), args).await;
            assert_eq!(ended.code, Some(64), "{args:?}: {ended:?}");
            assert!(ended.stderr.contains(says), "{args:?}: {ended:?}");
            assert_eq!(ended.stdout, "", "{args:?}");
        }
    }
    // A misspelt option is hardly meant as a name.
    let ended = run(multilock(&NOBODY), &["--wiat", "1s", "a", "--", "true"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let is_one_tip = ended.stderr.contains("'--wait'") && !ended.stderr.contains("to name a lock");
    assert!(is_one_tip, "{ended:?}");
    let mut nobody = multilock(&urls(&servers));
    nobody.env_remove("MULTILOCK_NODES");
    let ended = run(nobody, &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let mut both = multilock(&urls(&servers));
    both.env("MULTILOCK_NODES_FILE", "/dev/null");
    let ended = run(both, &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    let mut unprinted = multilock(&NOBODY);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    unprinted.stdout(full.expect("a device"));
    assert_eq!(run(unprinted, &["--help"]).await.code, Some(125));
    let help = run(multilock(&NOBODY), &["--help"]).await;
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Exit codes"), "{help:?}");
}

#[tokio::test]
async fn held_by_another() {
    let servers = three(ARGS).await;
    let guard = connect(urls(&servers)).await.red_lock("a").lock().await;
    let guard = guard.expect("free");
    let rows: [(&[&str], i32); 4] = [
        (&["a", "-n", "--", "true"], 75),
        (&["a", "-w", "2.5", "--", "true"], 75),
        (&["a", "-n", "-E", "9", "--", "true"], 9),
        (&["b,a", "-w", "2500ms", "-E", "10", "--", "true"], 10),
    ];
    for (args, code) in rows {
        let ended = run(multilock(&urls(&servers)), args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        // No live line where there is no terminal.
        assert!(!ended.stderr.contains('\r'), "{ended:?}");
        assert!(ended.stderr.contains("held by another"), "{ended:?}");
    }
    let ended = run(multilock(&urls(&servers)), &["a", "-w", "500ms", "--", "true"]).await;
    assert!(ended.stderr.contains("timed out after 500ms"), "{ended:?}");
    let quiet = run(multilock(&urls(&servers)), &["a", "-n", "-q", "--", "true"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(75), ""));
    guard.unlock().await.expect("held");
}

/// A log without a terminal says it, too.
#[tokio::test]
async fn a_wait_is_told() {
    let servers = three(ARGS).await;
    let guard = held_everywhere(&connect(urls(&servers)).await.red_lock("a")).await;
    let holder = guard.holder().to_string();
    for (args, lines) in [
        (&["a,b", "-w", "4", "--", "true"][..], 1),
        (&["a", "-q", "-w", "4", "--", "true"], 0),
        (&["a", "-n", "--", "true"], 0),
    ] {
        let ended = run(multilock(&urls(&servers)), args).await;
        let told = ended.stderr.lines().filter(|line| line.contains("waiting for"));
        let told: Vec<&str> = told.collect();
        assert_eq!(told.len(), lines, "{args:?}: {ended:?}");
        for line in told {
            assert!(line.starts_with("multilock: waiting for "), "{line}");
            assert!(line.contains(&format!("a held by {holder} for ")), "{line}");
            assert!(line.contains("; b free, "), "{line}");
        }
    }
    // A grant at once tells nothing. On a busy machine one may take longer.
    until("a short wait is not told", async || {
        let ended = run(multilock(&urls(&servers)), &["b", "--", "true"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        !ended.stderr.contains("waiting for")
    })
    .await;
    guard.unlock().await.expect("held");
    // The masters that are waited for, too.
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    command.env("MULTILOCK_QUARANTINE", "auto");
    let ended = run(command, &["a", "-w", "4", "--", "true"]).await;
    let told = "a not known to be held or free (of 3 masters 3 in quarantine, for ";
    assert!(ended.stderr.contains(told), "{ended:?}");
}

#[tokio::test]
async fn too_few_masters() {
    for args in [
        &["a", "-n", "-E", "9", "--", "true"][..],
        &["a", "-w", "0.5", "--", "true"],
    ] {
        let ended = run(multilock(&NOBODY), args).await;
        assert_eq!(ended.code, Some(69), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains("only 0 of 3 masters"), "{ended:?}");
    }
    // Connected to, and in quarantine.
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    command.env("MULTILOCK_QUARANTINE", "auto");
    let ended = run(command, &["a", "-w", "3s", "--", "true"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    for says in [
        "as each is for the longest lease after its first start, a restart, a promotion or a loss of its data",
        "from the first one on, sets --for-tests (see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#quarantine)",
    ] {
        assert!(ended.stderr.contains(says), "{ended:?}");
    }
}

/// Masters that are thrown away: their first lock takes some seconds, and no other client gets near them.
#[tokio::test]
async fn masters_for_tests() {
    undisturbed(ms(500), async || {
        let servers = three(ARGS).await;
        let for_tests = |longest: Option<&str>| {
            let mut command = multilock(&urls(&servers));
            command
                .env("MULTILOCK_QUARANTINE", "auto")
                .env("MULTILOCK_NODE_TIMEOUT", "1s");
            if let Some(longest) = longest {
                command.env("MULTILOCK_FOR_TESTS", longest);
            }
            run(command, &["a", "-w", "30s", "--", "true"])
        };
        let ended = for_tests(Some("3s")).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        for other in [None, Some("4s")] {
            let ended = for_tests(other).await;
            assert_eq!(ended.code, Some(78), "{ended:?}");
            assert!(
                ended
                    .stderr
                    .contains("is in a set of 3 masters for tests with leases of up to 3s"),
                "{ended:?}"
            );
        }
    })
    .await;
}

/// A lease that is too long is refused before any master is asked. A job that runs elsewhere goes on, and others get locks.
#[tokio::test]
async fn a_lease_that_is_too_long_touches_no_master() {
    let servers = three(ARGS).await;
    let command = || {
        let mut command = multilock(&urls(&servers));
        command
            .env("MULTILOCK_QUARANTINE", "auto")
            .env("MULTILOCK_NODE_TIMEOUT", "1s")
            .env("MULTILOCK_FOR_TESTS", "6s");
        command
    };
    let witness = Witness::new();
    let go = witness.file("go");
    let script = format!("say in; while [ ! -e '{go}' ]; do sleep 0.05; done; say out");
    let script = witness.script(&script);
    let mut job = command();
    job.args(["run", "live", "-w", "30s", "-c", "--", &script]);
    let job = job.spawn().expect("the command");
    witness.until_said("in").await;
    let connected = async || {
        let mut count = 0;
        for server in &servers {
            count += server.commandstats().await["hello"];
        }
        count
    };
    let before = connected().await;
    for lease in ["6001ms", "1h", "20000d"] {
        let of_an_argument = run(command(), &["oops", "--lease", lease, "-w", "20", "--", "true"]).await;
        let mut of_the_environment = command();
        of_the_environment.env("MULTILOCK_LEASE", lease);
        let of_the_environment = run(of_the_environment, &["oops", "-n", "--", "true"]).await;
        for ended in [of_an_argument, of_the_environment] {
            assert_eq!(ended.code, Some(64), "{ended:?}");
            assert!(
                ended.stderr.contains("a hold is renewed for as long as it lives"),
                "{ended:?}"
            );
        }
    }
    assert_eq!(connected().await, before);
    let other = run(command(), &["other", "-n", "--", "true"]).await;
    assert_eq!(other.code, Some(0), "{other:?}");
    assert!(!witness.has("out"), "the job went on meanwhile");
    std::fs::write(&go, "").expect("the file");
    let ended = said(job).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(witness.has("out"), "{ended:?}");
}

#[tokio::test]
async fn masters_that_cannot_be_used() {
    let evicting = three(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let ended = run(multilock(&urls(&evicting)), &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stderr.contains("evicts"), "{ended:?}");
    // The option overrides the variable both ways.
    for (variable, option, code) in [
        ("true", &[][..], 0),
        ("true", &["--allow-eviction=false"], 78),
        ("true", &["--strict-memory=false"], 0),
        ("false", &["--allow-eviction"], 0),
    ] {
        let mut command = multilock(&urls(&evicting));
        command.env("MULTILOCK_ALLOW_EVICTION", variable);
        let ended = run(command, &[&["a"], option, &["--", "true"]].concat()).await;
        assert_eq!(ended.code, Some(code), "{variable}, {option:?}: {ended:?}");
    }
    // Without the password, which is not shown either.
    let locked = three(&["--requirepass", "secret"]).await;
    let without: Vec<String> = locked
        .iter()
        .map(|server| format!("redis://127.0.0.1:{}", server.port()))
        .collect();
    let ended = run(multilock(&without), &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    let ended = run(multilock(&urls(&locked)), &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let wrong: Vec<String> = urls(&locked)
        .iter()
        .map(|url| url.replace("secret", "wrong"))
        .collect();
    let ended = run(multilock(&wrong), &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(
        !ended.stderr.contains("wrong:") && !ended.stderr.contains(":wrong@"),
        "{ended:?}"
    );
}

/// A master out of reach may come back. A wait does not help against an unfit one, although a majority can be used.
#[tokio::test]
async fn a_master_that_the_policy_needs_and_that_cannot_be_used() {
    let servers = three(ARGS).await;
    let ask = async |args: &[&str]| {
        let mut command = multilock(&urls(&servers));
        said(command.args(args).spawn().expect("the command")).await
    };
    let all: &[&str] = &["run", "a", "--policy", "multi", "-n", "--", "true"];
    servers[0].kill().await;
    let ended = ask(all).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
    servers[0].restart(Keep::Data).await;
    let port = servers[1].port().to_string();
    servers[0].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    for (args, code) in [
        (all, 78),
        (&["run", "a", "--policy", "multi", "-w", "1s", "--", "true"], 78),
        (&["run", "a", "-n", "--", "true"], 0),
    ] {
        let ended = ask(args).await;
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
    }
    // Neither the unfit one nor the one out of reach alone keeps a majority from answering.
    servers[2].kill().await;
    let ended = ask(&["held", "a"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

/// The time until enough masters are connected is a part of the wait.
#[tokio::test]
async fn a_wait_counts_from_the_start_of_the_command() {
    undisturbed(ms(500), async || {
        let servers = three(ARGS).await;
        let guard = held_everywhere(&connect(urls(&servers)).await.red_lock("a")).await;
        for server in &servers[..2] {
            server.freeze().await;
        }
        let begun = Instant::now();
        let args = ["a", "-w", "8s", "--connect-timeout", "1s", "--", "true"];
        let (ended, ()) = tokio::join!(run(multilock(&urls(&servers)), &args), async {
            sleep(ms(4_000)).await;
            for server in &servers[..2] {
                server.thaw().await;
            }
        });
        assert_eq!(ended.code, Some(75), "{ended:?}");
        let took = begun.elapsed();
        assert!(took > ms(7_900) && took < ms(11_000), "{took:?}");
        drop(guard);
    })
    .await;
}

/// It is no master that is out of reach, which would be waited for.
#[tokio::test]
async fn a_password_file_that_cannot_be_used() {
    let servers = three(&["--requirepass", "secret"]).await;
    let without: Vec<String> = servers
        .iter()
        .map(|server| format!("redis://127.0.0.1:{}", server.port()))
        .collect();
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("empty"), "").expect("written");
    std::fs::write(at("lines"), "\u{feff}\r\n\n").expect("written");
    std::fs::write(at("bytes"), b"\xff").expect("written");
    std::fs::write(at("good"), "secret\n").expect("written");
    let rows = [
        (at("missing"), "No such file"),
        (at("empty"), "(empty)"),
        (at("lines"), "(empty)"),
        ("/dev/null".into(), "(empty)"),
        (at("bytes"), "valid UTF-8"),
        (dir.path().to_owned(), "(a directory)"),
        (at("good/deeper"), "Not a directory"),
    ];
    for (file, says) in &rows {
        for args in [&["run", "a", "--", "true"][..], &["held", "a"], &["doctor"]] {
            let mut command = multilock(&without);
            command.env("MULTILOCK_PASSWORD_FILE", file).args(args);
            let ended = said(command.spawn().expect("the command")).await;
            assert_eq!(ended.code, Some(78), "{args:?}: {ended:?}");
            let start = format!("multilock: MULTILOCK_PASSWORD_FILE: {} (", file.display());
            assert!(
                ended.stderr.starts_with(&start) && ended.stderr.contains(says),
                "{args:?}: {ended:?}"
            );
        }
    }
    // A command that asks no master needs no password.
    let mut manual = multilock(&without);
    manual.env("MULTILOCK_PASSWORD_FILE", at("missing")).arg("man");
    assert_eq!(said(manual.spawn().expect("the command")).await.code, Some(0));
    // The name is read as the library reads it: blanks around it do not count.
    let good = at("good").display().to_string();
    for name in [good.clone(), format!(" {good}\n")] {
        let mut command = multilock(&without);
        command.env("MULTILOCK_PASSWORD_FILE", name);
        // Without a wait, which would be told of on a busy machine.
        let ended = run(command, &["a", "-n", "--", "true"]).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
    let mut blank = multilock(&without);
    blank.env("MULTILOCK_PASSWORD_FILE", " ");
    let ended = run(blank, &["a", "-n", "--", "true"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(ended.stderr.contains("the name of a file"), "{ended:?}");
}

/// A pipe that nobody writes to holds up the thread that reads it, as a name server without an answer does.
#[tokio::test]
async fn the_end_waits_for_no_read_of_a_pipe() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let pipe = witness.file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo of coreutils").success());
    let mut command = multilock(&urls(&servers));
    command.env("MULTILOCK_PASSWORD_FILE", &pipe);
    let ended = run(command, &["a", "-w", "500ms", "--", "true"]).await;
    assert_eq!(ended.code, Some(69), "{ended:?}");
}

#[tokio::test]
async fn a_file_names_the_masters() {
    let servers = three(ARGS).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("masters");
    std::fs::write(&file, format!("# ours\n{}\n", urls(&servers).join("\n"))).expect("written");
    let mut from_variable = multilock(&urls(&servers));
    from_variable
        .env_remove("MULTILOCK_NODES")
        .env("MULTILOCK_NODES_FILE", &file);
    let ended = run(from_variable, &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The command line goes before the environment.
    let file = file.to_str().expect("a path");
    let ended = run(multilock(&NOBODY), &["a", "--nodes-file", file, "--", "true"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let list = urls(&servers).join(",");
    let ended = run(multilock(&NOBODY), &["a", "--nodes", &list, "--", "true"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// An error about the masters names the option in which they were given, or the variable.
#[tokio::test]
async fn a_bad_list_of_masters_is_refused_by_the_name_of_its_source() {
    for (args, source) in [
        (&["--nodes", ","][..], "multilock: --nodes: \"\" is"),
        (
            &["--nodes-file", "/dev/null"],
            "multilock: --nodes-file: /dev/null is",
        ),
        (&[], "multilock: MULTILOCK_NODES: \"\" is"),
    ] {
        let mut command = multilock(&NOBODY);
        command.env("MULTILOCK_NODES", ",");
        let ended = run(command, &[&["a"], args, &["--", "true"]].concat()).await;
        assert_eq!(ended.code, Some(64), "{ended:?}");
        assert!(ended.stderr.contains(source), "{ended:?}");
    }
}

/// An error names the source of the value. The variable of an option that is given does not matter.
#[tokio::test]
async fn a_bad_variable_is_refused_by_its_name_and_does_not_matter_beside_its_option() {
    for (variable, value, option, says) in [
        (
            "MULTILOCK_LEASE",
            "foo",
            &["--lease", "5s"][..],
            "\"foo\" is not allowed; allowed: a duration",
        ),
        (
            "MULTILOCK_LEASE",
            "40s",
            &["--lease", "5s"],
            "40s is not allowed; allowed: ",
        ),
        (
            "MULTILOCK_MAX_HOLD",
            "foo",
            &["--max-hold", "60s"],
            "\"foo\" is not allowed",
        ),
        (
            "MULTILOCK_NODE_TIMEOUT",
            "foo",
            &["--node-timeout", "1s"],
            "\"foo\" is not allowed",
        ),
        (
            "MULTILOCK_CONNECT_TIMEOUT",
            "0",
            &["--connect-timeout", "1s"],
            "0s is not allowed",
        ),
        (
            "MULTILOCK_DRIFT_FACTOR",
            "foo",
            &["--drift-factor", "0.02"],
            "allowed: a number such as 0.01",
        ),
        (
            "MULTILOCK_QUARANTINE",
            "x",
            &["--quarantine", "off"],
            "allowed: auto, off, or a duration",
        ),
        (
            "MULTILOCK_STRICT",
            "maybe",
            &["--strict-memory"],
            "allowed: true or false",
        ),
        (
            "MULTILOCK_NAMESPACE",
            "a b",
            &["--namespace", "ab"],
            "\"a b\" is not allowed",
        ),
        (
            "MULTILOCK_NODES",
            "redis:/x",
            &["--nodes", "redis://127.0.0.1:1"],
            "number 1, ",
        ),
    ] {
        let ask = async |option: &[&str]| {
            let mut command = multilock(&NOBODY);
            command.env("MULTILOCK_NODE_TIMEOUT", "1s").env(variable, value);
            run(command, &[&["a", "-n"], option, &["--", "true"]].concat()).await
        };
        let ended = ask(&[]).await;
        assert_eq!(ended.code, Some(64), "{variable}: {ended:?}");
        let start = format!("multilock: {variable}: ");
        let is_named = ended.stderr.starts_with(&start) && ended.stderr.contains(says);
        assert!(is_named, "{variable}: {ended:?}");
        let ended = ask(option).await;
        assert_eq!(ended.code, Some(69), "{variable}: {ended:?}");
    }
}

#[tokio::test]
async fn a_bad_file_of_masters_and_missing_ones_are_told_by_their_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("masters");
    std::fs::write(&file, "redis:/x").expect("written");
    let mut command = multilock(&NOBODY);
    command
        .env_remove("MULTILOCK_NODES")
        .env("MULTILOCK_NODES_FILE", &file);
    let ended = run(command, &["a", "--", "true"]).await;
    assert!(
        ended
            .stderr
            .starts_with("multilock: MULTILOCK_NODES_FILE: number 1, "),
        "{ended:?}"
    );
    let mut command = multilock(&NOBODY);
    command.env("MULTILOCK_NODES", " ");
    let ended = run(command, &["a", "--", "true"]).await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert!(
        ended
            .stderr
            .starts_with("multilock: no masters are given; allowed: --nodes, "),
        "{ended:?}"
    );
    let help = run(multilock(&NOBODY), &["--help"]).await;
    assert!(help.stdout.contains("[env: MULTILOCK_LEASE="), "{help:?}");
}

/// A release that too few masters confirm is a warning, or a failure where that is asked for.
#[tokio::test]
async fn a_release_that_is_not_confirmed() {
    for (args, code) in [(&["--strict"][..], 125), (&[], 0)] {
        let servers = three(ARGS).await;
        let witness = Witness::new();
        let script = witness.script("say A; read line");
        // The command waits for silent masters for some node timeouts at its end.
        let short = ["--node-timeout", "1s"];
        let args = [&["run", "a"], &short[..], args, &["--", "sh", "-c", &script]].concat();
        let mut command = multilock(&urls(&servers));
        let mut running = command
            .args(args)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the command");
        witness.until_said("A").await;
        for server in &servers[..2] {
            server.kill().await;
        }
        let mut stdin = running.stdin.take().expect("a pipe");
        stdin.write_all(b"go\n").await.expect("it reads");
        let ended = said(running).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.stderr.contains("release not confirmed"), "{ended:?}");
    }
}

#[tokio::test]
async fn stdin_goes_through_and_the_environment_tells_of_the_hold() {
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    let script =
        "cat; echo $MULTILOCK_HELD $MULTILOCK_NAMES $MULTILOCK_TOKEN $MULTILOCK_EXPIRES_AT$MULTILOCK_SEAT";
    command
        // The seat of a program around it is none of this one.
        .env("MULTILOCK_SEAT", "9")
        .args(["run", "a,b", "-n", "-c", "--", script])
        .stdin(Stdio::piped());
    let mut running = command.spawn().expect("the command");
    let mut stdin = running.stdin.take().expect("a pipe");
    stdin.write_all(b"through\n").await.expect("it reads");
    drop(stdin);
    let ended = said(running).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let (passed, told) = ended.stdout.trim().split_once('\n').expect("two lines");
    assert_eq!(passed, "through");
    let told: Vec<&str> = told.split(' ').collect();
    let ["1", "a,b", token, expires] = told[..] else {
        panic!("{told:?}")
    };
    assert!(
        token
            .parse::<u64>()
            .is_ok_and(|token| token > 1_600_000_000_000_000),
        "{token}"
    );
    assert!(expires.ends_with('Z') && expires.contains('T'), "{expires}");
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_nothing() {
    let servers = three(ARGS).await;
    let guard = connect(urls(&servers)).await.red_lock("a").lock().await;
    let guard = guard.expect("free");
    for (name, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let waiting = multilock(&urls(&servers))
            .args(["run", "a", "--", "true"])
            .spawn();
        let waiting = waiting.expect("the command");
        until("it waits", async || waiters(&servers[0], "a").await == 1).await;
        // As after a stop, this one ends nothing.
        signal(&waiting, Signal::CONT);
        sleep(ms(300)).await;
        signal(&waiting, name);
        let ended = said(waiting).await;
        assert_eq!(ended.signal, Some(number), "{ended:?}");
        for server in &servers {
            assert_eq!(waiters(server, "a").await, 0);
        }
    }
    // While it looks for masters, too.
    let waiting = multilock(&NOBODY)
        .args(["run", "a", "--", "true"])
        .spawn()
        .expect("the command");
    sleep(ms(300)).await;
    signal(&waiting, Signal::INT);
    assert_eq!(said(waiting).await.signal, Some(2));
    guard.unlock().await.expect("held");
    until_free(&servers, "a").await;
}

/// `multilock run a` with a child that says that it runs; then a signal.
async fn signalled(servers: &[Server], script: &str, name: Signal) -> (Said, Vec<String>) {
    let witness = Witness::new();
    let script = witness.script(script);
    let running = multilock(&urls(servers))
        .args(["run", "a", "-c", "--", &script])
        .spawn();
    let running = running.expect("the command");
    witness.until_said("A").await;
    signal(&running, name);
    let ended = said(running).await;
    witness.until_nobody_lives().await;
    until_free(servers, "a").await;
    (ended, witness.lines())
}

#[tokio::test]
async fn signals_are_passed_on_to_the_group() {
    let servers = three(ARGS).await;
    let rows = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (name, word) in rows {
        let script = format!("trap 'say got; exit 7' {word}; say A; while :; do sleep 0.02; done");
        let (ended, lines) = signalled(&servers, &script, name).await;
        assert_eq!(
            (ended.code, lines.last().map(String::as_str)),
            (Some(7), Some("got")),
            "{word}"
        );
        // A program without a handler is ended by the signal, with its children. A signal that asks to end also ends a program
        // that is stopped.
        let is_to_end = !matches!(name, Signal::USR1 | Signal::USR2);
        let stop = if is_to_end { "kill -STOP $$;" } else { "" };
        let script = format!("sleep 60 & say A; {stop} sleep 60");
        let (ended, _) = signalled(&servers, &script, name).await;
        if is_to_end {
            assert_eq!(ended.signal, Some(name.as_raw()), "{word}: {ended:?}");
        } else {
            assert_eq!(ended.code, Some(128 + name.as_raw()), "{word}: {ended:?}");
        }
    }
}

/// Without a terminal, for which the command would stop itself.
#[tokio::test]
async fn a_program_that_was_stopped_goes_on_with_the_command() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let (id, go) = (witness.file("id"), witness.file("go"));
    let script = format!("echo $$ >{id}; say A; while [ ! -e {go} ]; do sleep 0.02; done; say B");
    let script = witness.script(&script);
    let mut command = tokio::process::Command::new("setsid");
    with_variables_of(&mut command, &multilock(&urls(&servers)));
    let running = command
        // Not by a shell that forks by `vfork`: with a child that is stopped before its `exec`, such a shell does not stop.
        .args(["--wait", PROGRAM, "run", "a", "--", "bash", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("setsid of util-linux");
    witness.until_said("A").await;
    let program = std::fs::read_to_string(&id).expect("its id");
    let state = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.trim()));
        stat.ok()
            .and_then(|stat| stat.rsplit(") ").next()?.chars().next())
    };
    signal(&running, Signal::TSTP);
    until("the program is stopped", async || state() == Some('T')).await;
    std::fs::write(&go, "").expect("a file");
    signal(&running, Signal::CONT);
    let ended = said(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(witness.lines(), ["A", "B"]);
}

/// As `nohup` has it.
#[tokio::test]
async fn a_signal_that_was_ignored_stays_so() {
    let servers = three(ARGS).await;
    let witness = Witness::new();
    let script = witness.script("say A; sleep 0.5");
    let command = multilock(&urls(&servers));
    let mut nohup = tokio::process::Command::new("nohup");
    nohup
        .arg(PROGRAM)
        .args(["run", "a", "-c", "--", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    with_variables_of(&mut nohup, &command);
    let running = nohup.spawn();
    let running = running.expect("nohup");
    witness.until_said("A").await;
    signal(&running, Signal::HUP);
    let ended = said(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
