//! Reason why too few masters had a vote, for people.

use std::fmt;

use super::faq::Faq;
use super::lateness::Lateness;
use crate::time::rounded::Rounded;
use crate::values::votes::{Vote, Votes};

/// Reason why too few masters had a vote, for people.
pub(super) struct Voteless<'a>(pub(super) &'a Votes);

impl fmt::Display for Voteless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(late) = Lateness::of(self.0) {
            return late.fmt(f);
        }
        let (mut silent, mut failed, mut quarantine) = (false, false, None);
        for node in self.0 {
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
        match (silent, failed, quarantine) {
            (false, false, Some(remaining)) => write!(
                f,
                "too many masters are in quarantine, the last one for {}, as each is for the longest lease after its first \
                 start, a restart or a loss of its data; for tests that time is shorter with MastersBuilder::for_tests \
                 ({})",
                Rounded(remaining),
                Faq("quarantine")
            ),
            (false, true, None) => f.write_str("too many masters answered with an error"),
            (false, true, Some(_)) => {
                f.write_str("too many masters answered with an error or are in quarantine")
            }
            (true, _, None) => f.write_str("too few masters answered"),
            (true, _, Some(_)) => f.write_str("too few masters answered that are not in quarantine"),
            (false, false, None) => f.write_str("too few masters have answered by now"),
        }
    }
}
