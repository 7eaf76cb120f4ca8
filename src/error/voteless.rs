//! Reason why too few masters had a vote, for people.

use std::fmt;

use super::faq::Faq;
use crate::time::rounded::Rounded;
use crate::values::votes::{Vote, Votes};

/// Reason why too few masters had a vote, and the answers of all, for people.
pub(super) struct Voteless<'a>(pub(super) &'a Votes);

impl fmt::Display for Voteless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(votes) = self;
        let faq = Faq("too few answers");
        if let Some(late) = lateness(votes) {
            return write!(f, "{late}: {votes} ({faq})");
        }
        let (mut silent, mut failed, mut quarantine) = (false, false, None);
        for node in *votes {
            match &node.vote {
                Vote::NotSent { .. } | Vote::Late { .. } | Vote::Unknown { .. } => silent = true,
                Vote::Failed { .. } => failed = true,
                Vote::Quarantined { remaining } => quarantine = quarantine.max(Some(*remaining)),
                Vote::Granted
                | Vote::Refused { .. }
                | Vote::NotHeld
                | Vote::Revoked { .. }
                | Vote::Pending
                | Vote::NotAsked => {}
            }
        }
        let reason = match (silent, failed, quarantine) {
            (false, false, Some(remaining)) => {
                return write!(
                    f,
                    "too many masters are in quarantine, the last one for {}, as each is for the longest lease after its \
                     first start, a restart, a promotion or a loss of its data; for tests that time is shorter if \
                     every client of the masters, from the first one on, sets MastersBuilder::for_tests ({}): {votes}",
                    Rounded(remaining),
                    Faq("quarantine")
                );
            }
            (false, true, None) => "too many masters answered with an error",
            (false, true, Some(_)) => "too many masters answered with an error or are in quarantine",
            (true, _, None) => "too few masters answered",
            (true, _, Some(_)) => "too few masters answered that are not in quarantine",
            (false, false, None) => "too few masters have answered by now",
        };
        write!(f, "{reason}: {votes} ({faq})")
    }
}

/// Reason if only the node timeout is to blame: the masters are up, or may be, and answer later. `None` if there
/// is, or may be, another cause: some masters answered, and the others have never answered at all.
fn lateness(votes: &Votes) -> Option<String> {
    let (mut deadline, mut longest, mut none_answered) = (None, None, true);
    for node in votes {
        match &node.vote {
            Vote::Late { within, took } => {
                deadline = Some(*within);
                longest = longest.max(*took);
            }
            Vote::Granted
            | Vote::Refused { .. }
            | Vote::NotHeld
            | Vote::Revoked { .. }
            | Vote::Pending
            | Vote::NotAsked => none_answered = false,
            Vote::NotSent { .. } | Vote::Unknown { .. } | Vote::Failed { .. } | Vote::Quarantined { .. } => {
                return None;
            }
        }
    }
    let within = Rounded(deadline?);
    let who = if none_answered {
        "no master answers"
    } else {
        "too few masters answer"
    };
    match longest {
        Some(took) => Some(format!(
            "{who} in time: answers took up to {}, and are awaited for {within}; set \
             MastersBuilder::node_timeout to more than they take",
            Rounded(took)
        )),
        None => none_answered.then(|| {
            format!(
                "{who} in time, which is within {within}; if they are up, but that far away, set \
                 MastersBuilder::node_timeout to more than they take"
            )
        }),
    }
}
