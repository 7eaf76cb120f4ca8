//! Commands of an operator: they show the holders of locks, and end holds.

use std::collections::BTreeSet;
use std::process::Stdio;

use multilock_test_support::{
    Keep, Server, WITHIN, connect, held_everywhere, patient, three, until, until_free, waiters,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::stage::{PROGRAM, Said, ms, multilock, said, urls};

const ARGS: &[&str] = &["--appendonly", "no"];

async fn ask(servers: &[Server], args: &[&str]) -> Said {
    said(multilock(&urls(servers)).args(args).spawn().expect("the command")).await
}

#[tokio::test]
async fn a_name_is_held_or_free_or_nobody_can_tell() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(1));
    let guard = held_everywhere(&masters.red_lock("a")).await;
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(0));
    // A quorum tells, with one of them silent.
    servers[0].kill().await;
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(0));
    assert_eq!(ask(&servers, &["held", "b"]).await.code, Some(1));
    guard.unlock().await.expect("held");
    let reading = masters.red_lock("a").read().lock().await.expect("free");
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(0));
    reading.unlock().await.expect("held");
    // A key that is no lock keeps its name from being locked.
    for server in &servers[1..] {
        server.command(&["SADD", "c", "x"]).await;
    }
    assert_eq!(ask(&servers, &["held", "c"]).await.code, Some(0));
    // Kept by one, free on one, silent on one.
    servers[1].command(&["DEL", "c"]).await;
    assert_eq!(ask(&servers, &["held", "c"]).await.code, Some(69));
    servers[1].kill().await;
    assert_eq!(ask(&servers, &["held", "b"]).await.code, Some(69));
}

/// A force spares such a key, so nobody is named as its holder.
#[tokio::test]
async fn a_hash_of_another_program_has_no_holder() {
    let servers = three(ARGS).await;
    for server in &servers {
        server.command(&["HSET", "stats", "n", "5"]).await;
        server
            .command(&["HSET", "options", "mode", "read", "level", "5"])
            .await;
    }
    for name in ["stats", "options"] {
        let told = ask(&servers, &["inspect", name, "--json"]).await;
        let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!(
            (&told[0]["state"], &told[0]["holder"]),
            (&"kept".into(), &serde_json::Value::Null),
            "{told:#}"
        );
        for node in told[0]["nodes"].as_array().expect("a list") {
            assert_eq!(
                (&node["state"], &node["kind"]),
                (&"foreign".into(), &"hash".into())
            );
        }
        let forced = ask(&servers, &["force-release", name, "--yes"]).await;
        assert_eq!(forced.code, Some(1), "{forced:?}");
    }
}

/// A master that may have forgotten the holder does not tell that a name is free.
#[tokio::test]
async fn masters_in_quarantine_do_not_tell_that_a_name_is_free() {
    let servers = three(ARGS).await;
    let mut command = multilock(&urls(&servers));
    command.env("MULTILOCK_QUARANTINE", "auto").args(["held", "a"]);
    assert_eq!(said(command.spawn().expect("the command")).await.code, Some(69));
    assert_eq!(ask(&servers, &["held", "a"]).await.code, Some(1));
}

#[tokio::test]
async fn an_inspection_names_the_holder_as_the_library_does() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let holder = guard.holder().to_string();
    let told = ask(&servers, &["inspect", "a", "b"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.contains(&format!("a held by {holder} for ")),
        "{told:?}"
    );
    assert!(told.stdout.contains("b free, 0 waiting"), "{told:?}");
    assert_eq!(
        told.stdout.matches(&holder).count(),
        1 + servers.len(),
        "{told:?}"
    );
    let told = ask(&servers, &["inspect", "a", "b", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(told[0]["name"], "a");
    assert_eq!(
        (&told[0]["state"], &told[1]["state"]),
        (&"held".into(), &"free".into())
    );
    assert_eq!(told[0]["holder"], holder.as_str());
    assert_eq!(keys(&told[0]), documented_keys(), "docs/command.md");
    assert_eq!(told[0]["nodes"].as_array().map(Vec::len), Some(servers.len()));
    assert!(
        told[0]["nodes"][2]["expires_in_ms"]
            .as_u64()
            .is_some_and(|left| left <= 30_000)
    );
    guard.unlock().await.expect("held");
    for server in &servers[..2] {
        server.kill().await;
    }
    let told = ask(&servers, &["inspect", "a"]).await;
    assert_eq!(told.code, Some(69), "no majority to connect to: {told:?}");
}

fn keys(object: &serde_json::Value) -> BTreeSet<String> {
    object.as_object().expect("an object").keys().cloned().collect()
}

/// Keys of a name in `inspect --json`, by docs/command.md.
fn documented_keys() -> BTreeSet<String> {
    let page = include_str!("../../../docs/command.md");
    let table = page
        .split("| key of `inspect --json` |")
        .nth(1)
        .expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let first = rows.filter_map(|row| row.split('|').nth(1));
    first
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

/// A master that was restarted counts again when its quarantine is over.
#[tokio::test]
async fn it_waits_until_masters_are_ready() {
    let servers = three(ARGS).await;
    let with_quarantine = async |quarantine: &str, args: &[&str]| {
        let mut command = multilock(&urls(&servers));
        command
            .env("MULTILOCK_QUARANTINE", quarantine)
            .env("MULTILOCK_NODE_TIMEOUT", "1s")
            .env("MULTILOCK_FOR_TESTS", "3s");
        command.arg("wait-ready").args(args);
        said(command.spawn().expect("the command")).await
    };
    // Long enough that a command begins before it is over, on a busy machine, too.
    let told = async |args: &[&str]| with_quarantine("10s", args).await;
    let ready = async |args: &[&str]| told(args).await.code;

    let told_first = with_quarantine("1h", &["-w", "3s"]).await;
    assert_eq!(told_first.code, Some(69), "{told_first:?}");
    let is_told = told_first.stderr.contains("3 of 3 masters are not ready")
        && told_first.stderr.contains("in quarantine for");
    assert!(is_told, "{told_first:?}");
    assert_eq!(ready(&[]).await, Some(0), "after the quarantine");
    for policy in [&["--policy", "red"][..], &["--policy", "multi"], &["--all"]] {
        let args = [&["-w", "0"], policy].concat();
        until("the masters are ready at once", async || {
            ready(&args).await == Some(0)
        })
        .await;
    }
    // A master that was restarted counts for MultiLock before its quarantine is over.
    assert_eq!(
        ready(&["-w", "30s", "--all"]).await,
        Some(0),
        "all have their votes"
    );
    servers[0].restart(Keep::Data).await;
    assert_eq!(ready(&["-w", "30s", "--policy", "multi"]).await, Some(0));
    let told_all = told(&["-w", "3s", "--all"]).await;
    assert_eq!(told_all.code, Some(69), "{told_all:?}");
    assert!(
        told_all.stderr.contains("1 of 3 masters is not ready"),
        "{told_all:?}"
    );
    assert_eq!(
        ready(&["-w", "30s", "--all"]).await,
        Some(0),
        "after its quarantine"
    );
    servers[0].kill().await;
    assert_eq!(ready(&["-w", "30s"]).await, Some(0), "a majority is ready");
    let told_multi = told(&["-w", "3s", "--policy", "multi"]).await;
    assert_eq!(told_multi.code, Some(69), "{told_multi:?}");
    assert!(
        told_multi.stderr.contains("1 of 3 masters is not ready"),
        "{told_multi:?}"
    );
    assert_eq!(ready(&["--policy", "4"]).await, Some(64));
    // Only a change of a configuration helps: a single unfit master is too many where all are needed.
    servers[0].restart(Keep::Nothing).await;
    let port = servers[1].port().to_string();
    servers[0].command(&["REPLICAOF", "127.0.0.1", &port]).await;
    for args in [&["--policy", "multi"][..], &["--all"]] {
        let told = told(&[&["-w", "3s"], args].concat()).await;
        assert_eq!(told.code, Some(78), "{args:?}: {told:?}");
    }
    assert_eq!(ready(&["-w", "30s"]).await, Some(0), "a majority is ready");
}

#[tokio::test]
async fn a_list_has_every_lock_and_its_waiters() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let oldest = held_everywhere(&masters.red_lock("z")).await;
    let _second = held_everywhere(&masters.red_lock("a")).await;
    let other = connect(urls(&servers)).await;
    let waiting = tokio::spawn(async move { other.red_lock("z").lock().await.map(drop) });
    let lists = |args: &[&str]| {
        let args: Vec<_> = ["list"].iter().chain(args).copied().map(str::to_owned).collect();
        let servers = &servers;
        async move {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            let told = ask(servers, &args).await;
            assert_eq!(told.code, Some(0), "{told:?}");
            told.stdout
        }
    };
    let in_order = async |args: &[&str]| {
        let told: serde_json::Value = serde_json::from_str(&lists(args).await).expect("JSON");
        let all = told.as_array().expect("a list").iter();
        all.map(|lock| lock["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    until("it waits", async || {
        lists(&["z", "--json"]).await.contains("\"waiting\": 1")
    })
    .await;
    assert_eq!(in_order(&["--json"]).await, ["a", "z"]);
    assert_eq!(in_order(&["--json", "--sort", "age"]).await, ["z", "a"]);
    assert_eq!(in_order(&["--json", "--sort", "waiters"]).await, ["z", "a"]);
    assert_eq!(in_order(&["--json", "b*"]).await, [""; 0]);
    let told = lists(&[]).await;
    let row = told
        .lines()
        .find(|line| line.trim_start().starts_with('z'))
        .expect("a row");
    for word in ["held", &oldest.holder().to_string(), "3 of 3", "ago"] {
        assert!(row.contains(word), "{word}: {told}");
    }
    assert!(told.ends_with("2 locks\n"), "{told}");
    oldest.unlock().await.expect("held");
    waiting.await.expect("no panic").expect("granted");
    let told = ask(&servers, &["list", ""]).await;
    assert_eq!(told.code, Some(64), "{told:?}");
    assert!(told.stderr.starts_with("multilock: PATTERN: "), "{told:?}");
    servers[0].kill().await;
    servers[1].kill().await;
    assert_eq!(ask(&servers, &["list"]).await.code, Some(69));
}

#[tokio::test]
async fn an_inspection_says_what_a_holder_is_doing() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a").about("rows 1 to 1000")).await;
    let holder = guard.holder().to_string();
    let reading = masters.red_lock("b").about("a page").read().lock().await;
    let _reading = reading.expect("free");
    let told = ask(&servers, &["inspect", "a", "b"]).await;
    assert!(
        told.stdout
            .contains(&format!("a held by {holder} (rows 1 to 1000) for ")),
        "{told:?}"
    );
    assert!(
        told.stdout.contains(&format!("b read by {holder} (a page) for ")),
        "{told:?}"
    );
    assert_eq!(
        told.stdout.matches("): rows 1 to 1000").count(),
        servers.len(),
        "{told:?}"
    );
    let told = ask(&servers, &["inspect", "a", "b", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(
        (&told[0]["about"], &told[0]["nodes"][1]["about"]),
        (&"rows 1 to 1000".into(), &"rows 1 to 1000".into())
    );
    assert_eq!(
        (&told[1]["about"], &told[1]["reading_about"][0]),
        (&serde_json::Value::Null, &"a page".into())
    );
}

#[tokio::test]
async fn a_change_is_a_line() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let mut command = multilock(&urls(&servers));
    let mut watching = command
        .args(["watch", "a", "--every", "20ms"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    // Masters may be a moment apart, which is a change of its own.
    let mut until = async |state: &str| {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last| last != state) {
            let line = timeout(WITHIN, lines.next_line()).await.expect("in time");
            let line: serde_json::Value =
                serde_json::from_str(&line.expect("text").expect("a line")).expect("JSON");
            assert!(line["at"].is_string() && line["name"] == "a", "{line}");
            seen.push(line["state"].as_str().expect("a word").to_owned());
        }
    };
    until("free").await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    until("held").await;
    guard.unlock().await.expect("held");
    until("free").await;
    watching.kill().await.expect("it runs");
}

#[tokio::test]
async fn a_writer_and_those_that_wait_to_read_are_told_as_such() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let _guard = held_everywhere(&masters.red_lock("a").write()).await;
    let mut waiting = Vec::new();
    for kind in [&["--shared"][..], &[]] {
        let mut command = multilock(&urls(&servers));
        command.args([&["run", "a"], kind, &["--", "true"]].concat());
        waiting.push(command.spawn().expect("the command"));
    }
    until("one waits to read, and one to write", async || {
        let told = ask(&servers, &["inspect", "a", "--json"]).await;
        let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
        let node = &told[0]["nodes"][0];
        assert_eq!(node["state"], "written", "{told:#}");
        told[0]["waiting"] == 2 && told[0]["waiting_to_read"] == 1
    })
    .await;
}

/// Its time grows from look to look.
#[tokio::test]
async fn a_wait_that_goes_on_is_no_change() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let _guard = held_everywhere(&masters.red_lock("a")).await;
    let mut waiting = multilock(&urls(&servers));
    let waiting = waiting.args(["run", "a", "--", "true"]).spawn();
    let _waiting = waiting.expect("the command");
    until("it waits", async || waiters(&servers[0], "a").await == 1).await;
    let mut command = multilock(&urls(&servers));
    let watching = command.args(["watch", "a", "--every", "20ms"]).spawn();
    let mut watching = watching.expect("the command");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut count = 0;
    while let Ok(line) = timeout(ms(1_000), lines.next_line()).await {
        count += 1;
        // Masters may be a moment apart.
        assert!(count < 10, "{line:?}");
    }
    assert!(count > 0);
}

#[tokio::test]
async fn a_name_is_taken_away_from_its_holder() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let holder = guard.holder().to_string();
    // Nobody can be asked.
    let told = ask(&servers, &["force-release", "a"]).await;
    assert_eq!(told.code, Some(64), "{told:?}");
    let told = ask(
        &servers,
        &["force-release", "a,b", "--yes", "--reason", "stuck, #1234"],
    )
    .await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.stdout, format!("a: taken away from {holder}\n"));
    until_free(&servers, "a").await;
    let told = ask(&servers, &["inspect", "a"]).await;
    let is_told =
        told.stdout.contains("a free, 0 waiting, taken away by ") && told.stdout.contains(": stuck, #1234");
    assert!(is_told, "{told:?}");
    // A name that nobody holds.
    for args in [
        &["force-release", "a", "--yes"][..],
        &["force-release", "a,b", "--yes"],
    ] {
        let told = ask(&servers, args).await;
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(
            told.stdout
                .ends_with(": nobody held it, nothing was taken away\n"),
            "{told:?}"
        );
    }
    // A name is shown as it is, though a message of the library may have such a word.
    let args = ["force-release", "AtLeast(3)", "--yes", "--if-holder", "x"];
    let told = ask(&servers, &args).await;
    assert!(told.stderr.starts_with("multilock: AtLeast(3) free"), "{told:?}");
    // A key that is no lock is left alone.
    servers[0].command(&["SADD", "c", "x"]).await;
    let told = ask(&servers, &["force-release", "c", "--yes"]).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(servers[0].exists("c").await);
    // A string may be another library's lock.
    servers[0].command(&["SET", "d", "x"]).await;
    let told = ask(&servers, &["inspect", "d"]).await;
    let row = told.stdout.lines().find(|line| line.contains("a string"));
    assert!(
        row.is_some_and(|row| row.contains("another library's lock, or a foreign key")),
        "{told:?}"
    );
    let told = ask(&servers, &["force-release", "c,d", "--yes"]).await;
    assert_eq!(told.code, Some(1), "{told:?}");
    assert_eq!(
        told.stdout,
        "d: taken away from another library's lock, or a foreign key\n"
    );
    assert!(told.stderr.contains("c is a set on "), "{told:?}");
    assert!(servers[0].exists("c").await && !servers[0].exists("d").await);
}

#[tokio::test]
async fn a_job_is_forgotten_and_done_again() {
    let servers = three(ARGS).await;
    let masters = connect(urls(&servers)).await;
    let job = masters.red_lock("report").once(ms(60_000));
    let ran = job.run(async |_| Ok::<_, ()>(1)).await;
    assert_eq!(ran, Ok(multilock::Once::Ran(1)));
    // Nobody can be asked.
    let told = ask(&servers, &["forget-done", "report"]).await;
    assert_eq!(told.code, Some(64), "{told:?}");
    let done = job.run(async |_| Ok::<_, ()>(2)).await;
    assert!(matches!(done, Ok(multilock::Once::Done { .. })), "{done:?}");
    let told = ask(&servers, &["forget-done", "report", "--yes"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.stdout, "report: forgotten on all masters\n");
    let again = job.run(async |_| Ok::<_, ()>(3)).await;
    assert_eq!(again, Ok(multilock::Once::Ran(3)));
    // One master does not answer, and may have the mark.
    servers[0].freeze().await;
    let told = ask(&servers, &["forget-done", "report", "--yes"]).await;
    servers[0].thaw().await;
    assert_eq!(told.code, Some(69), "{told:?}");
}

#[tokio::test]
async fn a_name_is_taken_away_from_the_holder_alone_that_is_meant() {
    let servers = three(ARGS).await;
    let masters = patient(urls(&servers)).client_label("job@web:12").connect();
    let masters = masters.await.expect("connected");
    let guard = held_everywhere(&masters.red_lock("a")).await;
    let full = guard.holder().redacted_owner().to_string();
    let hold = full.replace('…', "");
    let force = async |condition: &[&str]| {
        let args = [&["force-release", "a", "--yes"], condition].concat();
        ask(&servers, &args).await
    };
    let later = format!("{hold}0");
    for (condition, unmet) in [
        (&["--if-holder", "job@web:1"][..], "--if-holder"),
        (&["--if-holder", "job"], "--if-holder"),
        (&["--if-holder", "job@web:123"], "--if-holder"),
        (&["--if-holder", ""], "--if-holder"),
        (&["--if-hold", "00000000:1"], "--if-hold"),
        (&["--if-hold", later.as_str()], "--if-hold"),
        (&["--if-hold", &hold[..8]], "--if-hold"),
        (
            &["--if-holder", "job@web:1", "--if-hold", hold.as_str()],
            "--if-holder",
        ),
        (
            &["--if-holder", "job@web:12", "--if-hold", later.as_str()],
            "--if-hold",
        ),
    ] {
        let told = force(condition).await;
        assert_eq!(told.code, Some(1), "{condition:?}: {told:?}");
        let at = condition.iter().position(|word| *word == unmet).expect("given");
        let value = condition[at + 1];
        let seen = format!(
            ", by job@web:12 ({hold}): nothing was taken away, as no holder of it matches {unmet} {value:?}\n"
        );
        assert!(told.stderr.contains(&seen), "{condition:?}: {told:?}");
    }
    let told = ask(
        &servers,
        &["force-release", "a,b", "--yes", "--if-holder", "job@web:12"],
    )
    .await;
    assert_eq!(told.code, Some(1), "it does not hold the other name: {told:?}");
    guard.extend(ms(25_000)).await.expect("left alone");
    // The ways in which the hold can be named, each on a hold of its own.
    let told = force(&["--if-hold", &hold]).await;
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (Some(0), "a: taken away from job@web:12\n")
    );
    for way in ["label", "both", "log"] {
        let guard = held_everywhere(&masters.red_lock("a")).await;
        let full = guard.holder().redacted_owner().to_string();
        let hold = full.replace('…', "");
        let condition = match way {
            "label" => vec!["--if-holder", "job@web:12"],
            "both" => vec!["--if-holder", "job@web:12", "--if-hold", &hold],
            _ => vec!["--if-hold", &full],
        };
        let told = force(&condition).await;
        assert_eq!(told.code, Some(0), "{way}: {told:?}");
        guard.extend(ms(20_000)).await.expect_err("taken away");
    }
    // The next hold of the same client does not match the condition.
    let guard = held_everywhere(&masters.red_lock("a")).await;
    assert_eq!(force(&["--if-hold", &hold]).await.code, Some(1));
    guard.unlock().await.expect("left alone");
}

/// So that it can be named from outside.
#[tokio::test]
async fn a_program_knows_its_hold() {
    let servers = three(ARGS).await;
    let script = format!(
        "{PROGRAM} inspect a | grep -c \"($MULTILOCK_HOLD) \"
        {PROGRAM} inspect a --json | grep -c '\"hold\": \"'\"$MULTILOCK_HOLD\"
        {PROGRAM} force-release a --yes --if-hold $MULTILOCK_HOLD >/dev/null; echo $?"
    );
    let ended = ask(&servers, &["run", "a", "--policy", "multi", "-c", "--", &script]).await;
    assert_eq!(ended.stdout, "3\n4\n0\n", "{ended:?}");
}

#[tokio::test]
async fn a_shell_completes_and_a_page_tells() {
    for shell in ["bash", "zsh", "fish"] {
        let told = ask(&[], &["completions", shell]).await;
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(told.stdout.contains("force-release"), "{shell}");
    }
    let told = ask(&[], &["man", "run"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.contains("kill\\-after") && told.stdout.contains("124"),
        "{told:?}"
    );
    assert!(ask(&[], &["man"]).await.stdout.contains("inspect"));
    assert_eq!(ask(&[], &["man", "soon"]).await.code, Some(64));
}
