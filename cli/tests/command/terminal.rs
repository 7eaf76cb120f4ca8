//! Programs at a terminal: they get it, stop and continue with the command, and end the script around them.

use multilock_test_support::{
    Server, connect, held_everywhere, three, undisturbed, until, until_free, waiters,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Duration, sleep};

use crate::pty::{CTRL_C, CTRL_D, CTRL_Z, Pty};
use crate::stage::{PROGRAM, Witness, ms, multilock, run, urls};

const ARGS: &[&str] = &["--appendonly", "no"];
/// For holds that end here. On a busy machine a process may not run for a second: the drift leaves time for the kill.
const ENDS: &str = "--lease 6s --node-timeout 1s --drift-factor 0.2 -k 500ms";
/// A standstill of the machine for which the drift leaves time.
const STANDS: Duration = ms(500);

async fn before_a_terminal() -> (Vec<Server>, Pty) {
    let servers = three(ARGS).await;
    let pty = Pty::start(&servers).await;
    (servers, pty)
}

#[tokio::test]
async fn a_shell_gets_the_terminal_and_gives_it_back() {
    let (servers, mut pty) = before_a_terminal().await;
    pty.line("multilock run a -- bash --norc --noprofile --noediting -i");
    pty.line("echo sum $((20 + 3))");
    pty.until("sum 23").await;
    assert!(servers[0].exists("a").await);
    // Its keys are its own: a job of it ends, and it goes on.
    pty.line("sleep 60; echo not this");
    pty.settle().await;
    pty.keys(CTRL_C);
    pty.line("echo alive $((20 + 4)); exit 7");
    pty.until("alive 24").await;
    pty.line("echo outside $?, $((20 + 5))");
    pty.until("outside 7, 25").await;
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn a_program_that_reads_the_terminal_gets_it_wherever_its_stdin_is() {
    let (servers, mut pty) = before_a_terminal().await;
    pty.line("multilock run a -c -- 'echo ask$((1)); read x; echo got $x'");
    pty.until("ask1").await;
    pty.line("one");
    pty.until("got one").await;
    pty.line("echo piped | multilock run a -c -- 'cat; echo ask$((2)); read x </dev/tty; echo got $x'");
    pty.until("piped").await;
    pty.until("ask2").await;
    pty.line("two");
    pty.until("got two").await;
    // The other end of a pipe reads keys: it is in the foreground for as long as the program does not want to be.
    pty.line(
        "multilock run a -c -- 'echo piped' | sh -c 'cat; echo ask$((3)); read x </dev/tty; echo got $x'",
    );
    pty.until("ask3").await;
    pty.line("three");
    pty.until("got three").await;
    until_free(&servers, "a").await;
}

/// From its start, and without a read.
#[tokio::test]
async fn a_job_of_its_own_gives_the_program_the_foreground() {
    let (servers, mut pty) = before_a_terminal().await;
    let script = "set -- $(ps -o tpgid=,pgid= -p $$); [ $1 = $2 ] && echo in front $((20 + 3))";
    pty.line(&format!("multilock run a -c -- '{script}'"));
    pty.until("in front 23").await;
    until_free(&servers, "a").await;
}

/// A program that is killed cannot do that.
#[tokio::test]
async fn the_settings_of_the_terminal_come_back_after_a_program_that_was_killed() {
    let (servers, mut pty) = before_a_terminal().await;
    // In a script: an interactive shell would restore them by itself.
    let killed = r#"multilock run a -c -- "stty -echo; kill -9 \$\$""#;
    pty.line(&format!(
        r#"sh -c '{killed}; stty -a | grep -q " echo " && echo heard $((20 + 3))'"#
    ));
    pty.until("heard 23").await;
    until_free(&servers, "a").await;
}

/// One after the other, with a line when it has come to its end.
fn script(witness: &Witness, body: &str) -> String {
    let path = witness.file("script");
    let text = format!("for i in 1 2 3; do echo round $i; {body}; done\necho end\n");
    std::fs::write(&path, text).expect("written");
    path
}

#[tokio::test]
async fn ctrl_c_ends_the_script_around_it() {
    let (servers, mut pty) = before_a_terminal().await;
    let witness = Witness::new();
    // Beside the script in the foreground; with the terminal to itself.
    for body in ["sleep 60", "sh -c 'read x'"] {
        let script = script(&witness, &format!("{PROGRAM} run a -- {body}"));
        for shell in ["bash", "sh"] {
            pty.line(&format!("{shell} {script}; echo status $?"));
            pty.until("round 1").await;
            until("it runs", async || servers[0].exists("a").await).await;
            pty.settle().await;
            pty.keys(CTRL_C);
            pty.until("ready> ").await;
            until_free(&servers, "a").await;
        }
    }
    let screen = pty.screen();
    assert!(
        !screen.contains("round 2") && !screen.contains("\r\nend"),
        "{screen:?}"
    );
}

#[tokio::test]
async fn ctrl_c_ends_the_script_around_a_wait() {
    let (servers, mut pty) = before_a_terminal().await;
    let witness = Witness::new();
    let guard = connect(urls(&servers)).await.red_lock("a").lock().await;
    let script = script(&witness, &format!("{PROGRAM} run a -- true"));
    pty.line(&format!("bash {script}"));
    until("it waits", async || waiters(&servers[0], "a").await == 1).await;
    pty.keys(CTRL_C);
    pty.until("ready> ").await;
    until("nothing is left", async || waiters(&servers[0], "a").await == 0).await;
    let screen = pty.screen();
    assert!(!screen.contains("round 2"), "{screen:?}");
    guard.expect("free").unlock().await.expect("held");
}

/// The line that is redrawn would cover the prompt.
#[tokio::test]
async fn a_wait_in_the_background_leaves_the_prompt_alone() {
    const REDRAWN: &str = "\r\x1b[K\x1b[?7lmultilock: waiting for ";
    let (servers, mut pty) = before_a_terminal().await;
    let guard = held_everywhere(&connect(urls(&servers)).await.red_lock("a")).await;
    pty.line("multilock run a -- sh -c 'echo ran $((20 + 3))' &");
    pty.until("multilock: waiting for ").await;
    // Three times as long as until the next look.
    sleep(ms(1500)).await;
    let screen = pty.screen();
    assert!(!screen.contains("\x1b[K"), "{screen:?}");
    pty.line("fg");
    pty.until(REDRAWN).await;
    pty.until(REDRAWN).await;
    // Nor is it erased there, once it was drawn in the foreground.
    pty.keys(CTRL_Z);
    pty.until("Stopped").await;
    pty.line("bg");
    pty.until("multilock run a").await;
    pty.settle().await;
    let before = pty.screen().len();
    guard.unlock().await.expect("held");
    pty.until("ran 23").await;
    until_free(&servers, "a").await;
    pty.line("wait; echo over $((20 + 4))");
    pty.until("over 24").await;
    let screen = pty.screen();
    assert!(!screen[before..].contains("\x1b[K"), "{screen:?}");
}

/// A read of the terminal would stop it there, and it has to renew.
#[tokio::test]
async fn a_hold_in_the_background_goes_on() {
    let (servers, mut pty) = before_a_terminal().await;
    pty.line("multilock hold a &");
    pty.until("stdin cannot be read").await;
    pty.line("kill %1; wait %1; echo status $?, $((20 + 3))");
    pty.until("status 143, 23").await;
    until_free(&servers, "a").await;
}

#[tokio::test]
async fn a_terminal_that_cannot_redraw_gets_whole_lines() {
    let (servers, mut pty) = before_a_terminal().await;
    let guard = held_everywhere(&connect(urls(&servers)).await.red_lock("a")).await;
    pty.line("TERM=dumb multilock run a -- true; echo over $((20 + 4))");
    pty.until("multilock: waiting for ").await;
    // Three times as long as until the next look.
    sleep(ms(1500)).await;
    guard.unlock().await.expect("held");
    pty.until("over 24").await;
    let screen = pty.screen();
    assert!(!screen.contains("\x1b[K"), "{screen:?}");
}

#[tokio::test]
async fn it_stops_and_goes_on_with_the_program() {
    let (servers, mut pty) = before_a_terminal().await;
    pty.line("multilock run a -- cat");
    until("it runs", async || servers[0].exists("a").await).await;
    pty.line("one");
    pty.until("one\r\none").await;
    pty.keys(CTRL_Z);
    pty.until("Stopped").await;
    pty.line("echo shell $((20 + 3))");
    pty.until("shell 23").await;
    // In the background it cannot read, so it stops again.
    pty.line("bg");
    pty.until("multilock run a -- cat &").await;
    pty.line("wait %1; jobs; echo jobs $((20 + 4))");
    pty.until("Stopped").await;
    pty.until("jobs 24").await;
    pty.line("fg");
    pty.until("multilock run a -- cat").await;
    pty.line("two");
    pty.until("two\r\ntwo").await;
    pty.keys(CTRL_D);
    pty.line("echo status $?, $((20 + 5))");
    pty.until("status 0, 25").await;
    until_free(&servers, "a").await;
}

/// The terminal does not send it to a job in the background.
#[tokio::test]
async fn a_signal_for_the_command_alone_ends_a_program_in_its_group() {
    let (servers, mut pty) = before_a_terminal().await;
    for (word, status) in [("INT", 130), ("QUIT", 131)] {
        let witness = Witness::new();
        let file = witness.file("program");
        std::fs::write(&file, witness.script("say A; exec sleep 60")).expect("written");
        pty.line(&format!("multilock run a --foreground -- sh {file} &"));
        witness.until_said("A").await;
        pty.line(&format!("kill -{word} $!; wait $!; echo status $?, $((20 + 3))"));
        pty.until(&format!("status {status}, 23")).await;
        witness.until_nobody_lives().await;
        until_free(&servers, "a").await;
    }
}

/// The terminal stops the command, not the program, which is no member of the foreground group.
#[tokio::test]
async fn a_program_beside_which_the_terminal_is_used_stops_too() {
    let (servers, mut pty) = before_a_terminal().await;
    let witness = Witness::new();
    let body = witness.script("say A; while :; do say a; sleep 0.02; done");
    let file = witness.file("program");
    std::fs::write(&file, body).expect("written");
    // Not by a shell that forks by `vfork`: with a child that is stopped before its `exec`, such a shell does not stop.
    pty.line(&format!("multilock run a -- bash {file} | cat"));
    witness.until_said("A").await;
    pty.settle().await;
    pty.keys(CTRL_Z);
    pty.until("Stopped").await;
    pty.settle().await;
    let lines = witness.lines().len();
    pty.settle().await;
    assert_eq!(witness.lines().len(), lines, "it is stopped");
    pty.line("fg");
    until("it goes on", async || witness.lines().len() > lines).await;
    pty.keys(CTRL_C);
    pty.until("ready> ").await;
    witness.until_nobody_lives().await;
    until_free(&servers, "a").await;
}

/// A stopped command does not renew its hold, so the program ends with the hold.
#[tokio::test]
async fn a_stopped_program_is_killed_at_the_end_of_the_hold() {
    undisturbed(STANDS, async || {
        let (servers, mut pty) = before_a_terminal().await;
        let witness = Witness::new();
        let body = witness.script("trap '' TERM; say A; while :; do read x; done");
        let file = witness.file("program");
        std::fs::write(&file, body).expect("written");
        pty.line(&format!("multilock run a {ENDS} -- sh {file}"));
        witness.until_said("A").await;
        pty.settle().await;
        pty.keys(CTRL_Z);
        pty.until("the hold is not renewed").await;
        pty.until("Stopped").await;
        let next = witness.script("say B");
        let next = run(multilock(&urls(&servers)), &["a", "-c", "--", &next]).await;
        assert_eq!(next.code, Some(0), "{next:?}");
        assert_eq!(witness.lines(), ["A", "B"]);
        pty.line("fg; echo status $?, $((20 + 3))");
        pty.until("status 124, 23").await;
    })
    .await;
}

/// They are in groups of their own, as those of every shell with job control.
#[tokio::test]
async fn the_jobs_of_a_shell_end_with_the_hold() {
    undisturbed(STANDS, async || {
        for is_killed in [false, true] {
            let (servers, mut pty) = before_a_terminal().await;
            let witness = Witness::new();
            let body = witness.script("trap '' TERM HUP; say A; while :; do sleep 0.02; done");
            let file = witness.file("program");
            std::fs::write(&file, body).expect("written");
            pty.line(&format!(
                "multilock run a {ENDS} -- bash --norc --noprofile --noediting -i"
            ));
            let parent = witness.file("parent");
            pty.line(&format!("echo $PPID >{parent}; sh {file}"));
            witness.until_said("A").await;
            if is_killed {
                let parent = std::fs::read_to_string(parent).expect("written");
                let pid = parent.trim().parse().ok().and_then(Pid::from_raw);
                kill_process(pid.expect("a number"), Signal::KILL).expect("it runs");
            } else {
                for server in &servers[..2] {
                    server.freeze().await;
                }
            }
            witness.until_nobody_lives().await;
            for server in &servers[..2] {
                server.thaw().await;
            }
            // The shell has its terminal again.
            pty.line("echo outside $((20 + 3))");
            pty.until("outside 23").await;
        }
    })
    .await;
}

/// The holder that got the lock while the question was on the screen was not shown, and keeps it.
#[tokio::test]
async fn a_force_spares_a_holder_that_came_after_the_question() {
    let (servers, mut pty) = before_a_terminal().await;
    let masters = connect(urls(&servers)).await;
    let shown = held_everywhere(&masters.red_lock("a")).await;
    pty.line("multilock force-release a; echo status $?, $((20 + 3))");
    pty.until("Take it away?").await;
    shown.unlock().await.expect("held");
    let later = held_everywhere(&masters.red_lock("a")).await;
    pty.line("y");
    pty.until("status 1, 23").await;
    later.unlock().await.expect("still held");
}

#[tokio::test]
async fn nothing_is_done_without_a_yes() {
    let (servers, mut pty) = before_a_terminal().await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    for (verb, question) in [
        ("force-release", "Take it away?"),
        ("forget-done", "Forget that it is done?"),
    ] {
        for answer in ["n", "", "yet"] {
            pty.line(&format!("multilock {verb} a; echo status $?, $((20 + 3))"));
            pty.until(question).await;
            pty.line(answer);
            pty.until("status 1, 23").await;
        }
    }
    guard.unlock().await.expect("left alone");
}

/// It may be another library's lock, which has no holder that could be shown.
#[tokio::test]
async fn a_force_deletes_a_string_that_was_shown() {
    let (servers, mut pty) = before_a_terminal().await;
    for server in &servers {
        server.command(&["SET", "a", "x"]).await;
    }
    pty.line("multilock force-release a; echo status $?, $((20 + 3))");
    pty.until("a kept from being locked by another library's lock, or a foreign key")
        .await;
    pty.until("a: a string is taken for another library's lock: the key is deleted")
        .await;
    pty.until("Take it away?").await;
    pty.line("Yes");
    pty.until("status 0, 23").await;
    until_free(&servers, "a").await;
}

/// It has a field for each, and that of the writer is shown.
#[tokio::test]
async fn a_force_takes_a_name_away_from_a_writer_of_redissons_that_reads_as_well() {
    let (servers, mut pty) = before_a_terminal().await;
    let fields = ["mode", "write", "7d1e2c3b-0:1:write", "1", "7d1e2c3b-0:1", "1"];
    for options in ["", "--yes --if-hold 7d1e2c3b:1:write"] {
        for server in &servers {
            server.command(&[&["HSET", "a"], &fields[..]].concat()).await;
        }
        pty.line(&format!(
            "multilock force-release a {options}; echo status $?, $((20 + 3))"
        ));
        if options.is_empty() {
            pty.until("a held by 7d1e2c3b…:1:write").await;
            pty.until("Take it away?").await;
            pty.line("y");
        }
        pty.until("status 0, 23").await;
        until_free(&servers, "a").await;
    }
}
