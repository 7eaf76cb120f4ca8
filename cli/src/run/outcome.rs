//! The end of a hold in words, for users that do not know the library.

use std::borrow::Cow;

use multilock::{Loss, LossCause, Unlocked, Vote};

use crate::say::Rough;

/// Reason why a hold was lost while the program ran.
pub(super) fn lost(loss: &Loss) -> Cow<'static, str> {
    let is_forced = || {
        loss.votes
            .iter()
            .any(|node| matches!(node.vote, Vote::Revoked { .. }))
    };
    Cow::Borrowed(match (loss.cause, loss.force()) {
        (LossCause::Expired, _) => "the lock was lost: its lease ended before it was renewed",
        (LossCause::TakenAway, Some(force)) => {
            return Cow::Owned(format!(
                "the lock was taken away by force (multilock force-release) {force}"
            ));
        }
        (LossCause::TakenAway, None) if is_forced() => {
            "the lock was taken away by force (multilock force-release)"
        }
        (LossCause::TakenAway, None) => "the lock was lost: too many masters have it for another holder",
        (LossCause::Forgotten, _) => {
            "the lock was lost: too many masters have forgotten it, as after a restart without their data"
        }
        _ => "the lock was lost",
    })
}

/// Message of a loss that is found when the lock is given back. Its cause is not known then.
pub(super) const FOUND_LOST: &str = "the lock was lost before it was given back: its lease had ended, it was taken away by \
                                     force, or the masters have forgotten it; another program may have run meanwhile";

/// End of a lock that was given back.
pub(super) fn given_back(unlocked: &Unlocked) -> String {
    match unlocked {
        Unlocked::KeptFor(rest) => format!("given back: the names stay locked for {}", Rough(*rest)),
        _ => String::from("given back: the names are free"),
    }
}
