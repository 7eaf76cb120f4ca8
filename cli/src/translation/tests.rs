use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use multilock::{
    ConnectError, LockError, Masters, MastersBuilder, NodeError, Policy, Unfit, UnlockError, Vote, Votes,
};
use tokio::time::sleep;

use super::*;
use crate::exit::Failure;

const SECOND: Duration = Duration::from_secs(1);

/// Words that a user of a shell cannot know.
const FOREIGN: [&str; 10] = [
    "::",
    "builder",
    "Builder",
    "Quarantine",
    "AtLeast",
    "LockSet",
    "CryptoProvider",
    "rustls",
    "tokio",
    "runtime",
];

/// A word of the library in a message, such as `TakenAway`: a capital letter inside of a word.
fn name_of_a_type(text: &str) -> Option<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphabetic());
    let known = |word: &&str| ["RedLock", "MultiLock"].contains(word);
    let is_one = |word: &&str| {
        let small = word.find(|letter: char| letter.is_ascii_lowercase());
        small.is_some_and(|at| word[at..].contains(|letter: char| letter.is_ascii_uppercase()))
    };
    words.filter(is_one).find(|word| !known(word))
}

#[track_caller]
fn check(message: impl fmt::Display) {
    let text = translated(&message);
    for word in FOREIGN {
        assert!(!text.contains(word), "{word:?} in {text:?}");
    }
    assert_eq!(name_of_a_type(&text), None, "{text:?}");
    assert_eq!(translated(&text), text, "once is enough");
}

fn unfit() -> Vec<Unfit> {
    vec![
        Unfit::Replica,
        Unfit::Sentinel,
        Unfit::Cluster,
        Unfit::TooOld {
            version: "5.0".into(),
            needed: "6.0",
        },
        Unfit::SameServer {
            other: "m1:6379".into(),
        },
        Unfit::Evicts {
            policy: "allkeys-lru".into(),
        },
        Unfit::UnknownEviction,
        Unfit::UnknownRole,
        Unfit::ScriptsNotAtomic {
            server: "Garnet".into(),
        },
        Unfit::NoScripts {
            error: "ERR unknown command".into(),
        },
        Unfit::Denied {
            error: "NOPERM no".into(),
        },
    ]
}

fn votes() -> Vec<Vote> {
    vec![
        Vote::Granted,
        Vote::Refused {
            remaining: Some(SECOND),
        },
        Vote::Refused { remaining: None },
        Vote::NotHeld,
        Vote::Revoked { force: None },
        Vote::Failed { error: "OOM".into() },
        Vote::NotSent {
            reason: "connection refused".into(),
        },
        Vote::Late {
            within: SECOND,
            took: None,
        },
        Vote::Late {
            within: SECOND,
            took: Some(SECOND),
        },
        Vote::Unknown {
            reason: "connection closed".into(),
        },
        Vote::Quarantined { remaining: SECOND },
        Vote::Pending,
    ]
}

#[test]
fn no_error_tells_of_the_library() {
    unfit().iter().for_each(check);
    votes().iter().for_each(check);
    let node: Arc<str> = "m1:6379".into();
    for reason in unfit() {
        let error = NodeError::Unfit(reason.clone());
        check(ConnectError::Unfit {
            node: Arc::clone(&node),
            reason,
        });
        check(ConnectError::TooFew {
            reached: 0,
            needed: 1,
            nodes: vec![(Arc::clone(&node), Some(error))],
        });
    }
    let votes = Votes::default;
    let errors = [
        LockError::Contended {
            holder: None,
            about: None,
            retry_after: SECOND,
            votes: votes(),
        },
        LockError::Contended {
            holder: Some("a@b:1".into()),
            about: Some(Arc::new("rows 1 to 1000".to_owned())),
            retry_after: SECOND,
            votes: votes(),
        },
        LockError::Unreachable { votes: votes() },
        LockError::Unfenced { votes: votes() },
        LockError::Misconfigured { votes: votes() },
        LockError::TooLate {
            validity: SECOND,
            votes: votes(),
        },
        LockError::Upgrade { held: "a".into() },
        LockError::Closed,
        LockError::TimedOut {
            waited: SECOND,
            last: None,
        },
    ];
    for error in errors {
        check(&error);
        check(LockError::TimedOut {
            waited: SECOND,
            last: Some(Box::new(error)),
        });
    }
    check(UnlockError::WasLost { votes: votes() });
    check(UnlockError::Unconfirmed {
        free_within: SECOND,
        votes: votes(),
    });
}

/// Errors with votes of masters.
#[tokio::test(start_paused = true)]
async fn no_refusal_by_masters_tells_of_the_library() {
    let (masters, cluster) = Masters::in_memory(3).await.expect("masters");
    let tests = cluster.connect(Masters::builder().for_tests(SECOND)).await;
    let other = tests.expect_err("another set").to_string();
    assert!(
        translated(&other).contains("is in a set of 3 masters, and this client lists 3 masters for tests"),
        "{other}"
    );
    check(other);
    cluster
        .iter()
        .for_each(|master| master.restart(multilock::sim::Keep::Data));
    sleep(SECOND / 2).await;
    let early = masters.red_lock("b").try_lock().await.expect_err("in quarantine");
    assert!(
        translated(&early).contains("from the first one on, sets --for-tests (see"),
        "{early}"
    );
    check(early);
    sleep(SECOND * 60).await;
    let guard = masters.red_lock("a").lock().await.expect("free");
    check(masters.red_lock("a").try_lock().await.expect_err("held"));
    cluster.iter().for_each(multilock::sim::Master::freeze);
    let late = masters.red_lock("b").try_lock().await.expect_err("frozen");
    check(late);
    sleep(SECOND * 60).await;
    check(guard.lost().await);
    check(guard.unlock().await.expect_err("lost"));
}

/// Values that are refused before any master is asked, by the option of the command that holds them.
#[tokio::test(start_paused = true)]
async fn a_value_is_refused_by_the_name_of_its_option() {
    let (masters, _) = Masters::in_memory(3).await.expect("masters");
    let over = |lock: multilock::MultiLock| async move {
        Failure::from(lock.try_lock().await.expect_err("refused"))
    };
    let lock = || masters.lock("a", Policy::RedLock);
    let rows = [
        (
            over(masters.lock("a", Policy::AtLeast(9))).await,
            "--policy: 9 is not allowed; allowed: 2 to 3 over 3 masters",
        ),
        (
            over(lock().lease(SECOND * 40)).await,
            "--lease: 40s is not allowed; allowed: 104ms to 30s; a hold is renewed for as long as it lives, and --max-hold bounds it",
        ),
        (
            over(lock().min_validity(SECOND * 40)).await,
            "--min-validity: 40s is not allowed; allowed: less than ",
        ),
        (
            over(lock().max_hold(SECOND)).await,
            "--max-hold: 1s is not allowed; allowed: ",
        ),
        (
            over(lock().at_least(SECOND * 60)).await,
            "--at-least: 1m is not allowed; allowed: ",
        ),
        (over(lock().about("x".repeat(257))).await, "--about: "),
        (
            over(masters.lock("multilock_a", Policy::RedLock)).await,
            "NAME: \"multilock_a\" is not allowed; allowed: ",
        ),
    ];
    for (failure, says) in rows {
        assert_eq!(failure.code, crate::exit::USAGE, "{failure:?}");
        let text = &failure.message;
        assert!(text.starts_with(says), "{text}");
        check(&failure.message);
    }
    let builder = || MastersBuilder::default().node("redis://127.0.0.1:1");
    let refused =
        |builder: MastersBuilder| async move { Failure::from(builder.connect().await.expect_err("refused")) };
    let rows = [
        (
            refused(builder().node_timeout(Duration::ZERO)).await,
            "--node-timeout: ",
        ),
        (
            refused(builder().connect_timeout(Duration::ZERO)).await,
            "--connect-timeout: ",
        ),
        (
            refused(builder().drift_factor(0.9)).await,
            "--drift-factor: 0.9 is not allowed",
        ),
        (
            refused(builder().lease(SECOND * 40)).await,
            "--lease: 40s is not allowed",
        ),
        (
            refused(builder().for_tests(SECOND / 100)).await,
            "--for-tests: 10ms is not allowed",
        ),
        (
            refused(builder().quarantine(multilock::Quarantine::For(SECOND))).await,
            "--quarantine: 1s is not allowed",
        ),
        (
            refused(builder().namespace("a b")).await,
            "--namespace: \"a b\" is not allowed",
        ),
        (
            refused(builder().client_label("")).await,
            "MULTILOCK_CLIENT_LABEL: \"\" is not allowed",
        ),
        (
            refused(MastersBuilder::default()).await,
            "--nodes: 0 is not allowed; allowed: 1 to 64 masters (see https://",
        ),
        (
            refused(MastersBuilder::default().node("redis:/secret")).await,
            "--nodes: number 1, … (no scheme) is not allowed",
        ),
    ];
    for (failure, says) in rows {
        assert_eq!(failure.code, crate::exit::USAGE, "{failure:?}");
        let text = &failure.message;
        assert!(text.starts_with(says), "{text}");
        check(&failure.message);
    }
}

#[test]
fn a_page_is_where_the_library_sends_its_readers() {
    let error = Unfit::Replica.to_string();
    assert!(error.ends_with(&format!("(see {})", page("replica"))), "{error}");
    assert!(page("too few").ends_with("#too-few"));
}

/// Every text between quotes in the sources is checked, so a new message is checked, too.
#[test]
fn no_text_of_the_library_tells_of_it() {
    let files = [
        "error",
        "values/votes.rs",
        "values/names.rs",
        "values/policy.rs",
        "masters/config.rs",
        "masters/env.rs",
        "masters/namespace.rs",
        "masters/client_label.rs",
        "masters/node_options.rs",
        "masters/credentials.rs",
        "masters/builder.rs",
        "lock/options.rs",
        "node/redis",
        "node/slot.rs",
        "node/keeper.rs",
        "protocol/fault.rs",
        "protocol/permissions.rs",
        "round",
    ];
    let mut count = 0;
    for file in files {
        for literal in literals(&root().join("src").join(file)) {
            if ["LockSet::", "side of a tokio runtime"]
                .iter()
                .any(|words| literal.contains(words))
                || literal == "runtime"
            {
                // The command takes no sets, and runs inside of a runtime.
                continue;
            }
            let text = translated(literal);
            let plain = ["::", "rustls"];
            let words = FOREIGN.iter().filter(|word| !plain.contains(word));
            for word in words.chain(&["MastersBuilder::", "Quarantine::", "Node::"]) {
                assert!(!text.contains(word), "{word:?} in {file}: {text:?}");
            }
            count += 1;
        }
    }
    assert!(count > 300, "{count} texts were looked at");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// String literals of a file or a folder, without those of tests and comments.
fn literals(path: &Path) -> Box<dyn Iterator<Item = String>> {
    if path.is_dir() {
        let entries = fs::read_dir(path)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        let is_product = |path: &PathBuf| path.is_dir() || !path.ends_with("tests.rs");
        let paths: Vec<PathBuf> = entries.filter(is_product).collect();
        return Box::new(paths.into_iter().flat_map(|path| literals(&path)));
    }
    let text = fs::read_to_string(path).expect("a text");
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && !line.contains("#[must_use"));
    let code: String = lines
        .flat_map(|line| [line, "\n"])
        .collect::<String>()
        .replace("'\"'", "''");
    let (mut rest, mut found) = (code.as_str(), Vec::new());
    while let Some((_, after)) = rest.split_once('"') {
        let (literal, after) = literal(after);
        found.push(literal);
        rest = after;
    }
    Box::new(found.into_iter())
}

/// Returns a literal up to its second quote, and the text after it.
fn literal(text: &str) -> (String, &str) {
    let (mut literal, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['"', '\\']) {
        literal.push_str(&rest[..at]);
        if rest[at..].starts_with('"') {
            return (literal, &rest[at + 1..]);
        }
        let escaped = &rest[at + 1..];
        // The text goes on in the next line after its indent, or with a sign.
        rest = escaped.strip_prefix('\n').map_or(escaped, str::trim_start);
        if !escaped.starts_with('\n') {
            literal.extend(rest.chars().next());
            rest = &rest[1..];
        }
    }
    (literal, "")
}
