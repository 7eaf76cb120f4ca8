//! Reason why too few masters had a vote, for people.

use std::fmt;

use super::faq::Faq;
use super::lateness::Lateness;
use crate::time::rounded::Rounded;
use crate::values::votes::{Vote, Votes};

/// Reason why too few masters had a vote, and the answers of all, for people.
pub(super) struct Voteless<'a>(pub(super) &'a Votes);

impl fmt::Display for Voteless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(votes) = self;
        let faq = Faq("too few answers");
        if let Some(late) = Lateness::of(votes) {
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
                     first start, a restart, a promotion or a loss of its data; for tests that time is shorter with \
                     MastersBuilder::for_tests ({}): {votes}",
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
