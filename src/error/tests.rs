use std::sync::Arc;
use std::time::Duration;

use super::{
    ConnectError, ExtendError, InvalidInput, LockError, Loss, LossCause, Lost, RunError, Unfit, UnlockError,
};
use crate::values::last_force::LastForce;
use crate::values::master_set::MasterSet;
use crate::values::votes::{Vote, Votes};

const MS: Duration = Duration::from_millis(1);

fn late(took: Option<u32>) -> Vote {
    Vote::Late {
        within: 50 * MS,
        took: took.map(|ms| ms * MS + Duration::from_nanos(123_456)),
    }
}

fn quarantined() -> Vote {
    Vote::Quarantined { remaining: MS }
}

fn votes_of(votes: &[Vote]) -> Votes {
    let nodes: Vec<Arc<str>> = (0..votes.len()).map(|n| format!("m{n}").into()).collect();
    Votes::new(nodes.iter(), votes)
}

fn unreachable(votes: &[Vote]) -> String {
    let votes = votes_of(votes);
    LockError::Unreachable { votes }.to_string()
}

#[test]
fn a_loss_by_force_says_by_whom_when_and_why() {
    let force = LastForce::new(
        1_700_000_000_000_000,
        Some("ops@console:7".into()),
        Some("stuck".into()),
    );
    let force = Some(Arc::new(force));
    let lost = |cause, votes: &[Vote]| {
        let votes = votes_of(votes);
        Loss { cause, votes }.to_string()
    };
    let known = lost(LossCause::TakenAway, &[Vote::NotHeld, Vote::Revoked { force }]);
    let why =
        "the hold was lost: it was taken away by force by ops@console:7 at 2023-11-14T22:13:20Z: stuck (";
    assert!(known.starts_with(why), "{known}");
    let unknown = lost(LossCause::TakenAway, &[Vote::Revoked { force: None }]);
    assert!(unknown.contains("by force, or too many masters"), "{unknown}");
    assert!(lost(LossCause::Closed, &[]).contains("its client was closed"));
}

/// To release or to extend is not to grant.
#[test]
fn a_master_confirms_a_release_and_an_extension() {
    let votes = votes_of(&[Vote::Granted, Vote::NotHeld]);
    let answers = "m0: confirmed; m1: not held";
    let released = UnlockError::Unconfirmed {
        free_within: MS,
        votes: votes.clone(),
    };
    let lost = UnlockError::WasLost { votes: votes.clone() };
    let extended = ExtendError::NotExtended {
        validity: MS,
        votes: votes.clone(),
    };
    let gone = ExtendError::Lost { votes: votes.clone() };
    for text in [
        released.to_string(),
        lost.to_string(),
        extended.to_string(),
        gone.to_string(),
    ] {
        assert!(text.ends_with(answers), "{text}");
    }
    let granted = LockError::Unfenced { votes };
    assert!(
        granted.to_string().ends_with("m0: granted; m1: not held"),
        "{granted}"
    );
}

#[test]
fn masters_with_the_same_answer_share_it() {
    let refused = |ms| Vote::Refused {
        remaining: Some(MS * ms),
    };
    let votes = votes_of(&[refused(3), Vote::NotHeld, refused(3), refused(4), Vote::NotHeld]);
    assert_eq!(
        votes.to_string(),
        format!("m0, m2: {}; m1, m4: not held; m3: {}", refused(3), refused(4))
    );
}

#[test]
fn a_node_deadline_that_is_too_short_is_reported_as_what_is_in_the_way() {
    let set = "set MastersBuilder::node_timeout to more than they take: m0";
    let text = unreachable(&[late(Some(60)), late(Some(75)), late(None)]);
    let why = "no master answers in time: answers took up to 75ms, and are awaited for 50ms; ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");

    let text = unreachable(&[late(None), late(None)]);
    let why = "no master answers in time, which is within 50ms; if they are up, but that far away, ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");

    let text = unreachable(&[Vote::Granted, late(Some(60)), late(Some(60))]);
    let why = "too few masters answer in time: answers took up to 60ms, and are awaited for 50ms; ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");
}

/// The message blames the deadline only if nothing else can be the cause.
#[test]
fn masters_that_hang_or_are_gone_or_fail_are_not_reported_as_far() {
    let gone = || Vote::NotSent {
        reason: "refused".into(),
    };
    let failed = || Vote::Failed { error: "BUSY".into() };
    for (votes, why) in [
        (
            [Vote::Granted, late(None), late(None)],
            "too few masters answered: m0",
        ),
        (
            [gone(), late(Some(60)), late(Some(60))],
            "too few masters answered: m0",
        ),
        (
            [failed(), late(Some(60)), late(Some(60))],
            "too few masters answered: m0",
        ),
        (
            [failed(), failed(), Vote::Pending],
            "too many masters answered with an error: m0",
        ),
    ] {
        let text = unreachable(&votes);
        assert!(text.starts_with(why), "{text}");
    }
}

#[test]
fn a_quarantine_is_reported_with_its_cause() {
    let text = unreachable(&[quarantined(), quarantined()]);
    assert!(
        text.contains(
            "as each is for the longest lease after its first start, a restart, a promotion or a loss of its data"
        ),
        "{text}"
    );
    assert!(text.ends_with("m1: in quarantine for 1ms"), "{text}");
}

/// One error of each kind, with its class. A new kind has to be added to the list; the match below reminds of
/// it.
#[test]
fn every_error_is_now_later_or_never() {
    let votes = Votes::default;
    let contended = || LockError::Contended {
        holder: Some("web-1".into()),
        about: None,
        retry_after: 7 * MS,
        votes: votes(),
    };
    let timed_out = |last: LockError| LockError::TimedOut {
        waited: MS,
        last: Some(Box::new(last)),
    };
    let all = [
        contended(),
        timed_out(contended()),
        LockError::Unreachable { votes: votes() },
        LockError::Unfenced { votes: votes() },
        LockError::Misconfigured { votes: votes() },
        LockError::TooLate {
            validity: MS,
            votes: votes(),
        },
        timed_out(LockError::Unreachable { votes: votes() }),
        LockError::TimedOut {
            waited: MS,
            last: None,
        },
        LockError::Upgrade { held: "a".into() },
        LockError::Closed,
        LockError::Invalid(InvalidInput::new("wait", 1, "more")),
    ];
    for error in &all {
        let class = match error {
            LockError::Contended { .. } => 0,
            LockError::Unreachable { .. }
            | LockError::Unfenced { .. }
            | LockError::Misconfigured { .. }
            | LockError::TooLate { .. }
            | LockError::TimedOut { last: None, .. } => 1,
            LockError::TimedOut { last: Some(last), .. } => u8::from(!last.is_contended()),
            LockError::Upgrade { .. } | LockError::Closed | LockError::Invalid(_) => 2,
        };
        let classes = [error.is_contended(), error.is_unreachable(), error.is_permanent()];
        assert_eq!(classes, [class == 0, class == 1, class == 2], "{error}");
        let hints = (error.holder(), error.retry_after());
        let expected = if class == 0 {
            (Some("web-1"), Some(7 * MS))
        } else {
            (None, None)
        };
        assert_eq!(hints, expected, "{error}");
    }
}

/// Heading of the FAQ's entry that the message of a refusal links to.
fn entry_of(message: &str) -> Option<String> {
    let address =
        message.split_once("see https://docs.rs/multilock/latest/multilock/guide/faq/index.html#")?;
    let anchor = address.1.split([')', ' ']).next()?;
    Some(anchor.replace('-', " "))
}

/// One refusal of each kind. A new kind has to be added to the list; the match below reminds of it.
fn unfit() -> Vec<Unfit> {
    let kinds = vec![
        Unfit::Replica,
        Unfit::Cluster,
        Unfit::TooOld {
            version: "5".into(),
            needed: "6",
        },
        Unfit::SameServer { other: "m".into() },
        Unfit::Evicts {
            policy: "allkeys-lru".into(),
        },
        Unfit::OtherSet {
            reported_by: "m".into(),
            set: MasterSet {
                masters: 5,
                for_tests: None,
            },
            listed: MasterSet {
                masters: 3,
                for_tests: None,
            },
        },
        Unfit::Denied {
            error: "NOPERM".into(),
        },
        Unfit::UnknownEviction,
        Unfit::UnknownRole,
        Unfit::ScriptsNotAtomic {
            server: "Garnet".into(),
        },
        Unfit::NoScripts {
            error: "unknown command".into(),
        },
        Unfit::Sentinel,
    ];
    for (place, kind) in kinds.iter().enumerate() {
        let number = match kind {
            Unfit::Replica => 0,
            Unfit::Cluster => 1,
            Unfit::TooOld { .. } => 2,
            Unfit::SameServer { .. } => 3,
            Unfit::Evicts { .. } => 4,
            Unfit::OtherSet { .. } => 5,
            Unfit::Denied { .. } => 6,
            Unfit::UnknownEviction => 7,
            Unfit::UnknownRole => 8,
            Unfit::ScriptsNotAtomic { .. } => 9,
            Unfit::NoScripts { .. } => 10,
            Unfit::Sentinel => 11,
        };
        assert_eq!(place, number);
    }
    kinds
}

#[test]
fn a_message_without_votes_has_no_colon_at_its_end() {
    let text = ExtendError::Lost {
        votes: Votes::default(),
    }
    .to_string();
    assert!(text.ends_with("#lost)"), "{text}");
    let nodes = [Arc::from("m0")];
    let votes = Votes::new(nodes.iter(), &[Vote::NotHeld]);
    let text = ExtendError::Lost { votes }.to_string();
    assert!(text.contains("#lost): m0: "), "{text}");
}

#[test]
fn a_set_of_the_same_number_is_told_of_its_tests_alone() {
    let set = |masters, for_tests| MasterSet { masters, for_tests };
    let told = |set, listed| {
        let reported_by = "m".into();
        Unfit::OtherSet {
            reported_by,
            set,
            listed,
        }
        .to_string()
    };
    let text = told(set(3, Some(2000 * MS)), set(3, None));
    let cure = "this client lists 3 masters; set MastersBuilder::for_tests / MULTILOCK_FOR_TESTS alike in every client, \
                or, once no client uses m otherwise, run DEL multilock_set there";
    assert!(text.contains(cure), "{text}");
    let text = told(set(5, None), set(3, None));
    assert!(
        text.contains("3 masters; let every client list the same masters, or, "),
        "{text}"
    );
}

/// Messages of holds that have not ended as they were to.
fn ends_of_holds() -> [String; 8] {
    let votes = Votes::default;
    let loss = || Loss {
        cause: LossCause::Expired,
        votes: votes(),
    };
    [
        Lost.to_string(),
        loss().to_string(),
        RunError::<()>::Lost(loss()).to_string(),
        RunError::Overlapped {
            output: (),
            votes: votes(),
        }
        .to_string(),
        ExtendError::Lost { votes: votes() }.to_string(),
        ExtendError::NotExtended {
            validity: MS,
            votes: votes(),
        }
        .to_string(),
        UnlockError::WasLost { votes: votes() }.to_string(),
        UnlockError::Unconfirmed {
            free_within: MS,
            votes: votes(),
        }
        .to_string(),
    ]
}

#[test]
fn errors_name_their_entries_of_the_faq() {
    let page = include_str!("../../docs/faq.md");
    let headings: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let mut messages: Vec<String> = unfit().iter().map(ToString::to_string).collect();
    let unfit = ConnectError::Unfit {
        node: "m".into(),
        reason: Unfit::Replica,
    };
    let too_few = ConnectError::TooFew {
        reached: 0,
        needed: 1,
        nodes: Vec::new(),
    };
    messages.extend([unfit.to_string(), too_few.to_string()]);
    for field in ["nodes", "node", "MULTILOCK_NODES", "MULTILOCK_NODES_FILE"] {
        messages.push(InvalidInput::new(field, 0, "more").to_string());
    }
    let votes = Votes::default;
    messages.extend([
        LockError::Misconfigured { votes: votes() }.to_string(),
        LockError::Unfenced { votes: votes() }.to_string(),
        unreachable(&[quarantined()]),
        unreachable(&[late(None)]),
        unreachable(&[quarantined(), late(None)]),
        unreachable(&[Vote::Failed { error: "BUSY".into() }]),
        LockError::TooLate {
            validity: MS,
            votes: votes(),
        }
        .to_string(),
        LockError::Closed.to_string(),
    ]);
    messages.extend(ends_of_holds());
    let mut named: Vec<String> = Vec::new();
    for message in &messages {
        let entry = entry_of(message).unwrap_or_else(|| panic!("names no entry: {message}"));
        assert!(headings.contains(&&*entry), "no heading '{entry}': {message}");
        named.push(entry);
    }
    // Each entry about an error has to be named by some message, too.
    let of_errors =
        |chapter: &&str| chapter.starts_with("Refusals") || chapter.starts_with("The end of a hold");
    let of_errors = page.split("\n## ").filter(of_errors).flat_map(str::lines);
    for heading in of_errors.filter_map(|line| line.strip_prefix("### ")) {
        assert!(
            named.iter().any(|entry| entry == heading),
            "no message names '{heading}'"
        );
    }
}
