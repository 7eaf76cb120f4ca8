//! Names of locks, which every command takes in the same form.

use multilock_test_support::{connect, held_everywhere, three, until_free};

use crate::stage::{PROGRAM, Said, multilock, run, said, urls};

const ARGS: &[&str] = &["--appendonly", "no"];
/// Verbs that take names, each with further arguments that let it end by itself.
const VERBS: [(&str, &[&str]); 5] = [
    ("run", &["--", "true"]),
    ("inspect", &[]),
    ("held", &[]),
    ("watch", &[]),
    ("force-release", &["--yes"]),
];

async fn ask(urls: &[String], args: &[&str]) -> Said {
    said(multilock(urls).args(args).spawn().expect("the command")).await
}

#[tokio::test]
async fn what_a_program_is_told_names_its_locks_to_every_command() {
    let servers = three(ARGS).await;
    let rows: [(&[&str], &[&str], &str); 5] = [
        (&["a"], &["a"], "a"),
        (&["a,b"], &["a", "b"], "a,b"),
        (&["a", "b"], &["a", "b"], "a,b"),
        (&["a,b", "c"], &["a", "b", "c"], "a,b,c"),
        (&[r"\-d", r"x\,y,z\\"], &["-d", "x,y", r"z\"], r"\-d,x\,y,z\\"),
    ];
    let script = format!(
        r#"printf '%s\n' "$MULTILOCK_NAMES"
        '{PROGRAM}' inspect "$MULTILOCK_NAMES" | grep -c ' held by '
        '{PROGRAM}' held "$MULTILOCK_NAMES" && '{PROGRAM}' force-release "$MULTILOCK_NAMES" --yes >/dev/null
        echo $?; '{PROGRAM}' held "$MULTILOCK_NAMES"; echo $?"#
    );
    for (args, names, told) in rows {
        let script = script.as_str();
        let args = [args, &["-c", "--", script]].concat();
        let ended = run(multilock(&urls(&servers)), &args).await;
        let count = names.len();
        assert_eq!(
            ended.stdout,
            format!("{told}\n{count}\n0\n1\n"),
            "{args:?}: {ended:?}"
        );
        for name in names {
            until_free(&servers, name).await;
        }
    }
}

/// The commands in a program ask the same masters about the same names as the one around it.
#[tokio::test]
async fn what_a_program_is_told_holds_with_the_options_for_the_masters() {
    let servers = three(ARGS).await;
    let nobody = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"].map(str::to_owned);
    let list = urls(&servers).join(",");
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("masters"), &list).expect("written");
    let script = format!(r#"cd /; '{PROGRAM}' held "$MULTILOCK_NAMES"; echo $?"#);
    for (args, nodes) in [
        (&["--namespace", "prod"][..], urls(&servers)),
        (&["--nodes", &list], nobody.to_vec()),
        (&["--nodes-file", "masters"], nobody.to_vec()),
    ] {
        let mut command = multilock(&nodes);
        command.current_dir(dir.path());
        let args = [&["a,b", "-n"], args, &["-c", "--", &script]].concat();
        let ended = run(command, &args).await;
        assert_eq!(ended.stdout, "0\n", "{args:?}: {ended:?}");
    }
    let mut command = multilock(&nobody);
    command.env_remove("MULTILOCK_NODES");
    command
        .env("MULTILOCK_NODES_FILE", "masters")
        .current_dir(dir.path());
    let ended = run(command, &["a,b", "-n", "-c", "--", &script]).await;
    assert_eq!(ended.stdout, "0\n", "{ended:?}");
    // The option overrides the variable for the program, too: both at once would be refused.
    std::fs::write(dir.path().join("others"), &nobody[0]).expect("written");
    let mut command = multilock(&nobody);
    command.env_remove("MULTILOCK_NODES");
    command.env("MULTILOCK_NODES_FILE", dir.path().join("others"));
    let args = ["a,b", "-n", "--nodes", &list, "-c", "--", &script];
    let ended = run(command, &args).await;
    assert_eq!(ended.stdout, "0\n", "{ended:?}");
    let told =
        r#"env | grep -E "^MULTILOCK_(NODE_T|CONN|DRIFT|QUAR|ALLOW|STRICT)" | sort; echo "$MULTILOCK_NODES""#;
    let with_login = urls(&servers).join(",").replace("//", "//default:secret@");
    let options = [
        "--node-timeout=4.5",
        "--connect-timeout=4s",
        "--drift-factor=0.02",
        "--quarantine=off",
        "--allow-eviction",
        "--strict-memory",
        "--nodes",
        &with_login,
    ];
    // A login is told to nobody. This user has no password, so that any is right.
    let args = [&["a", "-w", "0"], &options[..], &["-c", "--", told]].concat();
    let mut command = multilock(&nobody);
    command.env("MULTILOCK_QUARANTINE", "auto");
    let ended = run(command, &args).await;
    let expected = [
        "MULTILOCK_ALLOW_EVICTION=true",
        "MULTILOCK_CONNECT_TIMEOUT=4s",
        "MULTILOCK_DRIFT_FACTOR=0.02",
        "MULTILOCK_NODE_TIMEOUT=4s 500ms",
        "MULTILOCK_QUARANTINE=off",
        "MULTILOCK_STRICT=true",
        "",
    ];
    assert_eq!(ended.stdout.lines().collect::<Vec<_>>(), expected, "{ended:?}");
}

/// The names are those of the library.
#[tokio::test]
async fn a_name_with_a_comma_or_a_hyphen_can_be_named() {
    let servers = three(ARGS).await;
    let urls = urls(&servers);
    let masters = connect(urls.clone()).await;
    for (name, argument) in [("x,y", r"x\,y"), ("-d", r"\-d"), (r"D\job", r"D\\job")] {
        let guard = held_everywhere(&masters.red_lock(name)).await;
        let refused = ask(&urls, &["run", argument, "-n", "--", "true"]).await;
        assert_eq!(refused.code, Some(75), "{argument}: {refused:?}");
        assert_eq!(ask(&urls, &["held", argument]).await.code, Some(0), "{argument}");
        let told = ask(&urls, &["inspect", argument]).await;
        assert!(told.stdout.starts_with(&format!("{name} held by ")), "{told:?}");
        let forced = ask(&urls, &["force-release", argument, "--yes"]).await;
        assert_eq!(forced.code, Some(0), "{argument}: {forced:?}");
        until_free(&servers, name).await;
        drop(guard);
    }
}

#[tokio::test]
async fn what_would_be_another_name_than_meant_is_refused() {
    let servers = three(ARGS).await;
    let rows: [(&str, &[&str]); 6] = [
        (
            "a, b",
            &["'a, b'", r#"" b" has a blank"#, "allowed: names without one"],
        ),
        (
            " a",
            &["' a'", r#"" a" has a blank"#, "allowed: names without one"],
        ),
        ("a\t", &[r#""a\t" has a blank"#, "allowed: names without one"]),
        ("a,", &["'a,'", "a name is empty", "allowed: "]),
        (r"D\job", &[r"'D\job'", r"allowed after a \: "]),
        ("-d", &["'-d'", r#"to name a lock "-d", write '\-d'"#]),
    ];
    for (verb, rest) in VERBS {
        for (argument, says) in rows {
            let args = [&[verb, argument], rest].concat();
            let refused = ask(&urls(&servers), &args).await;
            assert_eq!(refused.code, Some(64), "{args:?}: {refused:?}");
            for say in says {
                assert!(refused.stderr.contains(say), "{args:?}, {say}: {refused:?}");
            }
            // Behind it stands the program.
            assert!(!refused.stderr.contains("'-- "), "{args:?}: {refused:?}");
        }
    }
    let usage = ask(&urls(&servers), &["man", "-d"]).await;
    assert!(!usage.stderr.contains("to name a lock"), "{usage:?}");
}

#[tokio::test]
async fn several_names_are_held_where_all_of_them_are() {
    let servers = three(ARGS).await;
    let urls = urls(&servers);
    let masters = connect(urls.clone()).await;
    let guard = held_everywhere(&masters.red_lock(["b", "c"])).await;
    for (args, code) in [
        (&["held", "b,c"][..], 0),
        (&["held", "c", "b"], 0),
        (&["held", "a,b"], 1),
        (&["held", "b", "c", "d"], 1),
    ] {
        assert_eq!(ask(&urls, args).await.code, Some(code), "{args:?}");
    }
    // A name on which too few masters agree, and a free name.
    servers[0].command(&["SADD", "e", "x"]).await;
    servers[1].kill().await;
    assert_eq!(ask(&urls, &["held", "b,e"]).await.code, Some(69));
    assert_eq!(ask(&urls, &["held", "e,f"]).await.code, Some(1));
    guard.unlock().await.expect("held");
}

/// The owner field of another library is data: the terminal gets its control characters escaped. In JSON it keeps its value.
#[tokio::test]
async fn control_characters_of_others_do_not_reach_the_terminal() {
    let servers = three(ARGS).await;
    let owner = "\u{1b}]0;\u{7f}\u{9b}31m:1";
    for server in &servers {
        server.command(&["HSET", "a", owner, "1"]).await;
        server.command(&["PEXPIRE", "a", "600000"]).await;
    }
    for server in &servers {
        server.command(&["HSET", "x\ny", "7d1e2c3b:1", "1"]).await;
    }
    let urls = urls(&servers);
    let told = ask(&urls, &["list"]).await;
    assert!(told.stdout.contains(r"x\ny"), "{told:?}");
    let escaped = r"\u{1b}]0;\u{7f}\u{9b}31";
    for (args, stays) in [
        (&["inspect", "a"][..], true),
        (&["force-release", "a", "--yes", "--if-holder", "other"], true),
        (&["run", "a", "-w", "1500ms", "-v", "--", "true"], true),
        (&["force-release", "a", "--yes"], false),
    ] {
        let said = ask(&urls, args).await;
        let text = format!("{}{}", said.stdout, said.stderr);
        let is_wild = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.contains(is_wild), "{args:?}: {text:?}");
        assert!(text.contains(escaped), "{args:?}: {text:?}");
        if stays {
            let said = ask(&urls, &["inspect", "a", "--json"]).await;
            assert!(!said.stdout.contains(is_wild), "{said:?}");
            let json: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
            let holder = json[0]["holder"].as_str().expect("a holder");
            assert!(holder.starts_with("\u{1b}]0;\u{7f}\u{9b}31"), "{holder:?}");
        }
    }
}
