use std::sync::Arc;
use std::time::Duration;

use super::LockError;
use crate::votes::{Vote, Votes};

const MS: Duration = Duration::from_millis(1);

fn late(took: Option<u32>) -> Vote {
    Vote::Late {
        within: 50 * MS,
        took: took.map(|ms| ms * MS + Duration::from_nanos(123_456)),
    }
}

fn unreachable(votes: &[Vote]) -> String {
    let nodes: Vec<Arc<str>> = (0..votes.len()).map(|n| format!("m{n}").into()).collect();
    let votes = Votes::new(nodes.iter(), votes);
    LockError::Unreachable { votes }.to_string()
}

#[test]
fn a_node_deadline_that_is_too_short_is_told_as_what_is_in_the_way() {
    let set = "set MastersBuilder::node_timeout to more than they take: m0: ";
    let text = unreachable(&[late(Some(60)), late(Some(75)), late(None)]);
    let why = "no master answers in time: answers took up to 75ms, and are awaited for 50ms; ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");

    let text = unreachable(&[late(None), late(None)]);
    let why = "no master answers in time, which is within 50ms; where they are up but that far away, ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");

    let text = unreachable(&[Vote::Granted, late(Some(60)), late(Some(60))]);
    let why = "too few masters answer in time: answers took up to 60ms, and are awaited for 50ms; ";
    assert!(text.starts_with(&format!("{why}{set}")), "{text}");
}

/// What may be another's fault is not said to be the deadline's.
#[test]
fn masters_that_hang_or_are_gone_or_fail_are_not_told_as_far() {
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
